# SPDX-License-Identifier: Apache-2.0
"""What operators look at: the schedule ahead, sorted lists, the last hour, destinations, keys, and the page's files."""

import gzip
import json
import random
import re
import time
from datetime import datetime, timezone

import pytest

from conftest import SLOW, free_port, timer_body, wait_for


def set_many(node, bodies):
    answer = node.request("POST", "/timers", "\n".join(bodies) + "\n", {"Content-Type": "application/x-ndjson"}, timeout=60)
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert all("location" in line and "status" not in line for line in lines), lines[:3]
    return [line["location"] for line in lines]


def test_the_schedule_ahead_is_what_was_set(node):
    random.seed(7)
    nobody = f"http://127.0.0.1:{free_port()}/"
    delays = [random.choice([random.uniform(100, 3400), random.uniform(3700, 86000), random.uniform(90000, 86400 * 40)]) for _ in range(3000)]
    at = datetime.now(timezone.utc).timestamp()
    set_many(node, [timer_body(nobody, round(delay, 3)) for delay in delays])
    ahead = node.get("/timers/ahead").json()
    start = datetime.fromisoformat(ahead["from"].replace("Z", "+00:00")).timestamp()
    assert start % 60 == 0 and 0 <= at - start < 125
    assert (ahead["pending"], ahead["overdue"], ahead["dead"]) == (3000, 0, 0)
    assert sum(ahead["days"]) + ahead["later"] == 3000
    for name, size in (("minutes", 60), ("hours", 3600), ("days", 86400)):
        wanted = [0] * len(ahead[name])
        for delay in delays:
            place = int((at + delay - start) // size)
            if place < len(wanted):
                wanted[place] += 1
        # What falls due within seconds of an edge may be counted on its other side: it was set a moment after `at`.
        assert sum(abs(a - b) for a, b in zip(wanted, ahead[name])) <= 40 * 60 / size + 8, (name, wanted, ahead[name])
    node.request("DELETE", "/timers?all=yes")
    wait_for(lambda: node.get("/timers/ahead").json()["pending"] == 0, 10, "counts that are young")


def test_a_list_by_due_is_whole_and_in_order(node):
    random.seed(8)
    bodies = [timer_body("http://127.0.0.1:9/", random.randint(1000, 1100)) for _ in range(700)]  # many at the same second
    locations = {location.split("/")[-1] for location in set_many(node, bodies)}
    found, dues, cursor = [], [], ""
    for _ in range(20):
        page = node.get(f"/timers?sort=due&limit=50{cursor}").json()
        assert len(page["order"]) == len(page["timers"]) <= 50
        found += [timer["id"] for timer in page["timers"]]
        dues += [timer["next-pop"] for timer in page["timers"]]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert dues == sorted(dues) and len(found) == 700 and set(found) == locations
    other = node.get("/timers?limit=10").json()["cursor"]
    assert "another order" in node.get(f"/timers?sort=due&cursor={other}").detail
    assert "another order" in node.get(f"/timers?cursor={'0' * 48}").detail
    assert "sort must be due" in node.get("/timers?sort=name").detail
    assert node.get(f"/timers?sort=due&cursor={'g' * 48}").status == 400


def test_the_last_hour_and_destinations_tell_of_pops(node, receiver):
    dead = f"http://127.0.0.1:{free_port()}/"
    for _ in range(20):
        node.create(receiver.uri, 0.05)
    node.create(dead, 0.05)
    wait_for(lambda: len(receiver.pops) >= 20, 10, "20 pops")

    def told():
        hour = node.get("/history").json()
        return hour if hour["since-start"]["delivered"] >= 20 and hour["since-start"]["failed"] >= 1 else None

    hour = wait_for(told, 10, "an hour that tells of them")
    assert sum(hour["delivered"]) == hour["since-start"]["delivered"] and sum(hour["created"]) == 21 and sum(hour["lateness-us"]) >= 20
    assert 0 < hour["lateness"]["p50-us"] <= hour["lateness"]["p99-us"] <= hour["lateness"]["most-us"]

    def both():
        by = {at["origin"]: at for at in node.get("/destinations").json()["destinations"]}
        good, bad = by.get(receiver.uri), by.get(dead[:-1])
        return (good, bad) if good and bad and good["attempts"] >= 20 and bad["attempts"] >= 1 else None

    good, bad = wait_for(both, 10, "both destinations")
    assert good["failed"] == good["attempts"] - 20 and good["limit"] > 0
    assert bad["failed"] == bad["attempts"] and bad["last-failure"]["error"] == "refused"


def test_keys_over_http(node):
    node.raw(b"".join(b"SET a/%d v%d\r\n" % (i, i) for i in range(300)) + b"SET blank\\x \"\x01\"\r\nSET soon v EX 100\r\n")
    names, cursor = [], ""
    for _ in range(20):
        page = node.get(f"/keys?limit=50&pattern=a/*{cursor}").json()
        names += page["keys"]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert sorted(set(names)) == sorted(f"a/{i}" for i in range(300)) and page["all"] == 302
    key = node.get("/keys/a%2F7").json()
    assert (key["key"], key["value"], key["bytes"]) == ("a/7", "v7", 2) and "expires" not in key
    assert "expires" in node.get("/keys/soon").json()
    assert node.request("DELETE", "/keys/a%2F7").json() == {"deleted": 1}
    for method in ("GET", "DELETE"):
        assert node.request(method, "/keys/a%2F7").status == 404
    assert node.request("POST", "/keys/x").status == 405
    assert node.get("/keys?cursor=x").status == 400
    assert {part[1] for part in node.get("/keyspace").json()["ring"]} == {f"127.0.0.1:{node.port}"}


def test_the_page_is_served_compressed_and_for_ever(node):
    index = node.get("/ui/")
    policy = index.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and index.headers["cache-control"] == "no-cache"
    seen, size, todo = set(), 0, re.findall(r'"\./([a-z]+-[0-9a-f]{12}\.[a-z]+)"', index.body.decode())
    assert len(todo) == 3
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        plain = node.get(f"/ui/{name}")
        packed = node.request("GET", f"/ui/{name}", headers={"Accept-Encoding": "gzip, br"})
        assert plain.status == packed.status == 200 and gzip.decompress(packed.body) == plain.body
        assert "immutable" in packed.headers["cache-control"] and packed.headers["content-encoding"] == "gzip"
        assert node.request("GET", f"/ui/{name}", headers={"If-None-Match": packed.headers["etag"]}).status == 304
        size += len(packed.body)
        todo += re.findall(r'"\./([a-z]+-[0-9a-f]{12}\.[a-z]+)"', plain.body.decode())
    assert len(seen) > 8 and size < 100_000
    browsers = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
    for path in ("/", "/ui"):
        answer = node.request("GET", path, headers=browsers)
        assert answer.status == 302 and answer.headers["location"] == "/ui/"
    assert node.get("/").status == 404
    assert node.get("/ui/nothing.js").status == 404 and node.request("POST", "/ui/").status == 405
    assert node.get("/ui/settings.json").json()["read-only"] is False


def test_pages_of_other_origins_may_ask_nothing(node):
    here = f"127.0.0.1:{node.port}"
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{node.port + 1}", f"http://{here}.evil.example"):
        for method, path in (("GET", "/timers"), ("POST", "/timers"), ("DELETE", "/timers?all=yes"), ("PUT", "/cluster")):
            assert node.request(method, path, "{}" if method != "GET" else None, {"Origin": origin}).status == 403, (origin, method)
    assert node.request("GET", "/timers", headers={"Origin": f"http://{here}"}).status == 200
    assert node.request("DELETE", "/timers?all=yes", headers={"Origin": f"https://{here}"}).status == 200
    # A name that somebody else may have let lead here, as a page of his would have it.
    named = {"Origin": "http://evil.example:7253", "Host": "evil.example:7253"}
    assert node.request("DELETE", "/timers?all=yes", headers=named).status == 403 and node.request("GET", "/timers", headers=named).status == 200
    for host in ("localhost:7253", "[::1]:7253", "10.0.0.1"):
        assert node.request("DELETE", "/timers?all=yes", headers={"Origin": f"http://{host}", "Host": host}).status == 200


def test_the_page_may_be_switched_off_or_only_read(nodes):
    off = nodes(config="[ui]\nenabled = no\n").start()
    assert off.get("/ui/").status == 404 and off.get("/timers").status == 200
    only = nodes(config="[ui]\nread-only = yes\n").start()
    own = {"Origin": f"http://127.0.0.1:{only.port}"}
    assert only.get("/ui/settings.json").json()["read-only"] is True
    assert only.request("DELETE", "/timers?all=yes", headers=own).status == 403
    assert only.request("GET", "/timers", headers=own).status == 200
    assert only.request("DELETE", "/timers?all=yes").status == 200  # no page


def test_nothing_waits_for_the_loop_to_wake_by_itself(nodes):
    """A node without work wakes about once a second: sixty answers that wait for that are a minute."""
    node = nodes(data_dir="none").start()
    begun = time.monotonic()
    for path in ("/timers/ahead?scope=cluster", "/timers?sort=due&scope=cluster", "/history?scope=cluster"):
        for _ in range(20):
            assert node.get(path).status == 200
    assert time.monotonic() - begun < 20 * SLOW
