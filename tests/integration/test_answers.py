# SPDX-License-Identifier: Apache-2.0
"""What receivers answer with: its head decides, whatever becomes of its body."""

import re
import socket
import threading
import time

import pytest

from conftest import wait_for


class Answers:
    """A receiver that speaks for itself: `speak(stream)` answers one request, after which the connection is closed."""

    def __init__(self, speak):
        self.pops = 0
        self.speak = speak
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}/"
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                piece = stream.recv(65536)
                if not piece:
                    return
                request += piece
            head, _, body = request.partition(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head.lower())[1])
            while len(body) < size:
                body += stream.recv(65536)
            self.pops += 1
            try:
                self.speak(stream)
            except OSError:
                pass

    def close(self):
        """Only when nobody is about to accept: whoever gets the number of this file next would lose a connection to it."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def large(stream):
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n" + b"x" * 10485760)


def chunked(stream):
    stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(160):
        stream.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    stream.sendall(b"0\r\n\r\n")


def cut_short(stream):
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it")


def reset(stream):
    stream.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n")
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def bad_chunk(stream):
    stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno number\r\n")
    time.sleep(0.2)


def without_end(stream):
    stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(600):
        stream.sendall(b"and so on ")
        time.sleep(0.05)


def in_two(stream):
    """An answer that is kept waiting for its body is no failure either."""
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    time.sleep(0.3)
    stream.sendall(b"ok")


@pytest.mark.parametrize("speak", [large, chunked, cut_short, reset, bad_chunk, without_end, in_two])
def test_a_2xx_is_delivered_once_whatever_its_body(nodes, speak):
    node = nodes(config="[callback]\nbackoff-ms = 50\nattempts = 3\ntimeout-ms = 2000\n").start()
    receiver = Answers(speak)
    node.create(receiver.uri, 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="delivered"}'] == 1, 10, "it is delivered")
    time.sleep(0.5)  # longer than it would take to be tried again
    metrics = node.metrics()
    assert receiver.pops == 1
    assert metrics['tryst_pops_total{result="failed"}'] == metrics['tryst_pops_total{result="dead"}'] == 0
    receiver.close()


def test_a_status_that_is_no_success_counts_whatever_its_body(nodes):
    node = nodes(config="[callback]\nbackoff-ms = 50\nattempts = 2\n").start()
    receiver = Answers(lambda stream: stream.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\nsorry"))
    node.create(receiver.uri, 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 1, 10, "it is dead")
    assert receiver.pops == 2
    receiver.close()


@pytest.mark.parametrize("text", ["99999999", "18446744073709551617", "4000"])
def test_retry_after_is_an_hour_at_most(nodes, text):
    node = nodes(config="[callback]\nbackoff-ms = 50\nattempts = 3\n").start()
    receiver = Answers(lambda stream: stream.sendall(f"HTTP/1.1 503 No\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()))
    location = node.create(receiver.uri, 0.05).location
    timer = wait_for(lambda: (found := node.get(location + "?now=1").json())["attempts"] == 1 and found, 10, "the first attempt")
    assert 3500_000 < timer["next-pop-in-ms"] <= 3600_001
    receiver.close()


def test_a_crowd_of_dead_pops_is_summed_up_in_the_log(nodes):
    count = 5000
    node = nodes(config="[callback]\nbackoff-ms = 1\nattempts = 1\n").start()
    refused = socket.create_server(("127.0.0.1", 0))
    port = refused.getsockname()[1]
    refused.close()
    for _ in range(count):
        assert node.create(f"http://127.0.0.1:{port}/", 0.01).status == 200
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == count, 60, "all are dead")
    node.stop()
    log = node.log()
    said = len(re.findall(r"pop 1 is dead", log))
    left_out = sum(int(number) for number in re.findall(r"(\d+) more dead pops were not logged line by line", log))
    assert 1 <= said <= 60 and said + left_out == count, (said, left_out)
    assert len(log) < 40_000
