# SPDX-License-Identifier: Apache-2.0
"""A real daemon on loopback, a real receiver, and no sleeping where something can be waited for."""

import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TRYSTD = os.environ.get("TRYSTD", str(ROOT / "build" / "trystd"))
TRYST = os.environ.get("TRYST", str(ROOT / "build" / "tryst"))
SLOW = float(os.environ.get("TRYST_SLOW", "1"))  # sanitized builds get more patience


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, seconds=10.0, what="it"):
    """Waits until `condition()` is true, and returns what it gave."""
    end = time.monotonic() + seconds * SLOW
    while True:
        is_last = time.monotonic() >= end  # who waits may have been the one that stood still
        value = condition()
        if value:
            return value
        if is_last:
            raise AssertionError(f"{what() if callable(what) else what} did not happen within {seconds * SLOW} s")
        time.sleep(0.005)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def location(self):
        return self.headers.get("location")

    def json(self):
        return json.loads(self.body)

    @property
    def detail(self):
        assert self.headers["content-type"] == "application/problem+json"
        problem = self.json()
        assert problem["status"] == self.status
        return problem["detail"]


class Node:
    def __init__(self, directory, port=None, config="", args=(), environment=None, data_dir=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.data_dir = data_dir or str(self.directory / "data")
        self.args = list(args)
        self.environment = environment or {}
        self.config = self.directory / "tryst.conf"
        self.config.write_text(config)
        self.log_path = self.directory / "log.txt"
        self.process = None

    def command(self):
        return [TRYSTD, "--config", str(self.config), "--listen", f"127.0.0.1:{self.port}", "--data-dir", self.data_dir, *self.args]

    def start(self, wait=True):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log, stdout=log, env={**os.environ, **self.environment}, cwd=self.directory)
        if wait:
            wait_for(self.is_ready, 20, f"{self.command()} ready")
        return self

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}: {self.log()}")
        try:
            answer = self.get("/readyz")
            return answer.status == 200 or b"starting" not in answer.body  # it may be full
        except OSError:
            return False

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=15):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds * SLOW)

    def request(self, method, path, body=None, headers=None, timeout=10):
        """As a client would: what is refused since the disk is slow, on a busy machine, is asked again."""
        for _ in range(20):
            answer = self.ask(method, path, body, headers, timeout)
            if answer.status != 503 or b"the disk is too slow" not in answer.body:
                break
            time.sleep(0.2)
        return answer

    def ask(self, method, path, body, headers, timeout):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def create(self, uri, interval=0.1, repeat=None, opaque="x", headers=None, **more):
        return self.request("POST", "/timers", timer_body(uri, interval, repeat, opaque, **more), headers)

    def settle(self):
        """Waits until all that was written so far is on disk: an answer to a write is not given before."""
        assert self.request("DELETE", "/timers/0000000000000001-2").status == 200

    def metrics(self):
        text = self.get("/metrics").body.decode()
        return {name: float(value) for name, value in re.findall(r"^(\S+(?:\{[^}]*\})?) (\S+)$", text, re.M)}

    def raw(self, data, wait=True):
        """Sends bytes and returns all that comes back until the node closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5 * SLOW) as stream:
            stream.sendall(data)
            if wait:
                stream.shutdown(socket.SHUT_WR)
            received = b""
            try:
                while piece := stream.recv(65536):
                    received += piece
            except (TimeoutError, ConnectionResetError):
                pass
            return received


def timer_body(uri, interval=0.1, repeat=None, opaque="x", factor=None, tags=None, **http_members):
    timing = {"interval": interval}
    if repeat is not None:
        timing["repeat-for"] = repeat
    body = {"timing": timing, "callback": {"http": {"uri": uri, "opaque": opaque, **http_members}}}
    if factor is not None:
        body["reliability"] = {"replication-factor": factor}
    if tags is not None:
        body["statistics"] = {"tag-info": tags}
    return json.dumps(body)


class Pop:
    def __init__(self, path, headers, body):
        self.at = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.path = path
        self.headers = headers
        self.body = body
        self.sequence = int(headers["x-sequence-number"])


class Receiver:
    """Answers by path: /status/503, /slow/0.5, /mute; anything else 200."""

    def __init__(self, context=None):
        self.pops = []
        self.status = 200
        self.retry_after = None
        self.release = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = [(name.lower(), value) for name, value in self.headers.items()]
                assert len(headers) == len(dict(headers)), "a header came twice"
                receiver.pops.append(Pop(self.path, dict(headers), body))
                parts = self.path.split("/")
                status = receiver.status
                if parts[1] == "status":
                    status = int(parts[2])
                elif parts[1] == "slow":
                    time.sleep(float(parts[2]))
                elif parts[1] == "mute":
                    receiver.release.wait(60)
                self.send_response(status)
                if receiver.retry_after is not None:
                    self.send_header("Retry-After", str(receiver.retry_after))
                if status // 100 == 3:
                    self.send_header("Location", "/elsewhere")
                if status not in (204, 304):
                    self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.port = self.server.server_address[1]
        self.uri = f"{scheme}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def wait(self, count, seconds=10.0):
        wait_for(lambda: len(self.pops) >= count, seconds, lambda: f"{count} pops (there are {len(self.pops)})")
        return self.pops

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def mount(tmp_path):
    """Makes small file systems, and ends them after the test."""
    made = []

    def make(size):
        folder = tmp_path / f"disk{len(made)}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
        if done.returncode != 0:
            pytest.skip("a small file system wants root")
        made.append(folder)
        return folder

    yield make
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def nodes(tmp_path):
    """Makes nodes, and ends them after the test."""
    made = []

    def make(**options):
        node = Node(tmp_path / f"node{len(made)}", **options)
        made.append(node)
        return node

    yield make
    for node in made:
        if node.process is not None and node.process.poll() is None:
            node.kill()
        shutil.rmtree(node.data_dir, ignore_errors=True)  # of all tests, logs would fill the disk of a small machine
        for line in node.log().splitlines() if node.log_path.exists() else []:
            assert "Sanitizer" not in line and "runtime error" not in line and "assertion" not in line.lower(), node.log()


QUICK = "[callback]\nbackoff-ms = 50\nattempts = 3\ntimeout-ms = 500\n"


@pytest.fixture
def node(nodes):
    return nodes(config=QUICK).start()
