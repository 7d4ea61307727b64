# SPDX-License-Identifier: Apache-2.0
"""Keys, as those who rely on them see them: on disk when answered, gone when expired, called when wanted."""

import os
import random
import subprocess
import threading
import time

import pytest

from conftest import QUICK, SLOW, TRYST, free_port, wait_for
from resp import Client, Refused, encode

ROUNDS = int(os.environ.get("TRYST_ROUNDS", "4"))
EXPIRING = int(os.environ.get("TRYST_EXPIRING", "50000"))
CLOCK_MS = 3  # what a node's idea of the time of day may be off, as the clock is set bit by bit
SMALL = "[storage]\nsegment-size = 1M\nmemory-budget = 128M\n"


class Writer(threading.Thread):
    """Writes keys of its own until the node goes; knows what was answered, and what may have been done."""

    def __init__(self, node, name):
        super().__init__()
        self.client, self.random, self.name_ = Client(node.port), random.Random(name), name
        self.known = {}  # key -> values that may be there; None: none is
        self.answered = 0

    def draw(self):
        key = f"{self.name_}:{self.random.randrange(40)}"
        before = self.known.get(key, [None])
        new = f"{self.random.randrange(10**9)}" * self.random.choice([1, 1, 1, 30])
        if self.random.random() < 0.25:
            return key, ["DEL", key], None
        if len(before) == 1 and before[0] is not None and self.random.random() < 0.2:
            return key, ["APPEND", key, "+"], before[0] + "+"
        return key, ["SET", key, new], new

    def run(self):
        try:
            while True:
                plan = [self.draw() for _ in range(self.random.choice([1, 1, 8]))]
                plan = list({key: (key, words, after) for key, words, after in plan}.values())
                for key, _, after in plan:
                    self.known[key] = self.known.get(key, [None]) + [after]
                self.client.stream.sendall(b"".join(encode(*words) for _, words, _ in plan))
                for key, _, after in plan:
                    self.client.reply()
                    self.known[key] = [after]
                    self.answered += 1
        except (OSError, EOFError, ValueError):
            pass


def test_kill_9_under_load(nodes):
    """What was answered is there; what was not is there or not; nothing else is."""
    node = nodes(config="[storage]\nsegment-size = 1M\n").start()
    known, answered = {}, 0
    for number in range(ROUNDS):
        writers = [Writer(node, f"{i}") for i in range(4)]
        for writer in writers:
            writer.known = {key: values for key, values in known.items() if key.startswith(writer.name_ + ":")}
            writer.random.seed(f"{number} {writer.name_}")
            writer.start()
        time.sleep(random.uniform(0.2, 0.8))
        node.kill()
        for writer in writers:
            writer.join()
            known.update(writer.known)
            answered += writer.answered
        node.start()
        client = Client(node.port)
        for key, values in known.items():
            told = client("GET", key)
            told = told.decode() if told is not None else None
            assert told in values, (number, key, told, values)
            known[key] = [told]
        assert client("DBSIZE") == sum(values != [None] for values in known.values())
    assert answered > 100 * ROUNDS


def test_times_and_callbacks_survive(nodes, receiver):
    node = nodes(config=QUICK).start()
    client = Client(node.port)
    until = time.time() + 3 * SLOW
    client("SET", "kept", "1", "EX", 1000)
    client("SET", "short", "2", "PXAT", int(until * 1000))
    client("SET", "called", "its value", "PXAT", int(until * 1000), "CALLBACK", receiver.uri + "/key")
    client("SET", "ended", "3", "EX", 1000)
    client("PERSIST", "ended")
    node.kill()
    node.start()
    client = Client(node.port)
    assert 990 < client("TTL", "kept") <= 1000 and client("TTL", "ended") == -1
    if time.time() < until - 0.2:
        assert client("GET", "short") == b"2" and not receiver.pops
    receiver.wait(1)
    assert time.time() >= until - 0.005 and receiver.pops[0].body == b"its value" and receiver.pops[0].path == "/key"
    assert client("MGET", "short", "called", "ended") == [None, None, b"3"]


def test_expiry_is_never_early_and_frees(node):
    """Many keys that expire within a second are gone a second later, unasked, and not a moment too soon."""
    client = Client(node.port)
    start = time.time() + 4 * SLOW + EXPIRING / 40000
    names = [f"k{i}" for i in range(EXPIRING)]
    for first in range(0, EXPIRING, 1000):
        client.pipeline([["SET", name, "v" * 60, "PXAT", int(start * 1000) + i % 1000] for i, name in enumerate(names[first : first + 1000], first)])
    client("SET", "stays", "1")
    assert time.time() < start, "the machine is too slow for so many"
    assert client("DBSIZE") == EXPIRING + 1
    looked = 0
    while time.time() < start + 1:
        i = random.randrange(EXPIRING)
        before = time.time()
        told = client("GET", names[i])
        if before * 1000 > int(start * 1000) + i % 1000 + CLOCK_MS:
            assert told is None
        if time.time() * 1000 < int(start * 1000) + i % 1000 - CLOCK_MS:
            assert told is not None
        looked += 1
    wait_for(lambda: node.metrics()["tryst_keys"] == 1, 1 + SLOW, "they are freed")
    assert looked > 50 and node.metrics()["tryst_keys_expired_total"] > 0.9 * EXPIRING


def test_time_to_live_is_exact(node):
    """By a clock that nobody sets: there until it is over, and gone two milliseconds later."""
    client = Client(node.port)
    for i in range(20):
        begun = time.monotonic()
        client("SET", "a", "1", "PX", 30 + i)
        answered = time.monotonic()
        while True:
            before = time.monotonic()
            told = client("GET", "a")
            after = time.monotonic()
            assert told is not None or after - begun >= (30 + i) / 1000
            assert told is None or before - answered <= (32 + i) / 1000
            if told is None:
                break


def test_callbacks(node, receiver):
    client = Client(node.port)
    uri = receiver.uri + "/"
    client("SET", "a", "x" * 1000, "PX", 100, "CALLBACK", uri + "a")
    client("SET", "deleted", "1", "PX", 100, "CALLBACK", uri + "deleted")
    client("DEL", "deleted")
    client("SET", "overwritten", "1", "PX", 100, "CALLBACK", uri + "overwritten")
    client("SET", "overwritten", "2")
    client("SET", "persisted", "1", "PX", 100, "CALLBACK", uri + "persisted")
    client("PERSIST", "persisted")
    client("SET", "moved", "1", "PX", 100, "CALLBACK", uri + "moved")
    client("EXPIRE", "moved", 1000)
    client("SET", "kept", "1", "PX", 100, "CALLBACK", uri + "kept")
    client("SET", "kept", "2", "KEEPTTL")
    client("SET", "counted", "41", "PX", 100, "CALLBACK", uri + "counted")
    client("INCR", "counted")
    client("SET", "late", "1")
    client("PEXPIRE", "late", 100, "CALLBACK", uri + "late")
    receiver.wait(4)
    client("SET", "a", "again")  # what has expired is owed, whatever comes
    time.sleep(0.3 * SLOW)
    assert sorted((pop.path, pop.body) for pop in receiver.pops) == [("/a", b"x" * 1000), ("/counted", b"42"), ("/kept", b"2"), ("/late", b"1")]
    for words in (["SET", "a", "1", "CALLBACK", uri], ["SET", "a", "1", "EX", 5, "CALLBACK"], ["SET", "a", "1", "EX", 5, "CALLBACK", "ftp://x"], ["EXPIRE", "a", 5, "CALLBACK", "http://" + "x" * 3000]):
        with pytest.raises(Refused):
            client(*words)
    assert client("GET", "a") == b"again" and client("TTL", "a") == -1


def test_dead_pops_of_keys_are_listed_and_redriven(node, receiver):
    client = Client(node.port)
    client("SET", "a", "its value", "PX", 50, "CALLBACK", receiver.uri + "/status/400")
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"], 10, "a dead pop")
    (dead,) = node.get("/timers?state=dead").json()["timers"]
    assert dead["callback"]["http"]["opaque"] == "its value"
    before = len(receiver.pops)
    answer = node.request("POST", f"/timers/{dead['id']}/redrive" if "id" in dead else dead["self"] + "/redrive")
    assert answer.status == 200, answer.body
    receiver.wait(before + 1)


def test_a_full_disk(nodes, mount):
    disk = mount("12m")
    node = nodes(config=SMALL, data_dir=str(disk / "data")).start()
    client = Client(node.port)
    client("SET", "first", "1")
    written = 0
    with pytest.raises(Refused, match="the disk is full"):
        for written in range(2000):
            client("SET", f"k{written}", "v" * 30000)
    assert written > 50 and client("GET", "first") == b"1" and client("STRLEN", "k0") == 30000
    with pytest.raises(Refused, match="the disk is full"):
        client("MSET", "a", "1", "b", "2")
    with pytest.raises(Refused, match="the disk is full"):
        client("INCR", "n")
    for i in range(written // 2):
        assert client("DEL", f"k{i}") == 1
    wait_for(lambda: node.get("/readyz").status == 200, 60, "it heals: what was deleted is garbage")
    assert client("SET", "again", "1") == b"OK"
    node.kill()
    node.start()
    client = Client(node.port)
    assert client("DBSIZE") == written - written // 2 + 2
    assert all(client("STRLEN", f"k{i}") == 30000 for i in range(written // 2, written))


def test_overwritten_keys_do_not_fill_a_disk(nodes, mount):
    """The log is ten times what the disk holds, and keys that are never touched are carried along."""
    disk = mount("24m")
    node = nodes(config=SMALL, data_dir=str(disk / "data")).start()
    client = Client(node.port)
    for i in range(3000):
        client("SET", f"still{i}", f"{i}")
    for i in range(240):
        client.pipeline([["SET", f"k{j}", f"{i}" * 200] for j in range(400)][:400])
    assert node.metrics()["tryst_log_reclaimed_total"] > 3000
    node.kill()
    node.start()
    client = Client(node.port)
    assert client("DBSIZE") == 3400
    assert client("MGET", *(f"still{i}" for i in range(3000))) == [f"{i}".encode() for i in range(3000)]


def test_torn_tail_and_flipped_bit(nodes):
    node = nodes().start()
    client = Client(node.port)
    for i in range(200):
        client("SET", f"k{i}", f"{i}")
    node.kill()
    folder = node.data_dir
    path = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".segment"))[0]
    data = open(path, "rb").read()
    end = len(data.rstrip(b"\0"))
    with open(path, "r+b") as file:  # the last batch was never answered, as far as the disk knows
        file.seek(end + 16 - end % 8)
        file.write(b"\x55" * 20)
    node.start()
    assert Client(node.port)("DBSIZE") == 200
    node.stop()
    with open(path, "r+b") as file:
        file.seek(end // 2)
        byte = file.read(1)
        file.seek(end // 2)
        file.write(bytes([byte[0] ^ 4]))
    node.start(wait=False)
    assert node.process.wait(20 * SLOW) != 0 and "damaged" in node.log()


def test_flush_and_scan(node):
    client = Client(node.port)
    client.pipeline([["SET", f"k{i}", "v"] for i in range(5000)])
    cursor, seen = b"0", []
    while True:
        cursor, keys = client("SCAN", cursor, "COUNT", 100)
        seen += keys
        if cursor == b"0":
            break
    assert len(seen) == 5000 == len(set(seen))
    client.pipeline([["FLUSHALL"], ["SET", "after", "1"]])
    assert client("DBSIZE") == 1 and client("KEYS", "*") == [b"after"] and client("RANDOMKEY") == b"after"
    node.kill()
    node.start()
    assert Client(node.port)("KEYS", "*") == [b"after"]


def test_limits_and_memory(nodes):
    node = nodes(config="[storage]\nmemory-budget = 64M\n[limits]\nvalue = 100K\n").start()
    client = Client(node.port)
    assert client("SET", "a", "v" * 102400) == b"OK"
    for words in (["SET", "a", "v" * 102401], ["APPEND", "a", "v"], ["SETRANGE", "a", 102400, "v"], ["MSET", "b", "1", "a", "v" * 102401]):
        with pytest.raises(Refused, match="exceeds maximum allowed size"):
            client(*words)
    with pytest.raises(Refused, match="65536"):
        client("SET", "k" * 65537, "v")
    assert client("SET", "k" * 65536, "v") == b"OK" and client("EXISTS", "b") == 0
    with pytest.raises(Refused, match="^OOM"):
        for i in range(2000):
            client("SET", f"k{i}", "v" * 100000)
    assert client("STRLEN", "a") == 102400 and client("DEL", *(f"k{i}" for i in range(200))) == 200
    assert client("SET", "again", "v" * 100000) == b"OK"


def test_ports_metrics_and_status(nodes):
    port = free_port()
    node = nodes(config=f"[resp]\nbind-port = {port}\n").start()
    client = Client(port)
    client("SET", "a", "b", "EX", 100)
    client("GET", "a")
    client("GET", "a")
    with pytest.raises(Refused):
        client("INCR", "a")
    metrics = node.metrics()
    assert metrics["tryst_keys"] == 1 == metrics["tryst_keys_expiring"] and metrics["tryst_keys_bytes"] == 2
    assert metrics['tryst_commands_total{command="get"}'] == 2 and metrics["tryst_command_errors_total"] == 1
    assert metrics["tryst_command_duration_seconds_count"] == 4
    status = subprocess.run([TRYST, "status", "--node", f"127.0.0.1:{node.port}"], capture_output=True, text=True, check=True)
    assert "keys       1, 1 of them expire" in status.stdout
    node.stop()
    dump = subprocess.run([TRYST, "log", "dump", node.data_dir], capture_output=True, text=True, check=True)
    assert 'key "a" version' in dump.stdout
    silent = nodes(config="[resp]\nenabled = no\n").start()
    assert silent.raw(encode("PING")).startswith(b"HTTP/1.1 400")


def test_a_node_with_others_keeps_no_keys(nodes):
    node = nodes(config="[cluster]\nlocalhost = 127.0.0.1:9\nnode = 127.0.0.1:9\nnode = 127.0.0.2:9\n").start(wait=False)
    client = wait_for(lambda: connect(node.port), 10, "it listens")
    with pytest.raises(Refused, match="UNAVAILABLE|LOADING"):
        client("SET", "a", "b")


def connect(port):
    try:
        return Client(port)
    except OSError:
        return None


def test_expired_keys_do_not_keep_a_node_from_starting(nodes):
    """A start needs no memory for what was gone long before."""
    node = nodes(config="[storage]\nmemory-budget = 64M\n").start()
    client = Client(node.port)
    for first in range(0, 400000, 2000):
        client.pipeline([["SET", f"k{i}", "v" * 100, "PX", 300] if i % 500 else ["SET", f"k{i}", "stays"] for i in range(first, first + 2000)])
    wait_for(lambda: node.metrics()["tryst_keys"] == 800, 10, "they expire")
    for again in range(2):
        node.kill() if again else node.stop()
        node.start()
        assert Client(node.port)("DBSIZE") == 800


def test_times_that_are_set_later_do_not_keep_a_node_from_starting(nodes):
    """Nor for what had expired by a time that was set after the value was, with timers among them."""
    node = nodes(config="[storage]\nmemory-budget = 64M\n").start()
    client = Client(node.port)
    for first in range(0, 400000, 2000):
        commands = []
        for i in range(first, first + 1000):
            commands += [["SET", f"k{i}", "v" * 100], ["PEXPIRE", f"k{i}", 300]]
        client.pipeline(commands)
        if first % 20000 == 0:
            node.create("http://127.0.0.1:1/", 1000, opaque="x" * 100)
    wait_for(lambda: node.metrics()["tryst_keys"] == 0, 20, "they expire")
    node.kill()
    node.start()
    assert Client(node.port)("DBSIZE") == 0 and node.metrics()['tryst_timers{state="pending"}'] == 20


def test_a_clock_that_was_set_back_while_the_node_was_down(nodes, tmp_path):
    """What had expired stays so, and what is set from then on is there until it expires."""
    offset = tmp_path / "offset"
    offset.write_text("3600000")
    node = nodes(environment={"TRYST_WALL_OFFSET_FILE": str(offset)}).start()
    client = Client(node.port)
    client("SET", "gone", "v", "PX", 100)
    client("SET", "stays", "v")
    wait_for(lambda: client("DBSIZE") == 1, 10, "it expires")
    time.sleep(0.5)  # until the log was told of it
    client("SET", "after", "that")
    node.stop()
    offset.write_text("0")
    node.start()
    client = Client(node.port)
    assert client("GET", "gone") is None and client("GET", "stays") == b"v"
    assert client("SET", "new", "v", "EX", 1800) == b"OK"
    for kill in True, False:
        node.kill() if kill else node.stop()
        node.start()
        client = Client(node.port)
        assert client("GET", "new") == b"v" and client("GET", "gone") is None


def test_all_or_none_at_the_limit_of_memory(nodes):
    node = nodes(config="[storage]\nmemory-budget = 64M\n").start()
    client = Client(node.port)
    client("SET", "there", "0")
    for i in range(2000):
        if client.pipeline([["SET", f"k{i}-{k}", "v" * 1000] for k in range(100)])[-1].startswith(b"-OOM"):
            break
    client.pipeline([["SET", f"s{i}", "v" * 20] for i in range(100000)])
    for command in "MSET", "MSETNX":
        with pytest.raises(Refused, match="^OOM command not allowed when used memory > 'maxmemory'.$"):
            client(command, *(["there", "1"] if command == "MSET" else ["not-there", "1"]), "new", "v" * 100000)
    assert client("MGET", "there", "not-there", "new") == [b"0", None, None]


def test_flushed_twice(nodes, node):
    client = Client(node.port)
    for first in range(0, 300000, 5000):
        client.pipeline([["SET", f"k{i}", "v"] for i in range(first, first + 5000)])
    assert client.pipeline([["FLUSHALL"], ["FLUSHALL"], ["DBSIZE"], ["SET", "a", "b"], ["FLUSHALL"], ["DBSIZE"]]) == [b"+OK", b"+OK", b":0", b"+OK", b"+OK", b":0"]


def test_more_times_than_memory(nodes):
    """Changing when keys expire, again and again, is refused before it takes what is kept for pops."""
    node = nodes(config="[storage]\nmemory-budget = 64M\n").start()
    client = Client(node.port)
    for first in range(0, 2000000, 5000):
        if client.pipeline([["SET", f"k{i}", "v"] for i in range(first, first + 5000)])[-1].startswith(b"-OOM"):
            break
    for first in range(0, 300000, 5000):
        replies = client.pipeline([["EXPIRE", f"k{i}", 1000 + i] for i in range(first, first + 5000)])
    assert replies[-1].startswith(b"-OOM")
    client.pipeline([["DEL", *(f"k{i}" for i in range(first, first + 5000))] for first in range(0, 300000, 5000)])
    for _ in range(60):
        replies = client.pipeline([["EXPIRE", "k300000", 100000 + i] for i in range(5000)])
    assert replies[-1] == b":1"


def test_callbacks_are_made_when_memory_is_full(nodes, receiver):
    node = nodes(config="[storage]\nmemory-budget = 64M\n").start()
    client = Client(node.port)
    client.pipeline([["SET", f"called{i}", "v" * 100, "PX", 2000 * int(SLOW), "CALLBACK", receiver.uri] for i in range(300)])
    with pytest.raises(Refused, match="^OOM"):
        for i in range(2000):
            client("SET", f"k{i}", "v" * 100000)
    while not client.pipeline([["SET", f"s{random.random()}", "v" * 100] for _ in range(1000)])[-1].startswith(b"-OOM"):
        pass
    receiver.wait(300, 20)
