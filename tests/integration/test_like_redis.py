# SPDX-License-Identifier: Apache-2.0
"""Replies as a real redis-server gives them, byte for byte: drawn commands with edge values, and broken protocol."""

import os
import random
import socket
import time

import pytest

from conftest import SLOW
from resp import Client, Redis, encode

SEQUENCES = int(os.environ.get("TRYST_SEQUENCES", "2000"))  # of a dozen commands each
NOW = int(time.time())

KEYS = ["k0", "k1", "k2", "k3", "", "a b", "\x00\xff"]
NUMBERS = ["0", "1", "-1", "10", "-10", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "01", "abc", "", "1.5", " 1", "3000000000", "100", "5", "+1", "-0", "0x10"]
FLOATS = ["3.0e3", "0.1", "-0.5", "inf", "-inf", "nan", "1e400", "10.50", "1e17", "123456789.123456789", "-1e-10", " 1.5", "1.5 ", "1_0", "1e99999", "1e-99999"]
VALUES = NUMBERS + FLOATS + ["x" * 50, "hello", "\x00\x01\r\n", "y" * 5000]
SECONDS = ["0", "-1", "1000", "100", "abc", "", "9223372036854775807", "9223372036854775", "9223372036854776", "-9223372036854775808", "99999999999", "1.5", "+100"]
MILLISECONDS = ["0", "-1", "1000000", "100000", "abc", "9223372036854775807", "9223370000000000000", "-9223372036854775808", "999999999999"]
AT_SECONDS = [str(NOW + 1000), "1", "0", "-1", "9223372036854775807", "9223372036854775", "x", "99999999999"]
AT_MILLISECONDS = [f"{NOW + 1000}000", "1", "0", "-1", "9223372036854775807", "x"]
OPTIONS = ["NX", "XX", "GET", "KEEPTTL", "nx", "PERSIST", "foo", "GT", "LT", "gt", "Xx", "keepttl", ""]
PATTERNS = ["*", "k*", "[", "k[0-2]", "k[^0-2]", "?", "\\", "k?", "k\\1", "[a-z]*", "", "**", "k[0", "k[2-0]"]


class Draw:
    """Draws commands."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def of(self, choices):
        return self.random.choice(choices)

    def some(self, choices, most):
        return [self.of(choices) for _ in range(self.random.randrange(most + 1))]

    def when(self):
        name, times = self.of([("EX", SECONDS), ("PX", MILLISECONDS), ("EXAT", AT_SECONDS), ("PXAT", AT_MILLISECONDS), ("ex", SECONDS)])
        return [name, self.of(times)] if self.random.random() < 0.95 else [name]

    def options(self):
        words = []
        for _ in range(self.random.randrange(4)):
            words += self.when() if self.random.random() < 0.4 else [self.of(OPTIONS)]
        return words

    def command(self):
        key, number, text = self.of(KEYS), self.of(NUMBERS), self.of(VALUES)
        return self.of([
            lambda: ["SET", key, text, *self.options()],
            lambda: ["SET", key, text, *self.when()],
            lambda: ["SET", key, number],
            lambda: ["GET", key],
            lambda: ["SETNX", key, text],
            lambda: ["SETEX", key, self.of(SECONDS), text],
            lambda: ["PSETEX", key, self.of(MILLISECONDS), text],
            lambda: ["GETDEL", key],
            lambda: ["GETEX", key, *self.options()],
            lambda: ["GETEX", key, *self.when()],
            lambda: ["GETSET", key, text],
            lambda: [self.of(["GETRANGE", "SUBSTR"]), key, self.of(NUMBERS), self.of(NUMBERS)],
            lambda: ["SETRANGE", key, self.of(["0", "1", "5", "-1", "100", "x", "600000000"]), text],
            lambda: ["MGET", *self.some(KEYS, 4)],
            lambda: [self.of(["MSET", "MSETNX"]), *self.some(KEYS + VALUES, 6)],
            lambda: [self.of(["MSET", "MSETNX"]), self.of(KEYS), text, self.of(KEYS), number],
            lambda: [self.of(["DEL", "UNLINK", "EXISTS", "TOUCH"]), *self.some(KEYS, 4)],
            lambda: [self.of(["INCR", "DECR", "STRLEN", "TYPE", "PERSIST", "incr"]), key],
            lambda: [self.of(["INCRBY", "DECRBY"]), key, number],
            lambda: ["INCRBYFLOAT", key, text],
            lambda: ["INCRBYFLOAT", key, self.of(FLOATS)],
            lambda: ["APPEND", key, text],
            lambda: ["EXPIRE", key, self.of(SECONDS), *self.some(OPTIONS, 2)],
            lambda: ["PEXPIRE", key, self.of(MILLISECONDS), *self.some(OPTIONS, 2)],
            lambda: ["EXPIREAT", key, self.of(AT_SECONDS), *self.some(OPTIONS, 2)],
            lambda: ["PEXPIREAT", key, self.of(AT_MILLISECONDS), *self.some(OPTIONS, 2)],
            lambda: [self.of(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key],
            lambda: ["DBSIZE"],
            lambda: [self.of(["RENAME", "RENAMENX"]), key, self.of(KEYS)],
            lambda: ["COPY", key, self.of(KEYS), *self.of([[], ["REPLACE"], ["DB", "0"], ["DB", "5"], ["foo"], ["DB", "x"], ["DB"], ["replace", "DB", "0"]])],
            lambda: ["KEYS", self.of(PATTERNS)],
            lambda: ["SCAN", self.of(["0", "x", "-1", "", "18446744073709551616"]), *self.of([[], ["COUNT", "0"], ["COUNT", "x"], ["MATCH"], ["foo", "1"]])],
            lambda: ["SCAN", "0", "COUNT", "1000", *self.of([[], ["MATCH", self.of(PATTERNS)], ["TYPE", "string"], ["TYPE", "list"], ["type", "STRING"]])],
            lambda: ["RANDOMKEY", "x"],
            lambda: [self.of(["FLUSHDB", "FLUSHALL"]), *self.of([[], ["ASYNC"], ["sync"], ["foo"], ["ASYNC", "x"]])],
            lambda: ["SELECT", self.of(NUMBERS)],
            lambda: ["PING", *self.some(["x", ""], 2)],
            lambda: ["ECHO", *self.some(["x", "\r\n"], 2)],
            lambda: [self.of(["FOO", "foo|bar", "a\nb", "x" * 200, "", "FOO\x00"]), *self.some(["bar", "x\r\ny", "z" * 150, ""], 3)],
            lambda: [self.of(["GET", "SET", "INCR", "TTL", "MGET", "STRLEN", "CLIENT", "CONFIG", "MEMORY"])],
            lambda: ["CLIENT", *self.of([["foo"], ["GETNAME"], ["SETNAME", "a"], ["SETNAME", "a b"], ["SETNAME", ""], ["ID", "x"], ["NO-EVICT", "on"], ["NO-EVICT", "x"], ["KILL", "1.2.3.4:5"], ["KILL", "ID", "0"], ["KILL", "ID", "99999999"], ["LIST", "foo"], ["LIST", "TYPE", "foo"], ["REPLY", "foo"], ["REPLY"]])],
            lambda: ["CONFIG", "GET", *self.of([["save"], ["databases"], ["nothing"], ["sav?"], []])],
            lambda: ["CONFIG", "GETT", "x"],
            lambda: ["COMMAND", "GETKEYS", *self.of([["SET", "a", "b"], ["PING"], ["FOO"], ["MSET", "a", "b", "c", "d"], ["MGET", "a", "b"], ["RENAME", "a", "b"], ["GET"], ["MEMORY", "USAGE", "a"]])],
            lambda: ["COMMAND", *self.of([["foo"], ["INFO", "nosuch"], ["LIST", "FILTERBY", "MODULE", "x"]])],
            lambda: ["MEMORY", "USAGE", *self.of([["nokey"], ["nokey", "SAMPLES", "x"], ["nokey", "SAMPLES", "1"], ["nokey", "SAMPLES", "-1"], ["nokey", "foo"]])],
            lambda: ["AUTH", *self.some(["x", "default", "y"], 3)],
            lambda: ["HELLO", *self.of([["4"], ["x"], ["2", "foo"], ["3", "SETNAME", "a b"], ["1"], ["3", "AUTH", "a"], ["3", "AUTH", "a", "b"]])],
        ])()


def to_compare(words, reply):
    """What cannot be the same to the byte: the order of keys, cursors, and the last digits of a time."""
    name = words[0].upper()
    if name == "KEYS" and isinstance(reply, tuple):
        return reply[0], sorted(reply[1])
    if name == "SCAN" and isinstance(reply, tuple):
        return sorted(reply[1][1][1]) if "1000" in words else None
    if name in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME") and len(reply) > 3 and b"-" not in reply:
        return int(reply[1:]) // (3000 if name[0] == "P" else 3) // 2
    return reply


def is_near(words, ours, theirs):
    """Times are told a moment apart."""
    return isinstance(ours, int) and isinstance(theirs, int) and words[0].upper() in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME") and abs(ours - theirs) <= 1


def is_freed_sooner(commands, at, ours, theirs):
    """Redis counts what has expired until it comes by, tenths of a second later; tryst takes it out within a moment."""
    expires = any(word.upper() in ("EX", "PX", "EXAT", "PXAT", "SETEX", "PSETEX", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT") for words in commands[:at] for word in words)
    return commands[at][0].upper() == "DBSIZE" and expires and ours[:1] == theirs[:1] == b":" and int(ours[1:]) < int(theirs[1:])


@pytest.fixture
def redis(tmp_path):
    made = Redis(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_drawn_sequences(node, redis, protocol):
    ours, theirs = Client(node.port), Client(redis.port)
    for client in (ours, theirs):
        client("HELLO", protocol)
    differences = []
    for seed in range(SEQUENCES // 2):
        draw = Draw(f"{protocol} {seed}")
        commands = [["FLUSHALL"], *(draw.command() for _ in range(12))]
        for at, (words, a, b) in enumerate(zip(commands, ours.pipeline(commands), theirs.pipeline(commands))):
            mine, real = to_compare(words, a), to_compare(words, b)
            if mine != real and not is_near(words, mine, real) and not is_freed_sooner(commands, at, a, b):
                differences.append(f"sequence {seed} {words}\n  tryst {a}\n  redis {b}")
    assert not differences, f"{len(differences)} differ:\n" + "\n".join(differences[:20])


BROKEN = [
    b"*1\r\n$4\r\nPING\r\n*x\r\n",
    b"*2147483648\r\n",
    b"*9223372036854775808\r\n",
    b"*-10\r\n\r\n\r\nPING\r\n",
    b"*0\r\nPING\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$9223372036854775807\r\n",
    b"*1\r\n$9223372036854775808\r\n",
    b"*1\r\n$600000000\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n:1\r\n",
    b"*1\r\n$1x\r\n",
    b"*" + b"1" * 70000,
    b"*1\r\n$" + b"1" * 70000,
    b"x" * 70000,
    b"PING\r\n",
    b"PING\n",
    b"  PING  \r\nECHO 'a b'\r\nECHO \"\\x41\\n\"\r\n",
    b"ECHO \"unclosed\r\n",
    b"ECHO 'a'b\r\n",
    b"SET a 'b\\'c'\r\nGET a\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    b"quit now\r\n",
    b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\nPING\r\n*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\nPING\r\n",
    b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\nPING\r\nPING\r\n",
    b"*1\r\n$5\r\nRESET\r\nPING\r\n",
    b"\r\n\r\nPING\r\n",
    b"GET\r\nfoo bar\r\n",
    b"CLIENT REPLY SKIP\r\nNOSUCH\r\nPING\r\n",
    b"CLIENT REPLY OFF\r\nQUIT\r\n",
    b"CLIENT REPLY OFF\r\n*1\r\nx\r\n",
    b"CLIENT REPLY SKIP\r\nRESET\r\nPING\r\n",
    b"SET a b\0c\r\nPING\r\n",
    b"$\0" + (b"A" * 1023 + b"\n") * 65,
    b"*\0" + b"1" * 66000,
    b"*2\r\n$9\r\nclient|id\r\n$1\r\nx\r\n",
    b"COMMAND INFO get|foo\r\n",
    b"COPY a b DB 3000000000\r\n",
    b"MEMORY USAGE nosuch SAMPLES 1 SAMPLES 2\r\n",
    b"COMMAND LIST FILTERBY PATTERN nosuch*\r\nCOMMAND LIST FILTERBY ACLCAT nosuch\r\nCOMMAND LIST FILTERBY x y\r\n",
    b"CONFIG GET SAVE\r\nCONFIG GET Save save\r\nCONFIG GET MAXMEMORY-P*Y\r\n",
    b"SET k " + b"v" * 20000 + b"\r\nSTRLEN k\r\n",
]


def everything(port, data):
    """What comes back until the server closes, or is silent after our end."""
    with socket.create_connection(("127.0.0.1", port), timeout=10 * SLOW) as stream:
        received = b""
        try:
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)
        except OSError:  # it has closed already
            pass
        try:
            while piece := stream.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_protocol(node, redis, number):
    assert everything(node.port, BROKEN[number]) == everything(redis.port, BROKEN[number])


def test_what_clients_ask_first(node, redis):
    """Parts of HELLO, COMMAND and INFO that libraries read."""
    ours, theirs = Client(node.port), Client(redis.port)
    for protocol in (2, 3):
        mine, real = ours("HELLO", protocol), theirs("HELLO", protocol)
        assert mine[::2] == real[::2] and mine[1] == b"redis" and mine[3].startswith(b"7.0") and mine[5] == protocol
    newer = {"client|setinfo", "client|no-touch"}  # than 7.0
    own = ("create", "join", "keyspace", "leave", "lost", "nodes")  # there is nothing like them
    every = [name.decode() for name in ours("COMMAND", "LIST") if name.decode() not in newer]
    names = [name for name in every if not name.startswith(own)]
    for name in names:
        (mine,), (real,) = ours("COMMAND", "INFO", name), theirs("COMMAND", "INFO", name)
        assert mine[:2] == real[:2] and mine[3:6] == real[3:6], name
        # What a write costs differs, and there are no users; the rest of the flags is the same.
        assert set(mine[2]) == set(real[2]) - {b"movablekeys", b"no_multi"}, name
        assert mine[6] == real[6], name
        assert len(mine) == len(real)
    docs = ours("COMMAND", "DOCS")
    assert len(docs) == 2 * sum("|" not in name for name in every)
    for by, what in ("PATTERN", "*GET*"), ("PATTERN", "client|*"), ("ACLCAT", "connection"), ("ACLCAT", "DANGEROUS"):
        mine, real = (set(client("COMMAND", "LIST", "FILTERBY", by, what)) for client in (ours, theirs))
        assert {name for name in mine if not name.decode().startswith(own)} - {name.encode() for name in newer} == real & {name.encode() for name in names}, what
    info = dict(line.split(":", 1) for line in ours("INFO").decode().splitlines() if ":" in line)
    assert info["loading"] == "0" and info["role"] == "master" and info["cluster_enabled"] == "0" and info["redis_version"].startswith("7.0")
    assert int(info["tcp_port"]) == node.port and int(info["used_memory"]) > 0 and int(info["connected_clients"]) >= 1
    assert ours("CONFIG", "GET", "save") == [b"save", b""]
    assert ours("CLIENT", "SETINFO", "LIB-NAME", "x") == b"OK"


def test_times_of_day_are_told_as_they_were_given(node, redis):
    """To the millisecond, whenever that is asked."""
    ours, theirs = Client(node.port), Client(redis.port)
    for client in ours, theirs:
        for i in range(200):
            at = 33177117420000 + i
            client("SET", "a", "b", "PXAT", at)
            time.sleep(0.0013)
            assert client("PEXPIRETIME", "a") == at
            assert client("PEXPIREAT", "a", at, "GT") == 0 and client("PEXPIREAT", "a", at, "LT") == 0


def test_clients_and_themselves(node, redis):
    for port in node.port, redis.port:
        client, other = Client(port), Client(port)
        number, others = client("CLIENT", "ID"), other("CLIENT", "ID")
        assert client("CLIENT", "KILL", "ID", number) == 0 and client("PING") == b"PONG"
        lines = client("CLIENT", "LIST", "ID", others, number, others).decode().splitlines()
        assert [line.split()[0] for line in lines] == [f"id={others}", f"id={number}", f"id={others}"]
        assert "cmd=client|list" in lines[1]
        time.sleep(1.1)
        assert [line for line in client("CLIENT", "LIST").decode().splitlines() if line.startswith(f"id={others} ") and "idle=0" not in line]
        assert client("CLIENT", "KILL", "ID", others) == 1


def test_http_beside_it(node):
    """Both on one port, and on one connection neither can pass for the other."""
    client = Client(node.port)
    assert client("SET", "a", "b") == b"OK"
    assert node.get("/healthz").status == 200
    assert node.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert node.raw(b"GET a\r\n") == b"$1\r\nb\r\n"
    assert node.raw(encode("GET", "a")) == b"$1\r\nb\r\n"
    for piece in b"GET a\r\n", b"GET /healthz HTTP/1.0\r\n\r\n":
        with socket.create_connection(("127.0.0.1", node.port), timeout=10 * SLOW) as stream:
            for byte in piece:
                stream.sendall(bytes([byte]))
            assert stream.recv(4096)
