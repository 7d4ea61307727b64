# SPDX-License-Identifier: Apache-2.0
"""Every row of the interface, and every rule of the body."""

import json
import re
import socket
import time

import pytest

from conftest import timer_body, wait_for

ID = re.compile(r"^/timers/[0-9a-f]{16}-\d+-[0-9a-f]{16}$")
LONG = {"interval": 3600}


def test_post_creates(node, receiver):
    answer = node.create(receiver.uri, 3600)
    assert answer.status == 200 and answer.body == b"" and ID.match(answer.location)


def test_get_shows_what_was_set(node, receiver):
    tags = [{"type": "REG", "count": 2}, {"type": "CALL", "count": 1}]
    answer = node.create(receiver.uri + "/p?q=1", 60.25, 305, "text é \0", factor=3, tags=tags, **{"content-type": "text/css"})
    timer = node.get(answer.location + "?now=1").json()
    assert timer["timing"] == {"interval": 60.25, "repeat-for": 305}
    assert timer["callback"]["http"] == {"uri": receiver.uri + "/p?q=1", "opaque": "text é \0", "content-type": "text/css"}
    assert timer["reliability"] == {"replication-factor": 3}
    assert timer["statistics"]["tag-info"] == tags
    assert timer["state"] == "pending" and timer["sequence-number"] == 1
    assert 59000 < timer["next-pop-in-ms"] <= 60251
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", timer["next-pop"])
    assert timer["replicas"] == [f"127.0.0.1:{node.port}"]
    assert "/timers/" + timer["id"] == answer.location


def test_get_of_none_is_404(node):
    assert node.get("/timers/0123456789abcdef-2").status == 404


def test_put_replaces_and_restarts_the_sequence(node, receiver):
    location = node.create(receiver.uri + "/old", 0.2, 20).location
    receiver.wait(2)
    version = node.get(location).json()["version"]
    answer = node.request("PUT", location, timer_body(receiver.uri + "/new", 0.1, 0.3))
    assert answer.status == 200 and answer.location == location
    done = len(receiver.pops)
    wait_for(lambda: len([pop for pop in receiver.pops if pop.path == "/new"]) == 3, what="three pops")
    new = [pop for pop in receiver.pops if pop.path == "/new"]
    assert [pop.sequence for pop in new] == [1, 2, 3]
    assert new[0].headers["x-timer-version"] > version
    assert len([pop for pop in receiver.pops[done:] if pop.path == "/old"]) <= 1  # one may have been in flight


def test_put_creates_under_a_new_id(node, receiver):
    answer = node.request("PUT", "/timers/00000000deadbeef-1", timer_body(receiver.uri, 3600))
    assert answer.status == 200 and answer.location.startswith("/timers/00000000deadbeef-1-")
    assert node.get("/timers/00000000DEADBEEF-1").json()["reliability"]["replication-factor"] == 1


def test_put_of_another_factor_is_400(node, receiver):
    answer = node.request("PUT", "/timers/00000000deadbeef-1", timer_body(receiver.uri, 3600, factor=2))
    assert answer.status == 400 and "replication-factor" in answer.detail


def test_put_cannot_change_the_factor(node, receiver):
    location = node.create(receiver.uri, 3600, factor=2).location
    other = location.replace("-2-", "-3-")
    assert "replication factor" in node.request("PUT", other, timer_body(receiver.uri, 3600)).detail
    assert node.get(location).json()["reliability"]["replication-factor"] == 2


def test_delete_cancels_and_is_idempotent(node, receiver):
    location = node.create(receiver.uri, 0.3).location
    for _ in range(2):
        assert node.request("DELETE", location).status == 200
    assert node.get(location).status == 404
    time.sleep(0.5)
    assert receiver.pops == []


def test_delete_of_an_unknown_id_is_200_and_writes_no_record(node):
    before, start = node.metrics()["tryst_log_entries_total"], time.monotonic()
    for _ in range(50):
        assert node.request("DELETE", "/timers/0123456789abcdef-2").status == 200
    stamps = 1 + int(time.monotonic() - start + 1)  # of a second each, which are reserved in the log
    assert node.metrics()["tryst_log_entries_total"] <= before + stamps


def test_list_is_paged(node, receiver):
    wanted = {node.create(receiver.uri, 3600).location for _ in range(25)}
    seen, cursor = [], ""
    for _ in range(10):
        page = node.get(f"/timers?limit=7{cursor}").json()
        seen += ["/timers/" + timer["id"] for timer in page["timers"]]
        if "cursor" not in page:
            break
        cursor = "&cursor=" + page["cursor"]
    assert sorted(seen) == sorted(wanted)


def test_list_by_tag(node, receiver):
    a = node.create(receiver.uri, 3600, tags=[{"type": "A"}]).location
    node.create(receiver.uri, 3600, tags=[{"type": "B"}])
    timers = node.get("/timers?tag=A&scope=cluster").json()["timers"]
    assert ["/timers/" + timer["id"] for timer in timers] == [a]


def test_ping_and_health(node):
    assert node.get("/ping").body == b"OK"
    assert node.request("POST", "/ping").status == 200
    for path in ("/livez", "/readyz", "/healthz"):
        answer = node.get(path)
        assert answer.status == 200 and answer.json()["status"] == "ok"


@pytest.mark.parametrize(
    "method,path,allow",
    [
        ("PUT", "/timers", "GET, HEAD, POST, DELETE"),
        ("PATCH", "/timers/", "GET, HEAD, POST, DELETE"),
        ("POST", "/timers/0123456789abcdef-2", "GET, HEAD, PUT, DELETE"),
        ("PATCH", "/timers/0123456789abcdef-2", "GET, HEAD, PUT, DELETE"),
        ("GET", "/timers/0123456789abcdef-2/redrive", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_another_method_is_405(node, method, path, allow):
    answer = node.request(method, path)
    assert answer.status == 405 and answer.headers["allow"] == allow


@pytest.mark.parametrize("path", ["/", "/timersfoo", "/timers/abc", "/timers/0123456789abcdef", "/timers/0123456789abcdef-x", "/timer"])
def test_any_other_path_is_404(node, path):
    assert node.get(path).status == 404


def test_references_and_resync_listing(node):
    assert node.request("DELETE", "/timers/references", '{"IDs":[]}').status == 202
    assert node.get("/timers?node-for-replicas=a;cluster-view-id=b").status == 400


def test_interval_zero_pops_at_once_and_once(node, receiver):
    node.create(receiver.uri, 0)
    receiver.wait(1, 2)
    time.sleep(0.2)
    assert len(receiver.pops) == 1
    assert node.create(receiver.uri, 0, 5).status == 400


def test_a_pop_on_the_very_end_happens(node, receiver):
    node.create(receiver.uri, 0.1, 0.3)
    receiver.wait(3)
    time.sleep(0.3)
    assert [pop.sequence for pop in receiver.pops] == [1, 2, 3]


def test_repeat_for_rounds_down_to_whole_pops(node, receiver):
    node.create(receiver.uri, 0.1, 0.29)
    receiver.wait(2)
    time.sleep(0.3)
    assert len(receiver.pops) == 2


def test_repeat_for_below_the_interval_pops_once(node, receiver):
    node.create(receiver.uri, 0.2, 0.1)
    receiver.wait(1)
    time.sleep(0.3)
    assert len(receiver.pops) == 1


def test_decimals_are_exact_and_rounded_up(node, receiver):
    location = node.request("POST", "/timers", '{"timing":{"interval":0.0004},"callback":{"http":{"uri":"%s","opaque":""}}}' % receiver.uri).location
    assert location
    receiver.wait(1)
    timer = node.get(node.create(receiver.uri, 1234.5671).location).json()
    assert timer["timing"]["interval"] == 1234.568


def test_ten_years_ahead(node, receiver):
    timer = node.get(node.create(receiver.uri, 315576000).location + "?now=1").json()
    assert 315575990000 < timer["next-pop-in-ms"] <= 315576000001


@pytest.mark.parametrize("uri", ["foo", "", "ftp://h/", "http://", "http://h:0/", "/path", "http://a b/", "http://u:p@h/"])
def test_an_unusable_uri_is_400(node, uri):
    assert "callback.http.uri" in node.create(uri, 10).detail


@pytest.mark.parametrize("factor", [0, -1, 1.5, "2", 256, None, [2]])
def test_a_bad_factor_is_400(node, receiver, factor):
    body = json.loads(timer_body(receiver.uri, 10))
    body["reliability"] = {"replication-factor": factor}
    assert "replication-factor" in node.request("POST", "/timers", json.dumps(body)).detail


def test_a_factor_above_the_cluster_is_kept(node, receiver):
    answer = node.create(receiver.uri, 3600, factor=9)
    assert "-9-" in answer.location
    assert node.get(answer.location).json()["reliability"]["replication-factor"] == 9


def test_replicas_from_a_client_are_403(node, receiver):
    body = json.loads(timer_body(receiver.uri, 10))
    body["reliability"] = {"replicas": ["10.0.0.1:7253"]}
    assert node.request("POST", "/timers", json.dumps(body)).status == 403


def test_unknown_members_are_refused_with_a_pointer(node, receiver):
    body = json.loads(timer_body(receiver.uri, 3600))
    body["timing"]["repeat_for"] = 7200
    problem = node.request("POST", "/timers", json.dumps(body)).json()
    assert problem["status"] == 400 and "did you mean repeat-for?" in problem["detail"]
    assert problem["errors"] == [{"pointer": "#/timing/repeat_for", "detail": problem["detail"]}]
    assert "errors" not in node.request("POST", "/timers", "{").json()
    assert "did you mean limit?" in node.get("/timers?limits=5").detail


@pytest.mark.parametrize("method, path", [
    ("POST", "/timers?tag=a"),
    ("PUT", "/timers/0000000000000001-1?now=1"),
    ("PUT", "/timers/named/noon?tag=a"),
    ("DELETE", "/timers/0000000000000001-1?dry-run=yes"),
    ("POST", "/timers/0000000000000001-1/fire?sequence=1"),
    ("GET", "/timers/0000000000000001-1?tag=a"),
    ("GET", "/timers?dry-run=yes"),
    ("GET", "/pops?tag=a"),
    ("GET", "/cluster?scope=world"),
])
def test_parameters_of_other_requests_are_refused(node, receiver, method, path):
    kept = node.create(receiver.uri, 3600).location
    path = path.replace("/timers/0000000000000001-1", kept)
    body = timer_body(receiver.uri, 7200) if method in ("POST", "PUT") and "fire" not in path else None
    answer = node.request(method, path, body)
    assert answer.status == 400 and path.split("?")[1].split("=")[0] in answer.detail
    assert node.get(kept).json()["timing"]["interval"] == 3600, "and nothing is done"
    assert node.get("/timers/named/noon").status == 404


def test_probes_take_parameters_of_their_own(node):
    assert node.get("/readyz?verbose").status == 200 and node.get("/metrics?name=x").status == 200


def test_who_needs_it_has_unknown_members_ignored(nodes, receiver):
    node = nodes(config="[api]\nunknown-members = ignore\n").start()
    body = json.loads(timer_body(receiver.uri, 3600))
    body["timing"]["repeat_for"] = 7200
    body["callback"]["http"]["method"] = "GET"
    assert node.request("POST", "/timers", json.dumps(body)).status == 200


def test_members_of_no_object_and_of_the_original_are_ignored_and_doubles_refused(node, receiver):
    body = json.loads(timer_body(receiver.uri, 3600))
    body["timing"]["sequence-number"] = 7
    body["timing"]["start-time-delta"] = -5000
    body["whatever"] = {"a": [1, {}]}
    location = node.request("POST", "/timers", json.dumps(body)).location
    assert node.get(location).json()["sequence-number"] == 1
    doubled = '{"timing":{"interval":5,"interval":6},' + timer_body(receiver.uri).split(",", 1)[1]
    assert "twice" in node.request("POST", "/timers", doubled).detail


def test_other_callback_kinds_are_400(node):
    body = '{"timing":{"interval":5},"callback":{"smtp":{"uri":"http://h","opaque":""}}}'
    assert "callback" in node.request("POST", "/timers", body).detail


def test_limits_are_413(node, receiver):
    assert node.create(receiver.uri, 10, opaque="o" * 65536).status == 200
    assert node.create(receiver.uri, 10, opaque="o" * 65537).status == 413
    assert node.request("POST", "/timers", "x" * ((1 << 20) + 1)).status == 413


def test_expect_continue_is_answered(node, receiver):
    body = timer_body(receiver.uri, 3600).encode()
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as stream:
        stream.sendall(b"POST /timers HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert stream.recv(100).startswith(b"HTTP/1.1 100 ")
        stream.sendall(body)
        assert stream.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_an_idempotency_key_makes_one_timer(node, receiver):
    first = node.create(receiver.uri, 0.2, headers={"Idempotency-Key": "order-17"})
    again = node.create(receiver.uri, 0.2, headers={"Idempotency-Key": "order-17"})
    assert first.location == again.location
    receiver.wait(1)
    wait_for(lambda: node.get(first.location).status == 404, what="the end of the timer")
    late = node.create(receiver.uri, 0.2, headers={"Idempotency-Key": "order-17"})
    assert late.location == first.location
    time.sleep(0.5)
    assert len(receiver.pops) == 1
    assert node.create(receiver.uri, 0.2, headers={"Idempotency-Key": ""}).status == 400


def test_an_idempotency_key_outlives_a_restart(node, receiver):
    location = node.create(receiver.uri, 0.1, headers={"Idempotency-Key": "k"}).location
    receiver.wait(1)
    wait_for(lambda: node.get(location).status == 404)
    node.create(receiver.uri, 3600)  # answered when it is durable, and so is what came before
    node.kill()
    node.start()
    assert node.create(receiver.uri, 0.1, headers={"Idempotency-Key": "k"}).location == location
    time.sleep(0.4)
    assert len(receiver.pops) == 1


def test_tags_are_counted(node, receiver):
    def tagged(name):
        return node.metrics().get(f'tryst_timers_tagged{{tag="{name}"}}', 0)

    location = node.create(receiver.uri, 3600, tags=[{"type": "REG", "count": 3}, {"type": "REG"}]).location
    assert tagged("REG") == 4
    node.request("PUT", location, timer_body(receiver.uri, 3600, tags=[{"type": "CALL"}]))
    assert tagged("REG") == 0 and tagged("CALL") == 1
    node.request("DELETE", location)
    assert tagged("CALL") == 0
    node.create(receiver.uri, 0.05, tags=[{"type": "POP"}])
    receiver.wait(1)
    wait_for(lambda: tagged("POP") == 0, what="the tag's count to go")


def test_pipelined_requests_are_answered_in_order(node, receiver):
    body = timer_body(receiver.uri, 3600).encode()
    post = b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    ping = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"
    bad = b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n[]"
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as stream:
        stream.sendall((post + ping + bad + post) * 50)
        received = b""
        while received.count(b"HTTP/1.1 ") < 200:
            piece = stream.recv(65536)
            assert piece
            received += piece
    statuses = re.findall(rb"HTTP/1.1 (\d+)", received)
    assert statuses == [b"200", b"200", b"400", b"200"] * 50
    kinds = re.findall(rb"(Location|text/plain|problem\+json)", received)
    assert kinds == [b"Location", b"text/plain", b"problem+json", b"Location"] * 50


def test_head_has_no_body(node):
    answer = node.request("HEAD", "/ping")
    assert answer.status == 200 and answer.body == b"" and answer.headers["content-length"] == "2"


def test_connection_close_is_honoured(node):
    assert node.raw(b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", wait=False).endswith(b"OK")
    assert node.raw(b"GET /ping HTTP/1.0\r\n\r\n", wait=False).endswith(b"OK")


HOSTILE = {
    "array": b"[]",
    "empty object": b"{}",
    "empty": b"",
    "brackets": b"[" * 1000000,
    "objects": b'{"a":' * 100000,
    "nul": b"\0" * 100,
    "nul in a string": b'{"timing":{"interval":1},"callback":{"http":{"uri":"http://h/\\u0000","opaque":""}}}',
    "not utf-8": b'{"timing":{"interval":1},"callback":{"http":{"uri":"http://h/","opaque":"\xff\xfe"}}}',
    "huge number": b'{"timing":{"interval":' + b"9" * 100000 + b"}}",
    "huge exponent": b'{"timing":{"interval":1e999999999999}}',
    "negative": b'{"timing":{"interval":-5},"callback":{"http":{"uri":"http://h/","opaque":""}}}',
    "string": b'"timer"',
    "null": b"null",
    "number": b"1",
    "trailing": timer_body("http://h/").encode() + b"x",
    "cut": timer_body("http://h/").encode()[:-1],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_400(node, name):
    answer = node.request("POST", "/timers", HOSTILE[name])
    assert answer.status == 400 and answer.detail
    assert node.get("/ping").status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"b" * 20000,
        b"POST /timers HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /timers HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /timers HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
)
def test_hostile_bytes_get_an_answer_and_a_close(node, data):
    received = node.raw(data)
    assert re.match(rb"HTTP/1.1 (400|404|413|414|431|501) ", received), received[:100]
    assert node.get("/ping").status == 200


def test_a_line_that_is_no_request_is_taken_for_a_command(node):
    assert node.raw(b"nonsense\r\n\r\n").startswith(b"-ERR unknown command 'nonsense'")


def test_half_requests_and_resets(node):
    for cut in range(1, 60, 7):
        with socket.create_connection(("127.0.0.1", node.port)) as stream:
            stream.sendall(b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"[:cut])
    assert node.get("/ping").status == 200


def test_a_slow_loris_is_cut_off(nodes):
    node = nodes(config="[limits]\nidle-timeout-s = 1\n").start()
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as stream:
        stream.sendall(b"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Le")
        assert b" 408 " in stream.recv(1000)
        assert stream.recv(1000) == b""


def test_connections_over_the_limit_are_refused(nodes):
    node = nodes(config="[limits]\nconnections = 5\n").start()
    streams = [socket.create_connection(("127.0.0.1", node.port), timeout=5) for _ in range(8)]
    closed = 0
    for stream in streams:
        try:
            stream.sendall(b"GET /ping HTTP/1.1\r\n\r\n")
            closed += stream.recv(1000) == b""
        except ConnectionError:
            closed += 1
        finally:
            pass
    for stream in streams:
        stream.close()
    assert closed >= 3
    wait_for(lambda: node.get("/ping").status == 200)


def test_the_next_pop_is_the_same_however_often_it_is_read(node, receiver):
    location = node.create(f"{receiver.uri}/a", 3600).location
    told = {node.get(location).json()["next-pop"] for _ in range(300)}
    assert len(told) == 1, told
