# SPDX-License-Identifier: Apache-2.0
"""Keys on several nodes: who holds what, to the letter of the text it comes from; and that nothing acknowledged is lost, whoever
is killed, stopped, joins or leaves."""

import os
import signal
import subprocess
import time

import pytest
import redis

from cluster import SLOW, Cluster, wait_for
from keys import Clerk, Receiver, connect, count_misplaced, held, jenkins, keyspace, settled
from tellers import Tellers

MISSED = int(os.environ.get("TRYST_MISSED", "5000"))  # writes while a node is down; the long proofs set 100000
SECONDS = float(os.environ.get("TRYST_KEY_SECONDS", "3"))  # between two faults


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def name_at(hundredths):
    """A key whose hash is at so many hundredths of the circle, or just before."""
    return next(name for name in (f"key{i}" for i in range(100000)) if -(-jenkins(name) * 100 // 2**32) == hundredths)


KEYS = {f".{at}": name_at(at) for at in (20, 25, 55, 75, 90)}


def ring(cluster, partitions, copies, positions):
    """One node after the other, each at its position; the first one's is 0."""
    assert positions[0] == "0"
    nodes = [cluster.add(1)[0].start() for _ in positions]
    with connect(nodes[0]) as client:
        assert client.execute_command("CREATE KEYSPACE", partitions, copies, "R", 1, "W", 1) == "OK"
    for i in range(1, len(nodes)):
        with connect(nodes[i - 1]) as client:  # whoever is asked
            assert client.execute_command("JOIN", nodes[i].address, positions[i]) == "OK"
        wait_for(lambda: settled(nodes[: i + 1], i + 1), 30, f"{i + 1} nodes")
    return dict(zip(positions, nodes))


def put_keys(nodes):
    for i, (place, name) in enumerate(KEYS.items()):
        with connect(nodes[i % len(nodes)]) as client:
            assert client.set(name, f"value at {place}")
    for name in KEYS.values():
        for node in nodes:
            with connect(node) as client:
                assert client.get(name).startswith("value at")


def check_table(nodes, table):
    """Exactly what each node holds, when all that is on its way is there."""

    def rows():
        return {position: sorted(place for place, name in KEYS.items() if name in held(node)) for position, node in nodes.items()}

    expected = {position: sorted(f".{key}" for key in keys.split()) for position, keys in table.items()}
    wait_for(lambda: rows() == expected, 20, "the table", lambda: f"{rows()} and not {expected}")
    for place, name in KEYS.items():
        with connect(next(iter(nodes.values()))) as client:
            where = client.execute_command("KEYSPACE WHERE", name)
        assert sorted(where) == sorted(nodes[position].address for position, keys in expected.items() if place in keys)


@pytest.mark.parametrize("partitions", [20, 100])
def test_a_join_to_the_letter(cluster, partitions):
    nodes = ring(cluster, partitions, 2, ["0", ".25", ".5", ".75"])
    put_keys(list(nodes.values()))
    check_table(nodes, {"0": "55 75 90", ".25": "20 25 90", ".5": "20 25", ".75": "55 75"})
    new = cluster.add(1)[0].start()
    with connect(nodes[".5"]) as client:
        assert client.execute_command("JOIN", new.address, ".85") == "OK"
    nodes[".85"] = new
    wait_for(lambda: settled(list(nodes.values()), 5), 30, "five nodes")
    check_table(nodes, {"0": "90", ".25": "20 25 90", ".5": "20 25", ".75": "55 75", ".85": "55 75"})


@pytest.mark.parametrize("partitions", [20, 100])
def test_a_leave_to_the_letter(cluster, partitions):
    nodes = ring(cluster, partitions, 3, ["0", ".20", ".40", ".60", ".80"])
    put_keys(list(nodes.values()))
    check_table(nodes, {"0": "55 75 90", ".20": "20 75 90", ".40": "20 25 90", ".60": "20 25 55", ".80": "25 55 75"})
    gone = nodes.pop(".60")
    with connect(nodes["0"]) as client:
        assert client.execute_command("LEAVE", gone.address) == "OK"
    wait_for(lambda: settled(list(nodes.values()), 4), 30, "four nodes")
    wait_for(lambda: connect(gone).execute_command("KEYSPACE KEYS", gone.address) == [], 20, "who has left holds nothing")
    assert gone.stop() == 0
    check_table(nodes, {"0": "25 55 75 90", ".20": "20 55 75 90", ".40": "20 25 90", ".80": "20 25 55 75"})


def test_commands_on_any_node(cluster):
    nodes = keyspace(cluster, 3, 1024, 2)
    a, b, c = (connect(node) for node in nodes)
    with pytest.raises(redis.exceptions.ResponseError, match="there is a keyspace already"):
        b.execute_command("CREATE KEYSPACE", 10, 1)
    assert a.set("a", "1") and b.get("a") == "1" and c.incr("a") == 2 and a.get("a") == "2"
    assert b.mset({f"m{i}": i for i in range(50)}) and c.mget([f"m{i}" for i in range(50)]) == [str(i) for i in range(50)]
    assert a.delete("a", "m0", "nothing") == 2 and not b.exists("a")
    assert c.set("n", "first", nx=True) and not a.set("n", "second", nx=True) and b.get("n") == "first"
    assert [client.append("long", "x" * 1000) for client in (a, b, c)] == [1000, 2000, 3000]
    assert [client.setrange("long", 3500, "y") for client in (a, b, c)] == [3501] * 3 and c.delete("long")
    assert a.set("t", "soon", px=300) and b.ttl("t") in (0, 1)
    wait_for(lambda: c.get("t") is None, 5, "it expires")
    assert sorted(b.scan_iter(count=7)) == sorted(c.keys("*")) == sorted(["n"] + [f"m{i}" for i in range(1, 50)])
    assert a.dbsize() == b.dbsize() == c.dbsize() == 50 and a.randomkey() is not None
    pipe = b.pipeline(transaction=False)
    for i in range(500):
        pipe.set(f"p{i}", i)
        pipe.incr("count")
        pipe.get(f"p{i}")
    assert pipe.execute() == [answer for i in range(500) for answer in (True, i + 1, str(i))]
    with pytest.raises(redis.exceptions.ResponseError):
        a.rename("n", "m")  # they are on different nodes
    assert c.flushall() and [client.dbsize() for client in (a, b, c)] == [0, 0, 0]
    assert a.set("a", "again") and b.get("a") == "again"


def test_two_joins_at_once_and_a_member_that_is_down(cluster):
    nodes = keyspace(cluster, 2, 64, 2)
    more = [node.start() for node in cluster.add(2)]
    a, b = (connect(node) for node in nodes)
    nodes[1].kill()
    wait_for(lambda: [node[4] for node in a.execute_command("NODES")] == ["up", "down"], 20, "it is seen to be down")
    with pytest.raises(redis.exceptions.ResponseError, match="UNAVAILABLE .* is down"):
        a.execute_command("JOIN", more[0].address)
    nodes[1].start()
    wait_for(lambda: [node[4] for node in a.execute_command("NODES")] == ["up", "up"], 20, "it is back")
    wait_for(lambda: try_change(a, "JOIN", more[0].address), 20, "a change")
    answer = refusal(connect(nodes[1]), "JOIN", more[1].address)
    assert answer is None or answer.startswith(("BUSY", "another change", "UNAVAILABLE")), answer
    wait_for(lambda: settled(nodes + more[:1], 3) or settled(nodes + more, 4), 30, "it is through")
    wait_for(lambda: refusal(connect(nodes[1]), "JOIN", more[1].address) is None, 20, "the other, too")
    wait_for(lambda: settled(nodes + more, 4), 30, "all are in")


def refusal(client, *words):
    try:
        client.execute_command(*words)
    except redis.exceptions.ResponseError as error:
        return str(error)
    return None


def try_change(client, *words):
    return refusal(client, *words) is None


def test_changes_from_elsewhere_are_refused_without_the_secret(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret that nobody else knows\n")
    secret.chmod(0o600)
    made = Cluster(tmp_path / "nodes", shared=f"[cluster]\nsecret-file = {secret}\n")
    try:
        nodes = keyspace(made, 1, 64, 1)
        assert connect(nodes[0], password="a secret that nobody else knows").ping()
        with pytest.raises(redis.exceptions.ResponseError, match="WRONGPASS"):
            connect(nodes[0], password="a secret").ping()
    finally:
        made.close()


def check_copies(nodes, clerks):
    """Each node by itself has all of it: the others are killed meanwhile."""
    for node in nodes:
        for other in nodes:
            if other is not node:
                other.kill()
        with connect(node) as client:
            wait_for(lambda: [one[4] for one in client.execute_command("NODES")].count("down") == len(nodes) - 1, 20, "the others are down")
        for clerk in clerks:
            clerk.check(node)
        for other in nodes:
            if other is not node:
                other.start(wait=False)
        for other in nodes:
            wait_for(other.is_ready, 30, f"{other.address} is ready", lambda: other.log()[-1500:])
        wait_for(lambda: all(node[4] == "up" for other in nodes for node in connect(other).execute_command("NODES")), 30, "all are up")


def check_scan(node, clerks):
    with connect(node) as client:
        found = set(client.scan_iter(count=100))
    for clerk in clerks:
        missing = set(clerk.acknowledged) - found
        assert not missing, f"SCAN misses {sorted(missing)[:5]}"


def test_kills_and_standstills_under_load(cluster):
    nodes = keyspace(cluster, 3, 1024, 3)
    clerks = [Clerk(nodes, f"clerk{i}", 40, 100) for i in range(4)]
    for victim in nodes:
        time.sleep(SECONDS)
        victim.kill()
        time.sleep(SECONDS)
        check_scan(next(node for node in nodes if node is not victim), clerks)
        victim.start()
    for victim in nodes[:1]:
        time.sleep(SECONDS)
        victim.signal(signal.SIGSTOP)
        time.sleep(SECONDS)
        victim.signal(signal.SIGCONT)
    time.sleep(SECONDS)
    for clerk in clerks:
        clerk.stop()
    print([(clerk.operations, dict(clerk.errors)) for clerk in clerks])
    assert not any(clerk.strange or clerk.undocumented() for clerk in clerks), [(clerk.strange, clerk.undocumented()) for clerk in clerks]
    wait_for(lambda: all(len(held(node)) == sum(len(clerk.acknowledged.keys() | clerk.tried.keys()) for clerk in clerks) for node in nodes), 30, "all have all",
             lambda: str([len(held(node)) for node in nodes]))
    for clerk in clerks:
        clerk.check(nodes[0])
    check_copies(nodes, clerks)


def test_joins_and_leaves_under_load(cluster):
    nodes = keyspace(cluster, 3, 1024, 2)
    clerks = [Clerk(nodes, f"clerk{i}", 40, 100) for i in range(4)]
    time.sleep(SECONDS)
    new = cluster.add(1)[0].start()
    four = nodes + [new]
    wait_for(lambda: try_change(connect(nodes[0]), "JOIN", new.address), 20, "it is taken")
    wait_for(lambda: settled(four, 4), 60, "four nodes")
    check_scan(new, clerks)
    for clerk in clerks:
        clerk.nodes = four
    time.sleep(SECONDS)
    gone, rest = four[0], four[1:]
    wait_for(lambda: try_change(connect(new), "LEAVE", gone.address), 20, "it is taken")
    wait_for(lambda: settled(rest, 3), 60, "three nodes", lambda: gone.log()[-1000:])
    for clerk in clerks:
        clerk.nodes = rest
    time.sleep(1 * SLOW)
    assert connect(gone).execute_command("KEYSPACE KEYS", gone.address) == []
    gone.stop()
    time.sleep(SECONDS)
    for clerk in clerks:
        clerk.stop()
    print([(clerk.operations, dict(clerk.errors)) for clerk in clerks])
    assert not any(clerk.strange or clerk.errors.keys() - {"connection"} for clerk in clerks), [(clerk.strange, clerk.errors) for clerk in clerks]
    check_scan(rest[0], clerks)
    for clerk in clerks:
        clerk.check(rest[1])
    total = sum(len(clerk.tried) for clerk in clerks)
    wait_for(lambda: sum(len(held(node)) for node in rest) == 2 * total, 30, "two copies of each", lambda: f"{[len(held(node)) for node in rest]} of {total}")


def test_what_a_node_missed_is_brought_to_it(cluster):
    nodes = keyspace(cluster, 3, 1024, 3)
    nodes[2].kill()
    with connect(nodes[0]) as client:
        wait_for(lambda: "down" in [node[4] for node in client.execute_command("NODES")], 20, "it is seen to be down")
        for start in range(0, MISSED, 500):
            pipe = client.pipeline(transaction=False)
            for i in range(start, min(start + 500, MISSED)):
                pipe.set(f"missed-{i}", i)
            assert all(pipe.execute())
    begun = time.monotonic()
    nodes[2].start()
    wait_for(lambda: len(held(nodes[2])) == MISSED, 60, "it has all", lambda: str(len(held(nodes[2]))))
    print(f"{MISSED} writes that it missed: after {time.monotonic() - begun:.1f} s, start and count included")


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_callback_with_the_first_replica_gone(cluster, fault):
    nodes = keyspace(cluster, 3, 1024, 3)
    receiver = Receiver()
    try:
        with connect(nodes[0]) as client:
            for i in range(60):
                assert client.execute_command("SET", f"call-{i}", f"value {i}", "PX", int(3000 * SLOW), "CALLBACK", receiver.uri(str(i)))
            first = client.execute_command("KEYSPACE WHERE", "call-0")[0]
        victim = next(node for node in nodes if node.address == first)
        victim.signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        wait_for(lambda: len(receiver.called) == 60, 30, "all are called", lambda: str(len(receiver.called)))
        assert receiver.bodies["/7"] == b"value 7"
        if fault == "stop":
            victim.signal(signal.SIGCONT)
        time.sleep(2 * SLOW)
        is_quiet = SLOW == 1 and not any("stood still for" in node.log() for node in nodes if node is not victim)
        assert not is_quiet or fault == "stop" or max(receiver.called.values()) == 1, receiver.called
    finally:
        receiver.close()


@pytest.fixture
def small_disk():
    mounted = []

    def mount(folder):
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr}")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_loses_nothing_and_stops_nobody(cluster, small_disk):
    nodes = cluster.add(3)
    small_disk(nodes[2].folder / "data")
    for node in nodes:
        node.configure(nodes)
        node.start(wait=False)
    for node in nodes:
        wait_for(node.is_ready, 30 * SLOW, f"{node.address} is ready")
    with connect(nodes[0]) as client:
        assert client.execute_command("CREATE KEYSPACE", 64, 2) == "OK"
    tellers = Tellers([node.address for node in nodes], 300)
    try:
        time.sleep(SECONDS)
        ballast = nodes[2].folder / "data" / "ballast"
        with pytest.raises(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"b" * 65536)
        before = tellers.count()["operations"]
        with connect(nodes[0]) as client:
            for i in range(3000):  # more than its log has room for
                client.set(f"large-{i}", "v" * 4000)
        wait_for(lambda: not nodes[2].is_ready(), 30 * SLOW, "it says that its disk is full")
        time.sleep(SECONDS)
        assert tellers.count()["operations"] > before
        ballast.unlink()
        wait_for(nodes[2].is_ready, 60 * SLOW, "it heals by itself")
        time.sleep(SECONDS)
        told = tellers.finish([node.address for node in nodes])
    finally:
        tellers.close()
    print(told)
    assert not told["wrong"]
    assert set(told["undocumented"]) <= {"ERR the disk is full"}
    wait_for(lambda: count_misplaced(nodes) == 0, 60 * SLOW, "each key is where it belongs, and nowhere else")
