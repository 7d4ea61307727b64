# SPDX-License-Identifier: Apache-2.0
"""Bugs that were found by looking for them, and must not come back."""

import os
import socket
import subprocess

import pytest

from conftest import QUICK, TRYST, timer_body, wait_for
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
    assert node.process.wait(10) == 1 and "is damaged" in node.log()
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
    assert node.process.wait(10) == 1 and "too large for [storage] segment-size" in node.log()


def test_chunk_extensions_have_a_limit(node):
    with socket.create_connection(("127.0.0.1", node.port), timeout=20) as stream:
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
