# SPDX-License-Identifier: Apache-2.0
"""Bugs that were found by looking for them, and must not come back."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import QUICK, SLOW, TRYST, timer_body, wait_for
from test_durability import SMALL, flip, used_segments

TIGHT = "[storage]\nmemory-budget = 32M\n"


def fill(node, receiver, opaque, limit=100000):
    """Sets timers until the memory budget refuses; many on one connection, for speed."""
    body = timer_body(receiver.uri, 3600, opaque=opaque).encode()
    request = b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    stored = 0
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as stream:
        for _ in range(limit // 50):
            stream.sendall(request * 50)
            received = b""
            while received.count(b"HTTP/1.1 ") < 50:
                piece = stream.recv(1 << 20)
                assert piece
                received += piece
            stored += received.count(b" 200 OK")
            if b" 503 " in received:
                return stored
    raise AssertionError("the budget was never reached")


def test_a_damaged_header_of_the_last_segment_is_refused(node, receiver):
    for _ in range(5):
        node.create(receiver.uri, 3600)
    node.stop()
    flip(used_segments(node)[-1], 20)
    assert subprocess.run([TRYST, "log", "check", node.data_dir], capture_output=True).returncode == 1
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1 and "is damaged" in node.log()
    assert subprocess.run([TRYST, "log", "repair", node.data_dir], capture_output=True).returncode == 0
    node.start()
    assert len(node.get("/timers").json()["timers"]) == 5  # the batches are sound, whatever the header says


def test_a_node_with_full_memory_starts_again(nodes, receiver):
    node = nodes(config=TIGHT).start()
    stored = fill(node, receiver, "o" * 2000)
    location = "/timers/" + node.get("/timers?limit=1").json()["timers"][0]["id"]
    for _ in range(300):
        assert node.request("PUT", location, timer_body(receiver.uri, 3600, opaque="p" * 2000)).status in (200, 503)
    assert "memory budget" in node.log()
    node.kill()
    node.start()
    assert node.metrics()['tryst_timers{state="pending"}'] == stored


def test_a_large_record_grows_in_full_memory(nodes, receiver):
    node = nodes(config=TIGHT + QUICK).start()
    victim = node.create(receiver.uri + "/status/500", 2, opaque="v" * 65486).location
    fill(node, receiver, "o" * 60000, 2000)
    names = [timer["id"] for timer in node.get("/timers?limit=100").json()["timers"]]
    for name in names[::2]:
        if "/timers/" + name != victim:
            node.request("DELETE", "/timers/" + name)
    fill(node, receiver, "o" * 65530, 2000)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="failed"}'] >= 2, 10, "the victim's failures")
    assert node.get("/ping").status == 200


def test_a_timer_too_large_for_the_segments_is_told(nodes, receiver):
    node = nodes(config="[limits]\nopaque = 1M\nbody = 4M\n").start()
    node.create(receiver.uri, 3600, opaque="o" * 900000)
    node.stop()
    node.config.write_text(SMALL)
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1 and "too large for [storage] segment-size" in node.log()


def test_chunk_extensions_have_a_limit(node):
    with socket.create_connection(("127.0.0.1", node.port), timeout=20 * SLOW) as stream:
        stream.sendall(b"POST /timers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=")
        received = b""
        stream.settimeout(0.01)
        for _ in range(200):
            try:
                stream.sendall(b"b" * 65536)
                received = stream.recv(1000)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        assert received == b"" or b" 413 " in received
    assert int(open(f"/proc/{node.process.pid}/statm").read().split()[1]) * 4096 < 200 << 20 or "sanitize" in os.environ.get("TRYSTD", "") or "threads" in os.environ.get("TRYSTD", "")


def test_a_page_of_large_timers_is_cut_into_pages(node, receiver):
    wanted = {node.create(receiver.uri, 3600, opaque="o" * 60000).location for _ in range(60)}
    seen, cursor = set(), ""
    for _ in range(30):
        page = node.get("/timers?limit=1000" + cursor).json()
        seen |= {"/timers/" + timer["id"] for timer in page["timers"]}
        if "cursor" not in page:
            break
        cursor = "&cursor=" + page["cursor"]
    assert seen == wanted


def test_every_dead_pop_is_listed(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    for _ in range(7):
        node.create(receiver.uri + "/status/500", 0.01, 0.16)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 112, 20, "all dead")
    seen, cursor = [], ""
    for _ in range(50):
        page = node.get("/timers?state=dead&limit=5" + cursor).json()
        seen += [(timer["id"], timer["sequence-number"]) for timer in page["timers"]]
        if "cursor" not in page:
            break
        cursor = "&cursor=" + page["cursor"]
    assert len(seen) == len(set(seen)) == 112


def test_empty_segments_go_by_themselves(nodes, receiver):
    node = nodes(config=SMALL).start()
    locations = [node.create(receiver.uri, 3600, opaque="o" * 60000).location for _ in range(150)]
    assert node.metrics()["tryst_log_segments"] > 8
    for location in locations:
        node.request("DELETE", location)
    wait_for(lambda: node.metrics()["tryst_log_segments"] <= 2, 5, "the segments to go")


def test_stray_files_do_not_stop_a_start(node, receiver):
    location = node.create(receiver.uri, 3600).location
    node.stop()
    for i in range(1500):
        open(os.path.join(node.data_dir, f"{0x100 + i:016x}.segment"), "wb").close()
    node.start(wait=False)
    wait_for(lambda: node.process.poll() is not None or node.is_ready(), 10)
    if node.process.poll() is None:
        assert node.get(location).status == 200
    else:
        assert "missing" in node.log()


@pytest.mark.skipif("sanitize" not in os.environ.get("TRYSTD", ""), reason="only a sanitizer can see it")
def test_many_names_at_once(nodes, receiver):
    node = nodes(config="[callback]\nin-flight = 6000\nattempts = 1\n").start()
    stream = socket.create_connection(("127.0.0.1", node.port), timeout=60)
    for i in range(4500):
        body = timer_body(f"http://169.254.{i}/", 5).encode()
        stream.sendall(b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        while b"200 OK" not in stream.recv(4096):
            pass
    stream.close()
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 4500, 30)


def connect(node, receive_buffer=None):
    stream = socket.socket()
    if receive_buffer is not None:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    stream.settimeout(20)
    stream.connect(("127.0.0.1", node.port))
    return stream


def read_all(stream, pause=0.0):
    received = b""
    while piece := stream.recv(200_000):
        received += piece
        time.sleep(pause)
    return received


def post(uri, interval=3600, opaque="x"):
    body = timer_body(uri, interval, opaque=opaque).encode()
    return b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_what_was_asked_before_a_stop_is_answered(node, receiver):
    streams = [connect(node) for _ in range(20)]
    node.process.send_signal(signal.SIGSTOP)
    for index, stream in enumerate(streams):
        stream.sendall(post(receiver.uri) if index % 2 else b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n")
    node.process.send_signal(signal.SIGTERM)
    node.process.send_signal(signal.SIGCONT)
    for stream in streams[::2]:
        assert b" 200 " in read_all(stream)
    for stream in streams[1::2]:  # asked in the turn of the signal: done or refused, but answered
        assert re.match(rb"HTTP/1.1 (200|503) ", read_all(stream))
    assert node.process.wait(15) == 0


def test_an_answer_that_is_being_read_slowly_outlives_a_stop_and_the_idle_timeout(nodes, receiver):
    node = nodes(config="[limits]\nidle-timeout-s = 1\n").start()
    filler = connect(node)
    for _ in range(40):
        filler.sendall(post(receiver.uri, opaque="y" * 60_000))
        assert b" 200 " in filler.recv(4096)
    page = len(node.raw(b"GET /timers HTTP/1.1\r\nHost: h\r\n\r\n"))
    request = b"GET /timers HTTP/1.1\r\nHost: h\r\n\r\n"
    stream = connect(node, 4096)
    stream.sendall(request * 2 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    stream.recv(1)
    node.process.send_signal(signal.SIGTERM)
    assert len(read_all(stream, 0.003)) + 1 >= 3 * (page - 100)
    assert node.process.wait(15) == 0


def test_a_client_that_has_closed_its_side_gets_its_answers(node, receiver):
    answers = node.raw(post(receiver.uri) * 300)
    assert answers.count(b" 200 OK") == 300
    assert node.metrics()['tryst_timers{state="pending"}'] == 300


def test_what_follows_a_last_request_does_not_keep_the_connection(nodes, receiver):
    node = nodes(config="[limits]\nidle-timeout-s = 1\n").start()
    request = post(receiver.uri).replace(b"Host: h", b"Host: h\r\nConnection: close")
    streams = []
    for _ in range(5):
        streams.append(connect(node))
        streams[-1].sendall(request + b"x" * 20_000)
        assert b" 200 " in streams[-1].recv(4096)
    wait_for(lambda: node.metrics()["tryst_connections"] == 1, 10, "the connections are closed")


def test_a_body_that_waits_for_its_100_behind_another_request(node, receiver):
    body = timer_body(receiver.uri, 3600).encode()
    head = b"POST /timers HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    stream = connect(node)
    stream.sendall(post(receiver.uri) + head)
    received = b""
    while b"100 Continue" not in received:
        piece = stream.recv(4096)
        assert piece
        received += piece
    stream.sendall(body)
    while received.count(b" 200 OK") < 2:
        piece = stream.recv(4096)
        assert piece
        received += piece


def test_an_answer_that_came_before_the_connection_broke_counts(nodes):
    settings = "[callback]\nbackoff-ms = 60000\ntimeout-ms = 20000\n[limits]\nopaque = 2M\nbody = 4M\n[storage]\nsegment-size = 64M\n"
    node = nodes(config=settings).start()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        listener.settimeout(10)
        assert node.create(f"http://127.0.0.1:{listener.getsockname()[1]}/x", 0, opaque="q" * 1_500_000).status == 200
        stream, _ = listener.accept()
        stream.recv(300)
        time.sleep(0.3)  # the rest of the request is stuck in the node
        node.process.send_signal(signal.SIGSTOP)
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        stream.close()  # with unread bytes: a reset follows the answer
        time.sleep(0.1)
        node.process.send_signal(signal.SIGCONT)
        wait_for(lambda: node.metrics()['tryst_callbacks_total{class="2xx"}'] == 1, 10, "the answer is counted")


def test_connections_never_take_the_files_that_the_log_needs(nodes, receiver):
    node = nodes()
    node.command = lambda command=node.command(): ["prlimit", "--nofile=300:300", *command]
    node.start()
    idle = []
    for _ in range(400):
        try:
            idle.append(connect(node))
        except OSError:
            break

    def sets_one():
        try:
            return node.create(receiver.uri, 0).status == 200
        except OSError:  # refused: somebody has to leave
            idle.pop().close()
            return False

    wait_for(sets_one, 10, "a timer is set")
    receiver.wait(1)
    assert node.process.poll() is None


def test_too_few_files_are_said_at_the_start(nodes):
    node = nodes()
    node.command = lambda command=node.command(): ["prlimit", "--nofile=60:60", *command]
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1 and "raise the limit" in node.log()


def test_pipelined_requests_at_a_stop_are_stored_and_answered_or_neither(node, receiver):
    streams = [connect(node) for _ in range(5)]
    node.process.send_signal(signal.SIGSTOP)
    for stream in streams:
        stream.sendall(post(receiver.uri) * 10)
    node.process.send_signal(signal.SIGTERM)
    node.process.send_signal(signal.SIGCONT)
    answered = sum(read_all(stream).count(b" 200 OK") for stream in streams)
    assert node.process.wait(15) == 0
    node.start()
    assert node.metrics()['tryst_timers{state="pending"}'] == answered > 0


def test_clients_that_left_are_not_kept(nodes, receiver):
    node = nodes(config="[limits]\nidle-timeout-s = 30\n").start()
    last = post(receiver.uri).replace(b"Host: h", b"Host: h\r\nConnection: close")
    node.raw(last + b"\r\njunk")
    node.raw(post(receiver.uri) + b"\x01g\r\n\r\n")
    for tail in (b"\x01g\r\n\r\n", last + b"xx"):
        with connect(node) as stream:
            stream.sendall(post(receiver.uri) * 128 + tail)
            read_all(stream)
    wait_for(lambda: node.metrics()["tryst_connections"] == 1, 10, "the connections are closed")


def test_a_request_after_the_stop_does_not_cut_off_the_answers_before_it(node, receiver):
    filler = connect(node)
    for _ in range(40):
        filler.sendall(post(receiver.uri, opaque="y" * 60_000))
        assert b" 200 " in filler.recv(4096)
    request = b"GET /timers HTTP/1.1\r\nHost: h\r\n\r\n"
    page = len(node.raw(request))
    stream = connect(node, 4096)
    stream.sendall(request * 3)
    stream.recv(1)
    node.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    stream.sendall(request)
    assert len(read_all(stream, 0.001)) + 1 >= 3 * (page - 100)
    assert node.process.wait(15) == 0
