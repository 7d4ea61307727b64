# SPDX-License-Identifier: Apache-2.0
"""`tryst import chronos`, from a stand-in that answers as the original does: in order of pop times, in pages that
begin at an offset from its own clock, with ids as signed numbers, and no more than 206 to say that there is more."""

import fcntl
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.parse

import pytest

from conftest import TRYST, wait_for

NODES = ["127.0.0.11:7253", "127.0.0.12:7254"]
VIEW = "4630052261198168324"  # of these two, as the original was seen to call them


class Original:
    """One node of Chronos: what it holds, by id: pops made, start (ms since 1970), interval (s), repeat-for, text."""

    def __init__(self, name, held, delay=0.0):
        self.name, self.held, self.delay, self.asked = name, held, delay, 0
        original = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                time.sleep(original.delay)
                original.asked += 1
                query = dict(part.split("=", 1) for part in urllib.parse.urlsplit(self.path).query.replace("&", ";").split(";"))
                known = query.get("cluster-view-id") == VIEW and query.get("node-for-replicas") in NODES
                status, body = original.page(query, int(self.headers.get("Range", 0))) if known else (400, b"")
                self.send_response(status)
                if status == 206:
                    self.send_header("Content-Range", self.headers["Range"])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        host, port = name.split(":")
        self.server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, query, most):
        now = time.time() * 1000
        after = now + int(query.get("time-from", 0))
        entries = []
        for number, (sequence, start, interval, repeat, text) in self.held.items():
            pop = start + (sequence + 1) * interval * 1000 + NODES.index(self.name) * 2000
            if "time-from" not in query or pop >= after:
                entries.append((pop, number, sequence, start, interval, repeat, text))
        entries.sort()
        taken = []
        for entry in entries:
            if len(taken) >= most and entry[0] != taken[-1][0]:
                break
            taken.append(entry)
        timers = [self.describe(now, *entry[1:]) for entry in taken]
        return (206 if len(taken) >= most else 200), json.dumps({"Timers": timers}).encode()

    def describe(self, now, number, sequence, start, interval, repeat, text):
        signed = number - 2**64 if number >= 2**63 else number
        timing = {"start-time": int(start) % 2**32, "start-time-delta": int(start - now), "sequence-number": sequence, "interval": interval, "repeat-for": repeat}
        callback = {"http": {"uri": f"http://127.0.0.1:9/{number}", "opaque": text}}
        statistics = {"tag-info": [{"type": "CALL", "count": 2}, {"type": "REG", "count": 1}]}
        return {"TimerID": signed, "OldReplicas": NODES, "Timer": {"timing": timing, "callback": callback, "reliability": {"cluster-view-id": VIEW, "replicas": NODES}, "statistics": statistics}}


@pytest.fixture
def originals():
    started = []
    lock = open(os.path.join(tempfile.gettempdir(), "tryst-import.lock"), "w")  # the addresses are those of the facts
    fcntl.flock(lock, fcntl.LOCK_EX)

    def start(*held, delay=0.0):
        for name, timers in zip(NODES, held):
            started.append(Original(name, timers, delay))
        return started

    yield start
    for original in started:
        original.server.shutdown()
        original.server.server_close()
    lock.close()


def run(node, *arguments):
    environment = {**os.environ, "TRYST_NODE": f"127.0.0.1:{node.port}"}
    return subprocess.run([TRYST, "import", "chronos", *arguments], capture_output=True, text=True, env=environment, timeout=120)


def listed(node):
    timers, cursor = {}, ""
    while True:
        page = node.get(f"/timers?limit=1000{cursor}").json()
        timers.update({int(timer["id"][:16], 16): timer for timer in page["timers"]})
        if "cursor" not in page:
            return timers
        cursor = f"&cursor={page['cursor']}"


def test_all_timers_come_with_their_times_and_once(node, originals):
    now = time.time() * 1000
    held = {(0xF000 << 48) + i: (i % 3, now - 1000 * (i % 50), 300 + i // 3, 100000, f"text {i} é") for i in range(4000)}
    behind = {number: (max(0, sequence - 1), *rest) for number, (sequence, *rest) in held.items() if number % 4 > 0}
    ahead = {number: timer for number, timer in held.items() if number % 4 < 3}
    originals(ahead, {**behind, **{number: timer for number, timer in held.items() if number % 4 == 3}}, delay=0.05)
    done = run(node, "--from", ",".join(NODES))
    assert done.returncode == 0 and "timers: 4000" in done.stdout, done.stdout + done.stderr
    found = listed(node)
    assert set(found) == set(held), "some were lost between the pages"
    for number in list(held)[::97]:
        sequence, start, interval, repeat, text = held[number]
        timer = found[number]
        assert timer["sequence-number"] == sequence + 1 and timer["timing"] == {"interval": interval, "repeat-for": repeat}
        assert timer["callback"]["http"] == {"uri": f"http://127.0.0.1:9/{number}", "opaque": text}
        assert timer["statistics"]["tag-info"] == [{"type": "CALL", "count": 2}, {"type": "REG", "count": 1}]
        assert timer["reliability"]["replication-factor"] == 2
        due = start + (sequence + 1) * interval * 1000
        assert due - 2 <= time.time() * 1000 + timer["next-pop-in-ms"] <= due + 3000


def test_it_may_be_run_again(node, originals, receiver):
    now = time.time() * 1000
    held = {0x1000 + i: (0, now - 500000, 1000, 5000, "x") for i in range(300)}
    originals(held, held)
    assert run(node, "--from", ",".join(NODES)).returncode == 0
    timer = f"{0x1000:016x}-2"
    before = node.get(f"/timers/{timer}").json()["version"]
    assert node.request("POST", f"/timers/{timer}/fire").status == 200
    wait_for(lambda: node.get(f"/timers/{timer}").json()["attempts"] > 0 or node.get(f"/timers/{timer}").json()["sequence-number"] > 1, what="the pop that was fired")
    held[0x9999] = (0, now, 1000, 1000, "new")
    assert run(node, "--from", ",".join(NODES)).returncode == 0
    found = listed(node)
    assert len(found) == 301 and found[0x1000]["version"] == before


def test_what_is_missing_is_told(node, originals):
    now = time.time() * 1000
    originals({1: (0, now, 1000, 1000, "x")})  # the second node is down
    done = run(node, "--from", ",".join(NODES))
    assert done.returncode == 1 and "1 of 2 nodes did not tell all" in done.stderr and "timers: 1" in done.stdout
    assert run(node, "--from", NODES[0]).returncode == 1, "the view of one node alone is another one"
    refused = run(node, "--from", NODES[0]).stderr
    assert "--from must name all nodes" in refused
    assert run(node, "--from", NODES[0], "--view", VIEW, "--dry-run").stdout == "timers to set: 1\n"
    assert run(node, "--view", VIEW).returncode == 2
