# SPDX-License-Identifier: Apache-2.0
"""What applications ask of timers: when, names, conditions, callbacks, what became of them, many at once by a filter."""

import base64
import hashlib
import hmac
import http.server
import json
import signal
import socket
import ssl
import subprocess
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from conftest import QUICK, SLOW, TRYST, wait_for

WEBHOOK = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def body(uri, timing, opaque="x", **more):
    http_members = {name: more.pop(name) for name in list(more) if name in ("method", "headers", "timeout", "retry", "json", "content-type", "ce-type")}
    if "json" not in http_members:
        http_members["opaque"] = opaque
    return json.dumps({"timing": timing, "callback": {"http": {"uri": uri, **http_members}}, **more})


def instant(seconds):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def at_of(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def create(node, *arguments, **more):
    headers = more.pop("request_headers", None)
    answer = node.request("POST", "/timers", body(*arguments, **more), headers)
    assert answer.status == 200, answer.body
    return answer.location


# ---- when ----


def test_at_an_instant(node, receiver):
    at = instant(0.5)
    location = create(node, receiver.uri, {"at": at})
    shown = node.get(location).json()
    assert at_of(shown["timing"]["at"]) == at_of(at) and at_of(shown["next-pop"]) == at_of(at)
    pop = receiver.wait(1)[0]
    assert time.time() >= at_of(at) and at_of(pop.headers["ce-time"]) == at_of(at)
    wait_for(lambda: node.get(location).status == 404, what="the end of the timer")


def test_at_in_the_past_pops_at_once_and_owes_nothing_in_between(node, receiver):
    create(node, receiver.uri + "/once", {"at": "2001-01-01T00:00:00Z"})
    location = create(node, receiver.uri + "/often", {"at": "2001-01-01T00:00:00Z", "interval": 3600, "repeat-for": "forever"})
    receiver.wait(2)
    wait_for(lambda: node.get(location).json()["sequence-number"] == 2)
    assert at_of(node.get(location).json()["next-pop"]) > time.time()
    assert len(receiver.pops) == 2


def test_at_and_then_every_interval(node, receiver):
    at = instant(0.3)
    create(node, receiver.uri, {"at": at, "interval": 0.2, "count": 3})
    times = [at_of(pop.headers["ce-time"]) for pop in receiver.wait(3)]
    assert [round(moment - at_of(at), 3) for moment in times] == [0, 0.2, 0.4]


def test_cron_by_the_second(node, receiver):
    location = create(node, receiver.uri, {"cron": "*/1 * * * * *", "count": 3})
    assert len(node.get(location).json()["next-pops"]) == 3
    times = [at_of(pop.headers["ce-time"]) for pop in receiver.wait(3)]
    assert all(moment == int(moment) for moment in times) and times == [times[0], times[0] + 1, times[0] + 2]


def test_cron_shows_the_times_that_tryst_cron_shows(node, receiver):
    timing = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "overlap": "both"}
    shown = node.get(create(node, receiver.uri, timing)).json()
    words = [TRYST, "cron", "--zone", "Europe/Berlin", "--overlap", "both", timing["cron"]]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown["next-pops"] == [line.split("\t")[0] for line in lines]
    assert shown["timing"] == timing


def test_until(node, receiver):
    create(node, receiver.uri, {"interval": 0.2, "repeat-for": "forever", "until": instant(0.7)})
    receiver.wait(3)
    wait_for(lambda: node.get("/timers").json()["timers"] == [])
    assert len(receiver.pops) == 3
    refused = node.request("POST", "/timers", body(receiver.uri, {"interval": 10, "until": instant(1)}))
    assert refused.status == 400 and "never pops" in refused.detail


def test_jitter_is_the_same_after_a_restart(nodes, receiver):
    node = nodes(config=QUICK).start()
    location = create(node, receiver.uri, {"interval": 60, "jitter": 30, "count": 5})
    before = node.get(location).json()["next-pops"]
    gaps = [round(at_of(b) - at_of(a), 3) for a, b in zip(before, before[1:])]
    assert len(set(gaps)) > 1
    node.kill()
    after = node.start().get(location).json()["next-pops"]
    assert [round(at_of(b) - at_of(a), 3) for a, b in zip(after, after[1:])] == gaps


@pytest.mark.parametrize("missed,first,count", [("all", 2, 4), ("last", 5, 1), ("none", None, 0)])
def test_what_nobody_could_make(nodes, receiver, missed, first, count):
    """Of five pops, due at 0.3 s, 0.6 s and so on, four fall due while the node is down."""
    node = nodes(config=QUICK).start()
    create(node, receiver.uri, {"interval": 0.3, "count": 5, "missed": missed})
    receiver.wait(1)
    wait_for(lambda: "\"sequence-number\":2" in node.get("/timers").body.decode())
    node.settle()
    node.kill()
    time.sleep(1.6)
    node.start()
    wait_for(lambda: node.get("/timers").json()["timers"] == [])
    sequences = [pop.sequence for pop in receiver.pops[1:]]
    assert len(sequences) == count and (first is None or sequences[0] == first)


def test_a_cron_timer_is_made_once_across_kills(nodes, receiver):
    node = nodes(config=QUICK).start()
    create(node, receiver.uri, {"cron": "*/1 * * * * *", "missed": "all", "count": 8})
    for _ in range(3):
        count = len(receiver.pops)
        receiver.wait(count + 1)
        wait_for(lambda: f"\"sequence-number\":{receiver.pops[-1].sequence + 1}" in node.get("/timers").body.decode() or receiver.pops[-1].sequence == 8)
        node.settle()
        node.kill()
        node.start()
    receiver.wait(8, 20)
    assert [pop.sequence for pop in receiver.pops] == list(range(1, 9))
    times = [at_of(pop.headers["ce-time"]) for pop in receiver.pops]
    assert times == [times[0] + i for i in range(8)]


def test_the_wall_clock_is_set(nodes, receiver, tmp_path):
    """What goes by the wall clock follows it, and an interval does not."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    node = nodes(config=QUICK, environment={"TRYST_WALL_OFFSET_FILE": str(offset)}).start()
    create(node, receiver.uri + "/wall", {"at": instant(3600)})
    create(node, receiver.uri + "/interval", {"interval": 3600})
    offset.write_text("3601000")
    node.process.send_signal(signal.SIGHUP)
    assert receiver.wait(1)[0].path == "/wall"
    time.sleep(0.2)
    assert len(receiver.pops) == 1


def test_a_zone_file_that_changes_while_it_runs(nodes, receiver, tmp_path):
    zones = tmp_path / "zones"
    (zones / "Our").mkdir(parents=True)
    (zones / "Our" / "Place").write_bytes(open("/usr/share/zoneinfo/Etc/GMT", "rb").read())
    node = nodes(config=QUICK, environment={"TZDIR": str(zones)}).start()
    location = create(node, receiver.uri, {"cron": "0 12 * * *", "zone": "Our/Place"})
    assert node.get(location).json()["next-pop"].endswith("T12:00:00.000Z")
    (zones / "Our" / "Other").write_bytes(open("/usr/share/zoneinfo/Etc/GMT-3", "rb").read())
    (zones / "Our" / "Other").rename(zones / "Our" / "Place")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: node.get(location).json()["next-pop"].endswith("T09:00:00.000Z"))
    wait_for(lambda: "zone files have changed: 1 timers" in node.log())


def test_without_zone_files_there_is_utc(nodes, receiver, tmp_path):
    node = nodes(config=QUICK, environment={"TZDIR": str(tmp_path / "none")}).start()
    create(node, receiver.uri, {"cron": "0 9 * * *"})
    refused = node.request("POST", "/timers", body(receiver.uri, {"cron": "0 9 * * *", "zone": "Europe/Berlin"}))
    assert refused.status == 400 and "timing.zone" in refused.detail


@pytest.mark.parametrize(
    "timing,pointer",
    [
        ({}, "#/timing/interval"),
        ({"cron": "0 9 * *"}, "#/timing/cron"),
        ({"cron": "0 9 L * *"}, "#/timing/cron"),
        ({"cron": "0 9 * * *", "interval": 5}, "#/timing/cron"),
        ({"cron": "0 9 * * *", "repeat-for": 5}, "#/timing/repeat-for"),
        ({"interval": 5, "zone": "UTC"}, "#/timing/cron"),
        ({"cron": "0 9 * * *", "zone": "../etc/passwd"}, "#/timing/zone"),
        ({"cron": "0 9 * * *", "gap": "before"}, "#/timing/gap"),
        ({"cron": "0 9 * * *", "overlap": "none"}, "#/timing/overlap"),
        ({"interval": 5, "missed": "some"}, "#/timing/missed"),
        ({"interval": 5, "jitter": -1}, "#/timing/jitter"),
        ({"at": "09:00"}, "#/timing/at"),
        ({"at": 5}, "#/timing/at"),
        ({"interval": 5, "until": "soon"}, "#/timing/until"),
        ({"at": "2030-01-01T00:00:00Z", "count": 2}, "#/timing/count"),
        ({"interval": 5, "crom": "x"}, "#/timing/crom"),
    ],
)
def test_timing_that_is_wrong_says_where(node, receiver, timing, pointer):
    refused = node.request("POST", "/timers", body(receiver.uri, timing))
    assert refused.status == 400 and refused.json()["errors"][0]["pointer"] == pointer


# ---- names and conditions ----


def test_a_name(node, receiver):
    path = "/timers/named/user%207%2F%C3%A4"
    assert node.request("PUT", path, body(receiver.uri, {"interval": 60})).status == 200
    shown = node.get(path).json()
    assert shown["name"] == "user 7/ä"
    assert node.request("PUT", path, body(receiver.uri, {"interval": 70})).status == 200
    assert node.get(path).json()["timing"]["interval"] == 70
    assert node.get("/timers/" + shown["id"]).json()["name"] == "user 7/ä"
    assert len(node.get("/timers").json()["timers"]) == 1
    assert node.request("DELETE", path).status == 200 and node.get(path).status == 404


def test_names_that_are_words_of_paths(node, receiver):
    for name in ("fire", "redrive", "named"):
        assert node.request("PUT", f"/timers/named/{name}", body(receiver.uri, {"interval": 60})).status == 200
        assert node.get(f"/timers/named/{name}").json()["name"] == name
        assert node.request("POST", f"/timers/named/{name}/fire").status == 200
    assert len(receiver.wait(3)) == 3


@pytest.mark.parametrize("name", ["", "x" * 256, "%zz", "%"])
def test_a_name_that_is_none(node, receiver, name):
    assert node.request("PUT", f"/timers/named/{name}", body(receiver.uri, {"interval": 60})).status in (400, 404)


def test_names_outlive_a_restart(nodes, receiver):
    node = nodes(config=QUICK).start()
    node.request("PUT", "/timers/named/kept", body(receiver.uri, {"cron": "0 9 * * *", "zone": "Asia/Tokyo"}, headers={"X-A": "b"}))
    before = node.get("/timers/named/kept").json()
    node.kill()
    assert node.start().get("/timers/named/kept").json() == before


def test_create_only(node, receiver):
    for status in (200, 412):
        answer = node.request("PUT", "/timers/named/a", body(receiver.uri, {"interval": 60}), {"If-None-Match": "*"})
        assert answer.status == status
    assert answer.json()["type"].endswith("precondition-failed")


def test_if_match(node, receiver):
    location = create(node, receiver.uri, {"interval": 60})
    etag = node.get(location).headers["etag"]
    assert node.get(location).headers["etag"] == etag and "etag" not in node.get(location + "?now=1").headers
    assert node.request("GET", location, None, {"If-None-Match": etag}).status == 304
    for method in ("PUT", "DELETE"):
        sent = body(receiver.uri, {"interval": 60}) if method == "PUT" else None
        for wrong in ('"0000000000000000-1-0"', '"x"', "x", '"' + "1" * 300 + '"'):
            assert node.request(method, location, sent, {"If-Match": wrong}).status == 412
    assert node.request("PUT", location, body(receiver.uri, {"interval": 90}), {"If-Match": etag}).status == 200
    assert node.request("DELETE", location, None, {"If-Match": etag}).status == 412
    assert node.request("POST", location + "/fire", None, {"If-Match": etag}).status == 412
    assert node.request("DELETE", location, None, {"If-Match": "*"}).status == 200
    assert node.request("DELETE", location, None, {"If-Match": "*"}).status == 412


def test_an_idempotency_key(nodes, receiver):
    node = nodes(config=QUICK).start()
    sent = body(receiver.uri, {"interval": 60})
    first = node.request("POST", "/timers", sent, {"Idempotency-Key": '"k"'})
    again = node.request("POST", "/timers", sent, {"Idempotency-Key": "k"})
    assert first.location == again.location
    assert "idempotent-replayed" not in first.headers and again.headers["idempotent-replayed"] == "true"
    for _ in range(2):
        other = node.request("POST", "/timers", body(receiver.uri, {"interval": 61}), {"Idempotency-Key": "k"})
        assert other.status == 422 and other.json()["type"].endswith("idempotency-key-reused")
        node.request("DELETE", first.location)  # whatever became of the timer
        node.kill()
        node.start()
    assert node.request("POST", "/timers", sent, {"Idempotency-Key": "k"}).headers["idempotent-replayed"] == "true"
    assert node.get(first.location).status == 404


def test_the_answer_shows_the_timer_when_asked(node, receiver):
    answer = node.request("POST", "/timers", body(receiver.uri, {"cron": "0 9 * * *"}), {"Accept": "application/json"})
    assert answer.status == 200 and answer.location.endswith(answer.json()["id"]) and len(answer.json()["next-pops"]) == 5
    assert answer.json() == node.get(answer.location).json()


# ---- callbacks ----


class Whatever:
    """A receiver of any method, which keeps what came."""

    def __init__(self):
        came = self.came = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                size = self.headers["Content-Length"]
                came.append((self.command, dict(self.headers), self.rfile.read(int(size)) if size else None))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = handle_any

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def one(self):
        return wait_for(lambda: self.came and self.came.pop(0))


@pytest.fixture
def whatever():
    made = Whatever()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET", "DELETE"])
def test_methods_and_headers(node, whatever, method):
    create(node, whatever.uri, {"interval": 0}, method=method, headers={"Authorization": "Bearer x", "X-Two": "a b"})
    came, headers, data = whatever.one()
    assert came == method and headers["Authorization"] == "Bearer x" and headers["X-Two"] == "a b"
    assert data == (None if method == "GET" else b"x")


def test_json(node, whatever):
    create(node, whatever.uri, {"interval": 0}, json={"a": [1.5, "é\n", None]})
    _, headers, data = whatever.one()
    assert headers["Content-Type"] == "application/json" and json.loads(data) == {"a": [1.5, "é\n", None]}
    shown = node.get(create(node, whatever.uri, {"interval": 60}, json=["x"])).json()
    assert shown["callback"]["http"]["json"] == ["x"]


@pytest.mark.parametrize(
    "more,pointer",
    [
        ({"headers": {"Host": "x"}}, "#/callback/http/headers"),
        ({"headers": {"content-length": "1"}}, "#/callback/http/headers"),
        ({"headers": {"ce-id": "1"}}, "#/callback/http/headers"),
        ({"headers": {"X": "a\r\nY: b"}}, "#/callback/http/headers"),
        ({"headers": {"a b": "c"}}, "#/callback/http/headers"),
        ({"headers": {f"X-{i}": "1" for i in range(17)}}, "#/callback/http/headers"),
        ({"headers": {"X": "y" * 4096}}, "#/callback/http/headers"),
        ({"headers": {"X": 1}}, "#/callback/http/headers"),
        ({"method": "TRACE"}, "#/callback/http/method"),
        ({"timeout": 61}, "#/callback/http/timeout"),
        ({"timeout": 0}, "#/callback/http/timeout"),
        ({"retry": {"attempts": 4}}, "#/callback/http/retry/attempts"),
        ({"retry": {"attempt": 1}}, "#/callback/http/retry/attempt"),
        ({"retry": {"backoff": 90000}}, "#/callback/http/retry/backoff"),
        ({"ce-type": "a b"}, "#/callback/http/ce-type"),
    ],
)
def test_callbacks_that_are_wrong_say_where(node, receiver, more, pointer):
    refused = node.request("POST", "/timers", body(receiver.uri, {"interval": 5}, **more))
    assert refused.status == 400 and refused.json()["errors"][0]["pointer"] == pointer, refused.body


def test_json_and_opaque_are_not_both(node, receiver):
    both = {"timing": {"interval": 5}, "callback": {"http": {"uri": receiver.uri, "opaque": "x", "json": 1}}}
    assert node.request("POST", "/timers", json.dumps(both)).status == 400


def test_a_policy_of_its_own(node, receiver):
    receiver.status = 500
    create(node, receiver.uri, {"interval": 0}, retry={"attempts": 2, "backoff": 0.2})
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"])
    assert len(receiver.pops) == 2 and receiver.pops[1].at - receiver.pops[0].at > 0.15


def test_gone_is_final(node, receiver):
    receiver.status = 410
    create(node, receiver.uri, {"interval": 0})
    dead = wait_for(lambda: node.get("/timers?state=dead").json()["timers"])
    assert len(receiver.pops) == 1 and dead[0]["last-attempt"]["status"] == 410


def test_a_timeout_of_its_own(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\ntimeout-ms = 300\n").start()
    create(node, receiver.uri + "/slow/1", {"interval": 0}, timeout=5)
    create(node, receiver.uri + "/slow/2", {"interval": 0})
    states = wait_for(lambda: (found := node.get("/pops").json()["pops"]) and len(found) == 2 and found, 5)
    assert {pop["uri"][-1]: pop["state"] for pop in states} == {"1": "delivered", "2": "dead"}


def test_retry_after_a_date(nodes, receiver):
    node = nodes(config="[callback]\nbackoff-ms = 50\n").start()
    receiver.status = 503
    receiver.retry_after = (datetime.now(timezone.utc) + timedelta(seconds=600)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    location = create(node, receiver.uri, {"interval": 0})
    wait_for(lambda: node.get(location).json()["attempts"] == 1)
    assert 500_000 < node.get(location + "?now=1").json()["next-pop-in-ms"] < 600_000


def signature(secret, headers, data):
    """Ten lines of docs/api.md, nearly."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), data])
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


def test_signatures(nodes, whatever, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text(WEBHOOK + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {secrets}\n").start()
    create(node, whatever.uri, {"interval": 0}, "signed é")
    _, headers, data = whatever.one()
    headers = lower(headers)
    assert headers["webhook-id"] == headers["ce-id"]
    assert headers["webhook-signature"] == signature(WEBHOOK, headers, data)
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


def test_secrets_are_rotated_under_load(nodes, receiver, tmp_path):
    secrets = tmp_path / "secrets"
    other = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    secrets.write_text(WEBHOOK + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {secrets}\n").start()
    for i in range(40):
        create(node, receiver.uri, {"interval": 0.05, "count": 10})
        if i in (10, 20, 30):
            secrets.write_text({10: f"# both\n{other}\n{WEBHOOK}\n", 20: other + "\n", 30: "broken\n"}[i])
            node.process.send_signal(signal.SIGHUP)
    receiver.wait(400, 20)
    for pop in receiver.pops:
        both = {signature(secret, pop.headers, pop.body) for secret in (WEBHOOK, other)}
        given = set(pop.headers["webhook-signature"].split(" "))
        assert given and given <= both
    wait_for(lambda: "secret-file" in node.log())


def test_a_missing_secret_refuses_the_start(nodes, tmp_path):
    node = nodes(config=f"[webhook]\nsecret-file = {tmp_path}/none\n").start(wait=False)
    assert node.process.wait(10 * SLOW) == 2 and "secret-file" in node.log()


def test_secrets_for_a_destination(nodes, whatever, receiver, tmp_path):
    (tmp_path / "own").write_text(WEBHOOK + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {receiver.uri} {tmp_path}/own\n").start()
    create(node, whatever.uri, {"interval": 0})
    create(node, receiver.uri, {"interval": 0})
    assert "webhook-signature" not in lower(whatever.one()[1])
    assert "webhook-signature" in receiver.wait(1)[0].headers


def test_receive_checks_signatures(nodes, tmp_path):
    (tmp_path / "good").write_text(WEBHOOK + "\n")
    (tmp_path / "bad").write_text("whsec_" + base64.b64encode(bytes(32)).decode() + "\n")
    node = nodes(config=f"[callback]\nattempts = 1\n[webhook]\nsecret-file = {tmp_path}/good\n").start()
    for which, status in (("good", 200), ("bad", 401)):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        receive = subprocess.Popen([TRYST, "receive", address, "--count", "1", "--secret-file", f"{tmp_path}/{which}"], stdout=subprocess.PIPE, text=True)
        assert "receiving" in receive.stdout.readline()
        create(node, f"http://{address}/{which}", {"interval": 0})
        assert receive.wait(10 * SLOW) == 0
        pop = wait_for(lambda: [found for found in node.get("/pops").json()["pops"] if found["uri"].endswith(which)])
        assert pop[0]["status"] == status


def test_traces(nodes, whatever):
    node = nodes(config=QUICK).start()
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    sampled = {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "a=1"}
    create(node, whatever.uri, {"interval": 0}, request_headers=sampled)
    headers = lower(whatever.one()[1])
    version, came, span, flags = headers["traceparent"].split("-")
    assert (version, came, flags) == ("00", trace, "01") and span != parent and headers["tracestate"] == "a=1"
    for unsampled in ({"traceparent": f"00-{trace}-{parent}-00"}, {"traceparent": "00-x"}, {"traceparent": f"00-{'0' * 32}-{parent}-01"}, {}):
        create(node, whatever.uri, {"interval": 0}, request_headers=unsampled)
        assert "traceparent" not in lower(whatever.one()[1])
    create(node, whatever.uri, {"interval": 0.05, "count": 2}, request_headers=sampled)
    traces = {lower(whatever.one()[1])["traceparent"].split("-")[1] for _ in range(2)}
    assert len(traces) == 2 and trace not in traces


def test_cloud_events(nodes, whatever):
    node = nodes(config=QUICK.replace("[callback]\n", "[callback]\nce-source = https://example.org/tryst\n")).start()
    node.request("PUT", "/timers/named/Euro%20%E2%82%AC%20%F0%9F%98%80", body(whatever.uri, {"interval": 0}, **{"ce-type": "org.example.reminder"}))
    headers = lower(whatever.one()[1])
    assert headers["ce-specversion"] == "1.0" and headers["ce-source"] == "https://example.org/tryst" and headers["ce-type"] == "org.example.reminder"
    assert headers["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    create(node, whatever.uri, {"interval": 0})
    headers = lower(whatever.one()[1])
    assert headers["ce-type"] == "io.tryst.timer.pop" and "ce-subject" not in headers


# ---- what became of it ----


def dead_ends(tmp_path):
    """A URI for each way in which an attempt fails, and how that is told."""
    refused = socket.socket()
    refused.bind(("127.0.0.1", 0))
    reset = socket.create_server(("127.0.0.1", 0))

    def cut():
        while True:
            try:
                stream = reset.accept()[0]
            except OSError:
                return
            stream.close()

    threading.Thread(target=cut, daemon=True).start()
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return {
        f"http://127.0.0.1:{refused.getsockname()[1]}/": "refused",
        f"http://127.0.0.1:{reset.getsockname()[1]}/": "reset",
        "http://no-such-host.invalid/": "dns",
        "http://169.254.0.1/": "denied by [callback] deny",
    }, context, (refused, reset)


def test_each_kind_of_failure(nodes, receiver, tmp_path):
    from conftest import Receiver

    node = nodes(config="[callback]\nattempts = 1\ntimeout-ms = 500\n").start()
    ends, context, kept = dead_ends(tmp_path)
    secure = Receiver(context)
    ends[secure.uri + "/tls"] = "tls: "
    ends[receiver.uri + "/mute"] = "timed out"
    for uri in ends:
        create(node, uri, {"interval": 0})
    create(node, receiver.uri + "/status/500", {"interval": 0})
    dead = wait_for(lambda: len(found := node.get("/timers?state=dead").json()["timers"]) == len(ends) + 1 and found, 20)
    for timer in dead:
        last, uri = timer["last-attempt"], timer["callback"]["http"]["uri"]
        assert last["node"] == f"127.0.0.1:{node.port}" and abs(at_of(last["at"]) - time.time()) < 60
        if uri in ends:
            assert last["error"].startswith(ends[uri]), (uri, last)
        else:
            assert last["status"] == 500
    before = {timer["id"]: timer["last-attempt"] for timer in dead}
    node.settle()  # what is shown need not be on disk
    node.kill()
    node.start()
    assert {timer["id"]: timer["last-attempt"] for timer in node.get("/timers?state=dead").json()["timers"]} == before
    secure.close()
    for one in kept:
        one.close()


def test_pops_are_told_newest_first(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n[limits]\npops-kept = 5\n").start()
    for i in range(7):
        create(node, receiver.uri + ("/status/500" if i == 5 else f"/{i}"), {"interval": 0}, statistics={"tag-info": [{"type": f"t{i}"}]})
        receiver.wait(i + 1)
        wait_for(lambda: [pop["tags"] for pop in node.get("/pops?limit=1").json()["pops"]] == [[f"t{i}"]])
    pops = node.get("/pops").json()["pops"]
    assert [pop["tags"] for pop in pops] == [["t6"], ["t5"], ["t4"], ["t3"], ["t2"]]
    assert [pop["state"] for pop in pops] == ["delivered", "dead", "delivered", "delivered", "delivered"]
    assert len(node.get("/pops?state=dead").json()["pops"]) == 1 and len(node.get("/pops?limit=2").json()["pops"]) == 2
    lines = subprocess.run([TRYST, "pops", "--node", f"127.0.0.1:{node.port}"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 5 and "/6" in lines[-1]


# ---- many by a filter ----


def tagged(node, receiver, count, tag, timing=None):
    lines = [body(receiver.uri, timing or {"interval": 600}, statistics={"tag-info": [{"type": tag}]}) for _ in range(count)]
    answer = node.request("POST", "/timers", "\n".join(lines), {"Content-Type": "application/x-ndjson"}, 60)
    assert answer.status == 200 and answer.body.count(b"location") == count


def test_cancel_by_tag(node, receiver):
    tagged(node, receiver, 3000, "a")
    tagged(node, receiver, 10, "b")
    assert node.request("DELETE", "/timers?tag=a&dry-run=yes").json() == {"matched": 3000}
    assert node.request("DELETE", "/timers?tag=a").json() == {"cancelled": 3000}
    assert node.request("DELETE", "/timers?tag=a").json() == {"cancelled": 0}
    assert node.request("DELETE", "/timers?all=yes").json() == {"cancelled": 10}


@pytest.mark.parametrize("query", ["", "?tag=", "?all=no", "?all=yes&tag=a", "?limit=5", "?tags=a", "?dry-run=yes", "?state=late"])
def test_what_would_cancel_all_by_mistake_is_refused(node, receiver, query):
    create(node, receiver.uri, {"interval": 60})
    assert node.request("DELETE", "/timers" + query).status == 400
    assert len(node.get("/timers").json()["timers"]) == 1


def test_cancel_by_name_and_time(node, receiver):
    for i in range(20):
        node.request("PUT", f"/timers/named/user-{i}", body(receiver.uri, {"interval": 60 + i}))
    assert node.request("DELETE", "/timers?name-prefix=user-1").json() == {"cancelled": 11}
    assert len(node.get("/timers?name-prefix=user-").json()["timers"]) == 9
    assert node.request("DELETE", f"/timers?due-before={instant(64.3).replace('+', '%2B')}").json() == {"cancelled": 4}


def test_a_run_of_a_client_that_is_gone_does_no_harm(node, receiver):
    tagged(node, receiver, 4000, "a")
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", node.port)) as stream:
            stream.sendall(b"DELETE /timers?tag=a HTTP/1.1\r\nHost: x\r\n\r\nGET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
    node.request("DELETE", "/timers?tag=a")
    assert node.request("DELETE", "/timers?tag=a&dry-run=yes").json() == {"matched": 0}


def test_redrive_by_tag(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    receiver.status = 500
    tagged(node, receiver, 20, "r", {"interval": 0})
    wait_for(lambda: len(node.get("/timers?state=dead").json()["timers"]) == 20)
    receiver.status = 200
    assert node.request("POST", "/timers/redrive?tag=r").json() == {"redriven": 20}
    receiver.wait(40)
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"] == [])


def test_fire(node, receiver):
    location = create(node, receiver.uri, {"interval": 3600, "count": 3})
    second = node.get(location).json()["next-pops"][1]
    assert node.request("POST", location + "/fire").status == 200
    assert receiver.wait(1)[0].sequence == 1
    wait_for(lambda: node.get(location).json()["sequence-number"] == 2)
    assert abs(at_of(node.get(location).json()["next-pop"]) - at_of(second)) < 0.01
    once = create(node, receiver.uri, {"at": "2035-01-01T00:00:00Z"})
    assert node.request("POST", once + "/fire").status == 200
    receiver.wait(2)
    wait_for(lambda: node.get(once).status == 404)
    assert node.request("POST", once + "/fire").status == 404


def test_what_was_fired_outlives_a_restart(nodes, receiver):
    node = nodes(config="[callback]\nbackoff-ms = 300\n").start()
    receiver.status = 500
    location = create(node, receiver.uri, {"interval": 3600, "count": 2})
    second = node.get(location).json()["next-pops"][1]
    node.request("POST", location + "/fire")
    receiver.wait(1)
    wait_for(lambda: node.get(location).json()["attempts"] == 1)
    node.settle()
    node.kill()
    receiver.status = 200
    node.start()
    receiver.wait(2)
    wait_for(lambda: node.get(location).json()["sequence-number"] == 2)
    assert abs(at_of(node.get(location).json()["next-pop"]) - at_of(second)) < 0.05
