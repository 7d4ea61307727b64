# SPDX-License-Identifier: Apache-2.0
"""Many timers in one request: a line for each, and a line of answer for each."""

import http.client
import json
import socket
import time

import pytest

from conftest import SLOW, timer_body, wait_for

TYPE = {"Content-Type": "application/x-ndjson"}
MANY = 10000


def post(node, lines, headers=TYPE, end="\n"):
    answer = node.request("POST", "/timers", "\n".join(lines) + end, headers, timeout=60)
    return answer, [json.loads(line) for line in answer.body.decode().splitlines()] if answer.status == 200 else None


def test_each_line_is_answered_in_order(node, receiver):
    bodies = [timer_body(receiver.uri, 0.05 + i % 7 / 100, opaque=str(i)) for i in range(500)]
    answer, told = post(node, bodies)
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-ndjson"
    assert len(told) == 500 and len({one["location"] for one in told}) == 500
    receiver.wait(500)
    assert sorted(int(pop.body) for pop in receiver.pops) == list(range(500))
    at = {pop.headers["x-timer-id"]: int(pop.body) for pop in receiver.pops}
    assert [at[one["location"].split("/")[2]] for one in told] == list(range(500))  # in the order of the lines


def test_a_bad_line_spoils_itself_alone(node, receiver):
    good = timer_body(receiver.uri, 60)
    lines = [good, '{"timing":{"interval":1,"repeat_for":2}}', "{", good, "", "  ", "[]", good.replace("60", "-1"), good]
    answer, told = post(node, lines, {"Content-Type": "Application/X-NDJSON; charset=utf-8"})
    assert answer.status == 200 and len(told) == 7  # empty lines are none
    assert ["location" in one for one in told] == [True, False, False, True, False, False, True]
    assert {one["status"] for one in told if "status" in one} == {400}
    assert told[1]["errors"][0]["pointer"] == "#/timing/repeat_for" and told[2]["type"] == "about:blank"
    assert node.metrics()['tryst_timers{state="pending"}'] == 3


def test_ten_thousand_and_no_more(node, receiver):
    body = timer_body(receiver.uri, 3600)
    answer, told = post(node, [body] * MANY, end="")
    assert answer.status == 200 and sum("location" in one for one in told) == MANY
    assert node.metrics()['tryst_timers{state="pending"}'] == MANY
    assert post(node, [body] * (MANY + 1))[0].status == 413
    assert post(node, ["", " \r", ""])[0].status == 400
    assert post(node, [" " * (16 << 20) + body])[0].status == 413
    assert node.request("POST", "/timers", timer_body(receiver.uri, 60, opaque="x" * (2 << 20))).status == 413  # one alone may not be as large
    node.kill()
    node.start()
    assert node.metrics()['tryst_timers{state="pending"}'] == MANY


def test_lines_with_keys(node, receiver):
    def keyed(key):
        return timer_body(receiver.uri, 60)[:-1] + f', "idempotency-key": "{key}"}}'

    first = post(node, [keyed("a"), keyed("b"), keyed("a")])[1]
    assert first[0] == first[2] != first[1]
    assert post(node, [keyed("b")])[1][0] == first[1]
    assert node.request("POST", "/timers", timer_body(receiver.uri, 60), {"Idempotency-Key": "a"}).location == first[0]["location"]
    refused = post(node, [keyed("")])[1][0]
    assert refused["status"] == 400 and refused["errors"][0]["pointer"] == "#/idempotency-key"


def test_between_other_requests(node, receiver):
    """In a pipeline the answers come in the order of the requests."""
    body = timer_body(receiver.uri, 60)
    lines = f"{body}\n{body}\n{body}"
    single = f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    many = f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(lines)}\r\n\r\n{lines}"
    ping = "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    received = node.raw((single + many + ping + many + single + ping).encode()).decode()
    heads = [part.split("\r\n\r\n")[0] for part in received.split("HTTP/1.1 ")[1:]]
    assert [("chunked" in head, "Location" in head) for head in heads] == [(False, True), (True, False), (False, False), (True, False), (False, True), (False, False)]
    assert received.count('{"location":') == 6 and received.endswith("OK")


def test_a_client_of_http_1_0(node, receiver):
    lines = timer_body(receiver.uri, 60) + "\n" + timer_body(receiver.uri, 60)
    received = node.raw(f"POST /timers HTTP/1.0\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(lines)}\r\n\r\n{lines}".encode()).decode()
    assert "chunked" not in received and received.count('{"location":') == 2 and received.endswith("}\n")


def test_a_connection_cut_half_way_leaves_what_was_answered(node, receiver):
    """What was not whole sets nothing; of what was, all that is answered is there after a kill, too."""
    body = timer_body(receiver.uri, 3600)
    with socket.create_connection(("127.0.0.1", node.port), timeout=10 * SLOW) as stream:
        stream.sendall(f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {2 * len(body) + 1}\r\n\r\n{body}\n".encode())
    time.sleep(0.1)
    assert node.metrics()['tryst_timers{state="pending"}'] == 0
    text = "\n".join([body] * 5000)
    with socket.create_connection(("127.0.0.1", node.port), timeout=10 * SLOW) as stream:
        stream.sendall(f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        received = b""
        while received.count(b"location") < 300:
            piece = stream.recv(4096)
            assert piece
            received += piece
    node.kill()
    node.start()
    locations = [json.loads(line)["location"] for line in received.decode().split("\n") if line.startswith('{"location') and line.endswith("}")]
    assert len(locations) >= 299
    for location in locations[::10]:
        assert node.get(location).status == 200
    wait_for(lambda: node.metrics()['tryst_timers{state="pending"}'] >= len(locations), what="those that were answered")


def test_what_a_batch_is_not(node, receiver):
    body = timer_body(receiver.uri, 60)
    answer = node.request("POST", "/timers", body, {**TYPE, "Idempotency-Key": "k"})
    assert answer.status == 400 and b"each line" in answer.body
    large = timer_body(receiver.uri, 60, opaque="x" * (1 << 20))
    told = post(node, [body, large, body + "\0", body])[1]
    assert [one.get("status", 200) for one in told] == [200, 413, 400, 200] and "[limits] body" in told[1]["detail"]
    assert node.request("POST", "/timers", "x" * (2 << 20), {"Content-Type": "application/x-ndjsonx"}).status == 413
    received = node.raw(f"POST /timers HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert b"Connection: close" in received and received.endswith(b"\r\n0\r\n\r\n")
    odd = "\\u0001" * 200  # each of its letters takes six in an answer
    told = post(node, ['{"timing":{"%s":1}}' % odd, '{"timing":{"x":1,"%s":1,"%s":2}}' % (odd, odd), body])[1]
    assert [one.get("status", 200) for one in told] == [400, 400, 200]
    told = post(node, ["{"] * MANY)[1]  # more than are looked at in a turn
    assert len(told) == MANY and {one["status"] for one in told} == {400}


def test_who_never_reads_is_closed(nodes, receiver):
    node = nodes(config="[limits]\nidle-timeout-s = 1\n").start()
    text = "\n".join([timer_body(receiver.uri, 3600)] * MANY)
    request = f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(text)}\r\n\r\n{text}"
    with socket.socket() as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", node.port))
        stream.settimeout(20 * SLOW)
        stream.sendall(("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100 + request).encode())
        wait_for(lambda: node.metrics()["tryst_connections"] == 1, 20, "the connection is closed")


def test_a_slow_reader_holds_up_nobody(node, receiver):
    """It reads nothing; others go on, and when it reads, all of it is there."""
    body = timer_body(receiver.uri, 3600)
    text = "\n".join([body] * MANY)
    request = f"POST /timers HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
    with socket.socket() as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", node.port))
        stream.settimeout(20 * SLOW)
        stream.sendall(request)
        for _ in range(20):
            assert node.request("POST", "/timers", body).status == 200
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            piece = stream.recv(65536)
            assert piece, received[-100:]
            received += piece
    assert received.count(b'{"location":') == MANY


@pytest.mark.parametrize("count", [1, 40])
def test_many_batches_at_once(node, receiver, count):
    body = timer_body(receiver.uri, 3600)
    connections = [http.client.HTTPConnection("127.0.0.1", node.port, timeout=60) for _ in range(count)]
    for connection in connections:
        connection.request("POST", "/timers", "\n".join([body] * 1000), TYPE)
    for connection in connections:
        answer = connection.getresponse()
        told = [json.loads(line) for line in answer.read().decode().splitlines()]
        assert answer.status == 200 and len(told) == 1000
        assert all("location" in one for one in told), [one for one in told if "location" not in one][:3]
        connection.close()
    assert node.metrics()['tryst_timers{state="pending"}'] == 1000 * count
