# SPDX-License-Identifier: Apache-2.0
"""Backups of a running cluster, put into others of another size: every key and every timer, going on where they were."""

import datetime
import json
import os
import re
import subprocess
import threading
import time

import pytest
import redis

from cluster import SLOW, TRYST, Cluster, wait_for
from keys import Receiver, connect, keyspace, put

MANY = int(os.environ.get("TRYST_BACKED_UP", "2000"))


@pytest.fixture
def make(tmp_path):
    made = []

    def build(name):
        made.append(Cluster(tmp_path / name))
        return made[-1]

    yield build
    for one in made:
        one.close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def tryst(*words, node=None):
    environment = {**os.environ, **({"TRYST_NODE": node.address} if node else {})}
    return subprocess.run([TRYST, "backup", *(str(word) for word in words)], capture_output=True, text=True, env=environment, timeout=120 * SLOW)


def good(*words, node=None):
    done = tryst(*words, node=node)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^([a-z ,]+): (\d+)", done.stdout, re.M))


def timer(receiver, name, interval, repeat=None, factor=2):
    timing = {"interval": interval, **({"repeat-for": repeat} if repeat else {})}
    return json.dumps({"timing": timing, "callback": {"http": {"uri": receiver.uri(name), "opaque": f"of {name}: \u00e4\n\""}}, "reliability": {"replication-factor": factor}, "statistics": {"tag-info": [{"type": "T", "count": 3}]}})


def post(node, body):
    status, headers, _ = node.request("POST", "/timers", body)
    assert status == 200
    return headers["location"]


def standing(node, location):
    """A timer without what depends on the moment and on the node that is asked; copies of it are due some milliseconds apart."""
    shown = {name: value for name, value in node.json(location).items() if name not in ("id", "next-pops")}
    due = datetime.datetime.fromisoformat(shown.pop("next-pop").replace("Z", "+00:00"))
    return {**shown, "due": due.timestamp()}


def test_under_load_into_one_and_into_five(make, receiver, tmp_path):
    three = keyspace(make("three"), 3, 256, 2)
    values = {f"key-{i}": f"value {i} " * (i % 7) for i in range(MANY)}
    stop = threading.Event()

    def write_on():
        with connect(three[1]) as client:
            for i in range(10**9):
                if stop.is_set():
                    return
                client.set(f"later-{i % 500}", str(i))

    begun = time.monotonic()
    with connect(three[0]) as client:
        put(client, values)
        client.set("expires", "soon", ex=3600)
        client.execute_command("SET", "calls", "a last value", "PX", int(8000 * SLOW), "CALLBACK", receiver.uri("expired"))
        client.execute_command("SET", "called", "while nobody was there", "PX", int(4000 * SLOW), "CALLBACK", receiver.uri("missed"))
        when = client.pexpiretime("expires")
    post(three[0], timer(receiver, "near", 8 * SLOW))
    post(three[0], timer(receiver, "missed-timer", 4 * SLOW))
    locations = [post(three[i % 3], timer(receiver, f"far-{i}", 5000 + i, factor=1 + i % 3)) for i in range(MANY // 10)]
    shown = {location: standing(three[0], location) for location in locations[::7]}

    writer = threading.Thread(target=write_on)
    writer.start()
    file = tmp_path / "backup"
    counts = good("create", file, node=three[2])
    stop.set()
    writer.join()
    assert int(counts["timers"]) == len(locations) + 2
    assert MANY + 3 <= int(counts["keys"]) <= MANY + 503
    assert good("inspect", file)["keys"] == counts["keys"]
    assert not (tmp_path / "backup.part").exists()
    for member in three:
        member.kill()
    time.sleep(max(0.0, begun + 5 * SLOW - time.monotonic()))

    for nodes in (make("alone").start(1), keyspace(make("five"), 5, 1024, 3)):
        before = dict(receiver.called)
        restored = good("restore", file, node=nodes[-1])
        assert restored["keys"] == counts["keys"] and restored["timers"] == counts["timers"]
        for member in nodes:
            with connect(member) as client:
                assert client.mget(list(values)) == list(values.values())
                assert abs(client.pexpiretime("expires") - when) < 1000
        for location, was in shown.items():
            now = standing(nodes[0], location)
            assert abs(now["due"] - was["due"]) < 1 and {**now, "due": 0} == {**was, "due": 0}, (was, now)
        # What was due while nobody was there is made up for; what was not yet, is made when it is.
        for path in ("/missed", "/missed-timer", "/expired", "/near"):
            wait_for(lambda path=path: receiver.called[path] == before.get(path, 0) + 1, 15 * SLOW, path, lambda: str(receiver.called))
        assert receiver.bodies["/expired"] == b"a last value"
        done = tryst("restore", file, node=nodes[0])
        assert done.returncode == 1 and "is not empty: it has keys and timers" in done.stderr


def test_merge_keeps_what_is_newer(make, receiver, tmp_path):
    two = keyspace(make("two"), 2, 64, 2)
    file = tmp_path / "backup"
    with connect(two[0]) as client:
        put(client, {"same": "1", "newer": "1", "gone": "1"})
        same, moved = (post(two[0], timer(receiver, name, 5000)) for name in ("same", "moved"))
        repeating = post(two[0], timer(receiver, "repeating", SLOW, 100 * SLOW))
        good("create", file, node=two[0])
        client.set("newer", "2")
        client.delete("gone")
        client.set("other", "3")
        assert two[1].request("PUT", moved, timer(receiver, "moved", 7000))[0] == 200
        version = two[0].json(moved)["version"]
        wait_for(lambda: two[0].json(repeating)["sequence-number"] > 2, 10 * SLOW, "two pops")
        called = receiver.called["/repeating"]
        merged = good("restore", file, "--merge", node=two[1])
        assert merged["keys that are there, and stay"] == "3" and merged["keys"] == "0"
        assert client.mget("same", "newer", "gone", "other") == ["1", "2", None, "3"]
    assert two[0].json(moved)["version"] == version and two[0].json(same)["timing"]["interval"] == 5000
    assert two[0].json(repeating)["sequence-number"] >= called, "pops that were made are not made again"
    other = keyspace(make("other"), 2, 16, 1)
    with connect(other[0]) as client:
        client.set("kept", "here")
        assert good("restore", file, "--merge", node=other[0])["keys"] == "3"
        assert client.mget("same", "gone", "kept") == ["1", "1", "here"]


def test_what_is_large_expires_or_is_no_text(make, receiver, tmp_path):
    """Five nodes with one copy each, values of any size, keys that end while they are read, and callbacks that are owed."""
    five = keyspace(make("five"), 5, 64, 1)
    empty = make("empty").start(1)[0]
    raw = bytes(range(256)) * 40
    with connect(five[0]) as client:
        put(client, {f"large-{i}": str(i) * 100000 for i in range(300)})
        put(client, {f"small-{i}": str(i) for i in range(3000)})
        for i in range(400):
            client.set(f"ends-{i}", "x", px=1 + 5 * i)
        client.execute_command("SET", "owed", raw, "PX", 1, "CALLBACK", "http://127.0.0.1:1/nobody-there")
    time.sleep(0.5 * SLOW)
    file = tmp_path / "backup"
    counts = good("create", file, node=five[3])
    assert 3300 <= int(counts["keys"]) <= 3700 and counts["timers"] == "1"
    restored = good("restore", file, node=empty)
    assert restored["timers"] == "1"
    with connect(empty) as client:
        assert client.get("large-299") == "299" * 100000 and client.get("small-2999") == "2999"
    status, _, page = empty.request("GET", "/timers?scope=held")
    assert status == 200 and bytes.fromhex(json.loads(page)["timers"][0]["restore"]["opaque"]) == raw
    assert empty.request("GET", "/timers?scope=held&tag=T")[0] == 400
    assert b'"restore"' not in empty.request("GET", "/timers")[2]  # what one request asked for is not the next one's


def test_timers_without_a_keyspace(make, receiver, tmp_path):
    two = make("two").start(2)
    for i in range(20):
        post(two[i % 2], timer(receiver, f"t{i}", 5000))
    assert good("create", tmp_path / "backup", node=two[0])["timers"] == "20"


def test_a_node_that_is_down_is_told(make, receiver, tmp_path):
    three = keyspace(make("three"), 3, 64, 2)
    with connect(three[0]) as client:
        put(client, {f"k{i}": "v" for i in range(300)})
    for i in range(60):
        post(three[0], timer(receiver, f"t{i}", 5000))
    three[1].kill()
    wait_for(lambda: any(node[4] == "down" for node in connect(three[0]).execute_command("NODES")), 20 * SLOW, "it is seen to be down")
    done = tryst("create", tmp_path / "backup", node=three[0])
    assert done.returncode == 0 and f"{three[1].address} does not answer" in done.stderr, done.stderr
    assert "keys: 300\ntimers: 60\n" in done.stdout
    shown = tryst("inspect", tmp_path / "backup").stdout
    assert "nodes: 3\n" in shown and f"did not answer: 1\n  {three[1].address}\n" in shown


def test_damage_is_told_with_its_place(make, receiver, tmp_path):
    node = make("alone").start(1)[0]
    with connect(node) as client:
        put(client, {f"k{i}": "v" * i for i in range(20)})
    for i in range(3):
        post(node, timer(receiver, f"t{i}", 5000))
    file, other = tmp_path / "good", tmp_path / "bad"
    good("create", file, node=node)
    whole = file.read_bytes()
    empty = make("empty").start(1)[0]

    def refused(bytes_):
        other.write_bytes(bytes_)
        for words in (("inspect", other), ("restore", other)):
            done = tryst(*words, node=empty)
            assert done.returncode == 1 and re.search(r"is damaged at byte \d+: ", done.stderr), (len(bytes_), done)

    for size in (0, 7, 8, 20, len(whole) // 3, len(whole) - 1):
        refused(whole[:size])
    for at in list(range(0, 60)) + list(range(60, len(whole), 97)):
        refused(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
    refused(whole + b"x")
    block = int.from_bytes(whole[9:13], "little") + 13
    refused(whole[: 8 + block] + whole[8 + 2 * block :])  # a block is left out, or torn
    with connect(empty) as client:
        assert client.dbsize() == 0, "nothing of a damaged file is restored"
    assert good("restore", file, node=empty)["keys"] == "20"


def test_what_cannot_be_done_is_told(make, tmp_path):
    node = make("alone").start(1)[0]
    for words, status, text in (
        ((), 2, "create FILE, inspect FILE or restore FILE"),
        (("make", "x"), 2, "create, inspect or restore, not make"),
        (("create", "x", "--merge"), 2, "--merge is for restore"),
        (("create", tmp_path / "no" / "where"), 1, "cannot be written: No such file or directory"),
        (("inspect", tmp_path / "nothing"), 1, "cannot be read: No such file or directory"),
        (("restore", TRYST), 1, "damaged at byte 0: it does not begin as a backup does"),
    ):
        done = tryst(*words, node=node)
        assert done.returncode == status and text in done.stderr, done
    assert good("create", tmp_path / "empty", node=node) == {"keys": "0", "timers": "0", "bytes": str((tmp_path / "empty").stat().st_size)}
    body = json.dumps({"timing": {"interval": 1}, "callback": {"http": {"uri": "http://127.0.0.1:1/", "opaque": ""}}, "restore": {"version": "0" * 16}})
    assert node.request("PUT", "/timers/0123456789abcdef-2", body)[0] == 400
    later = f"{(int(time.time() * 1000) + 60000) << 16:016x}"
    body = body.replace('"restore": {"version": "0000000000000000"}', f'"restore": {{"version": "{later}", "sequence": 1, "due": 1}}')
    status, _, answer = node.request("PUT", "/timers/0123456789abcdef-2", body)
    assert status == 400 and b"of a time to come" in answer
    assert node.request("POST", "/timers", body)[0] == 400
    now = f"{int(time.time() * 1000) << 16:016x}"
    for due, expected in ((0, 400), (1, 200), (281474976710655, 200)):
        one = body.replace(later, now).replace('"due": 1}', f'"due": {due}}}')
        status, _, answer = node.request("PUT", f"/timers/0123456789abcde{due % 10}-2", one)
        assert status == expected, answer
    assert node.request("PUT", "/timers/0123456789abcdef-2", one.replace('"callback"', '"reliability": {"replication-factor": 3}, "callback"'))[0] == 400
    with connect(node) as client, pytest.raises(redis.ResponseError):
        client.execute_command("SET", "k", "v", "OLDER", 5, "NX")
