# SPDX-License-Identifier: Apache-2.0
"""Tokens: every endpoint and command by every scope, narrowed ones on what is theirs and what is not, limits, and a file that changes."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis

from conftest import QUICK, TRYST, timer_body, wait_for

OPENAPI = json.loads((Path(__file__).resolve().parent.parent.parent / "docs" / "openapi.json").read_text())
OPEN = {"/ping", "/livez", "/readyz", "/healthz", "/metrics"}
ADMIN = {("/cluster", "put"), ("/cluster/resync", "post"), ("/clock", "put"), ("/clock/advance", "post"), ("/timers/references", "delete")}
OF_ALL = {"/history", "/destinations", "/cluster", "/cluster/resync", "/clock", "/clock/advance", "/timers/references"}
SCOPES = {"reader": "read", "writer": "write", "admin": "admin", "shop": "read,write,tag:shop", "named": "read write prefix:app/", "keys": "read,write,keys:app:"}


def new_token(path, name, *scopes):
    words = [word for scope in scopes for word in ("--scope", scope)]
    made = subprocess.run([TRYST, "token", "new", name, *words, "--tokens-file", str(path)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()[-1]


@pytest.fixture
def guarded(nodes, tmp_path):
    """A node that wants tokens: itself, the tokens by name, and their file."""
    path = tmp_path / "tokens"
    tokens = {name: new_token(path, name, scope) for name, scope in SCOPES.items()}
    node = nodes(config=QUICK + f"[auth]\ntokens-file = {path}\n").start()
    node.tokens, node.path = tokens, path
    return node


def ask(node, name, method, path, body=None, **headers):
    shown = {"Authorization": f"Bearer {node.tokens.get(name, name)}"} if name else {}
    return node.request(method, path, body, {**shown, **headers})


def body(tag=None, seconds=3600):
    return timer_body("http://127.0.0.1:9/", seconds, tags=[{"type": tag}] if tag else None)


def set_timer(node, name, tag, path=None):
    answer = ask(node, "admin", "PUT" if path else "POST", path or "/timers", body(tag))
    assert answer.status == 200, answer.body
    return answer.location


def test_every_operation_by_every_scope(guarded):
    node = guarded
    ask(node, "admin", "PUT", "/timers/named/known", body("other"))
    checked = 0
    for path, item in OPENAPI["paths"].items():
        for method in ("get", "put", "post", "delete"):
            if method not in item:
                continue
            target = path.replace("{id}", "0123456789abcdef-2").replace("{name}", "known").replace("{key}", "other")
            target += {("/timers", "delete"): "?tag=none", ("/timers/redrive", "post"): "?tag=none"}.get((path, method), "")
            content = body() if path.startswith("/timers") and method in ("post", "put") else "{}" if method in ("post", "put") else None
            assert ask(node, None, method.upper(), target, content).status == (401 if path not in OPEN else 200), (method, path)
            if path in OPEN:
                continue
            assert ask(node, "x" * 43, method.upper(), target, content).status == 401
            for name in SCOPES:
                ask(node, "admin", "PUT", "/timers/named/known", body("other"))
                status = ask(node, name, method.upper(), target, content).status
                is_admin, is_read = (path, method) in ADMIN, method == "get"
                may = name == "admin" or (not is_admin and name == ("reader" if is_read else "writer"))
                about_keys = path.startswith("/key")
                if name in ("shop", "named"):
                    may = not is_admin and not about_keys and path not in OF_ALL
                    may &= (path, method) not in (("/timers", "post"), ("/timers/{id}", "put"))  # without the tag, or the name
                    may &= "{name}" not in path  # that timer is of others
                elif name == "keys":
                    may = about_keys and path != "/keys/{key}"
                assert status != 401 and (status != 403) == may, (name, method, path, status, may)
                checked += 1
    assert checked > 120


def test_what_is_narrowed_to_a_tag_sees_and_changes_only_that(guarded):
    node = guarded
    own, others = set_timer(node, "admin", "shop"), set_timer(node, "admin", "else")
    set_timer(node, "admin", "else", "/timers/named/app%2Fone")
    assert {timer["id"] for timer in ask(node, "shop", "GET", "/timers").json()["timers"]} == {own.split("/")[-1]}
    assert [timer["id"] for timer in ask(node, "shop", "GET", "/timers?sort=due").json()["timers"]] == [own.split("/")[-1]]
    assert len(ask(node, "named", "GET", "/timers").json()["timers"]) == 1
    assert ask(node, "shop", "GET", "/timers/ahead").json()["pending"] == 1
    assert ask(node, "reader", "GET", "/timers/ahead").json()["pending"] == 3
    assert ask(node, "shop", "GET", own).status == 200 and ask(node, "shop", "GET", others).status == 403
    for method, path in (("DELETE", others), ("PUT", others), ("POST", f"{others}/fire"), ("POST", f"{others}/redrive"), ("DELETE", "/timers/named/app%2Fone")):
        assert ask(node, "shop", method, path, body("shop") if method == "PUT" else None).status == 403, (method, path)
    assert ask(node, "shop", "PUT", own, body("else")).status == 403  # it would not be its own any more
    assert ask(node, "shop", "POST", "/timers", body("else")).status == 403
    assert ask(node, "shop", "POST", "/timers", body("shop")).status == 200
    assert ask(node, "shop", "PUT", own, body("shop", 1800)).status == 200
    assert ask(node, "shop", "PUT", "/timers/named/new", body("shop")).status == 200
    assert ask(node, "named", "PUT", "/timers/named/app%2Ftwo", body()).status == 200
    assert ask(node, "named", "PUT", "/timers/named/two", body()).status == 403
    assert ask(node, "shop", "PUT", own, body("shop"), **{"If-None-Match": "*"}).status == 412
    lines = ask(node, "shop", "POST", "/timers", "\n".join([body("shop"), body("else"), body("shop")]) + "\n", **{"Content-Type": "application/x-ndjson"})
    assert [json.loads(line).get("status", 200) for line in lines.body.splitlines()] == [200, 403, 200]
    # All that it may see, and nothing else.
    assert ask(node, "shop", "DELETE", "/timers?all=yes").json() == {"cancelled": 5}
    assert ask(node, "reader", "GET", "/timers/ahead").json()["pending"] == 3
    assert ask(node, "shop", "DELETE", own).status == 200 and ask(node, "shop", "POST", f"{own}/fire").status == 404
    assert ask(node, "shop", "GET", "/timers?scope=held").status == 403


def test_commands_by_scope(guarded):
    node = guarded

    def client(name):
        return redis.Redis("127.0.0.1", node.port, password=node.tokens[name])

    nobody = redis.Redis("127.0.0.1", node.port)
    for command in (("GET", "k"), ("SET", "k", "v"), ("SCAN", "0"), ("INFO",), ("CREATE", "KEYSPACE", "8", "1"), ("FLUSHALL",), ("DBSIZE",)):
        with pytest.raises(redis.AuthenticationError):
            nobody.execute_command(*command)
    with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
        redis.Redis("127.0.0.1", node.port, password="wrong").ping()
    writer, reader, keys, admin = client("writer"), client("reader"), client("keys"), client("admin")
    for key in ("app:1", "app:2", "other"):
        assert writer.set(key, "v")
    for refused in (lambda: writer.get("app:1"), lambda: reader.set("k", "v"), lambda: reader.flushall(), lambda: keys.get("other"), lambda: keys.set("other", "x"), lambda: keys.mget("app:1", "other"),
                    lambda: keys.dbsize(), lambda: keys.flushall(), lambda: keys.randomkey(), lambda: client("shop").get("app:1"), lambda: writer.execute_command("CREATE", "KEYSPACE", "8", "1")):
        with pytest.raises(redis.ResponseError, match="this token"):
            refused()
    assert reader.get("other") == b"v" and keys.mget("app:1", "app:2") == [b"v", b"v"] and keys.delete("app:2") == 1
    assert set(keys.scan_iter()) == {b"app:1"} and keys.keys("*") == [b"app:1"] and set(reader.scan_iter()) == {b"app:1", b"other"}
    assert ask(node, "keys", "GET", "/keys").json()["keys"] == ["app:1"]
    assert ask(node, "keys", "GET", "/keys/other").status == 403 and ask(node, "keys", "GET", "/keys/app:1").status == 200
    assert admin.execute_command("KEYSPACE", "INFO")
    hello = redis.Redis("127.0.0.1", node.port, username="anybody", password=node.tokens["reader"])
    assert hello.get("other") == b"v"


def test_what_is_written_tells_nothing_to_who_may_not_read(guarded):
    node = guarded
    writer = redis.Redis("127.0.0.1", node.port, password=node.tokens["writer"])
    assert writer.set("k", "secret")
    for refused in (("GETDEL", "k"), ("GETEX", "k"), ("GETSET", "k", "x"), ("SET", "k", "x", "GET"), ("FLUSHALL",), ("FLUSHDB",)):
        with pytest.raises(redis.ResponseError, match="this token"):
            writer.execute_command(*refused)
    assert writer.set("get", "get") and ask(node, "writer", "DELETE", "/timers?all=yes&dry-run=yes").status == 403
    # Rights go with the token that was shown last.
    session = redis.Redis("127.0.0.1", node.port, username="x", password=node.tokens["admin"], single_connection_client=True)
    session.ping()
    assert session.execute_command("AUTH", "shop", node.tokens["shop"])
    for words in (("GET", "k"), ("FLUSHALL",)):
        with pytest.raises(redis.ResponseError, match="this token"):
            session.execute_command(*words)
    with pytest.raises(redis.ResponseError, match="WRONGPASS"):
        session.execute_command("AUTH", "x", "wrong")


def test_tokens_are_not_added_up(guarded):
    node = guarded
    others = set_timer(node, "admin", "else")
    for first, second in (("shop", "reader"), ("reader", "shop"), ("named", "admin")):
        content = body("else")
        with socket.create_connection(("127.0.0.1", node.port), timeout=10) as stream:
            stream.sendall(f"PUT {others} HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer {node.tokens[first]}\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode()
                           + f"GET /timers HTTP/1.1\r\nHost: n\r\nConnection: close\r\nAuthorization: Bearer {node.tokens[second]}\r\n\r\n".encode())
            got = b""
            while piece := stream.recv(65536):
                got += piece
        assert got.startswith(b"HTTP/1.1 403"), (first, second, got[:200])


def test_limits_of_a_token(guarded):
    node = guarded
    node.tokens["slow"] = new_token(node.path, "slow", "read", "rate=5/s")
    node.tokens["few"] = new_token(node.path, "few", "write,tag:few", "pending=3")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: ask(node, "slow", "GET", "/timers").status == 200, 5, "the new token")
    answers = [ask(node, "slow", "GET", "/timers") for _ in range(30)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused and refused[0].headers["retry-after"] == "1"
    assert refused[0].headers["ratelimit-policy"] == '"token";q=5;w=1' and refused[0].headers["ratelimit"].startswith('"token";r=0;t=')
    statuses = [ask(node, "few", "POST", "/timers", body("few")).status for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


def test_a_file_that_changes_under_load(guarded):
    node = guarded
    session = redis.Redis("127.0.0.1", node.port, password=node.tokens["keys"], retry=None)
    assert session.set("app:x", "1")
    stop, seen = threading.Event(), []

    def load():
        while not stop.is_set():
            seen.append(ask(node, "reader", "GET", "/timers").status)

    thread = threading.Thread(target=load)
    thread.start()
    lines = node.path.read_text().splitlines()
    try:
        for i in range(10):
            node.path.write_text("\n".join([f"# {i}", *lines]) + "\n")
            node.process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        node.path.write_text("\n".join(line for line in lines if not line.startswith(("keys ", "writer "))) + "\n")
        node.process.send_signal(signal.SIGHUP)
        wait_for(lambda: ask(node, "writer", "POST", "/timers", body()).status == 401, 5, "a token that is revoked")
        with pytest.raises((redis.ConnectionError, redis.ResponseError)):
            session.get("app:x")
        # A bad file is told, and changes nothing; a missing one likewise.
        node.path.write_text("\n".join(lines) + "\nbroken line\n")
        node.process.send_signal(signal.SIGHUP)
        wait_for(lambda: f"{node.path}:{len(lines) + 1}: " in node.log(), 5, "a word on the line")
        node.path.unlink()
        node.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "No such file" in node.log(), 5, "a word on the file")
        assert ask(node, "writer", "POST", "/timers", body()).status == 401 and ask(node, "reader", "GET", "/timers").status == 200
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 5 and set(seen) == {200}


def test_guesses_are_counted_and_slow(guarded):
    node = guarded
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as stream:
        stream.sendall(b"".join(b"GET /timers HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer guess%d\r\n\r\n" % i for i in range(20)))
        stream.settimeout(1.2)
        got, end = b"", time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                got += stream.recv(65536)
            except TimeoutError:
                break
        assert 1 <= got.count(b"HTTP/1.1 401") <= 8
    assert node.metrics()["tryst_auth_failures_total"] >= 1
    assert "token" not in node.get("/ui/settings.json").json() and node.get("/ui/settings.json").json()["wants-token"] is True


def test_a_start_with_a_bad_file_is_refused(nodes, tmp_path):
    path = tmp_path / "tokens"
    for text, said in (("x", "does not end in sha256:"), ("x fly sha256:" + "0" * 64, "a scope is read"), ("x admin tag:a sha256:" + "0" * 64, "admin cannot be narrowed"), ("x tag:a sha256:" + "0" * 64, "it may do nothing"),
                       ("x read sha256:" + "0" * 64 + "\nx read sha256:" + "1" * 64, "used before"), ("x read pending=3 sha256:" + "0" * 64, "pending is a limit")):
        path.write_text(text + "\n")
        node = nodes(config=f"[auth]\ntokens-file = {path}\n")
        node.start(wait=False)
        assert node.process.wait(10) != 0 and said in node.log(), (text, node.log())
    node = nodes(config=f"[auth]\ntokens-file = {tmp_path}/none\n")
    node.start(wait=False)
    assert node.process.wait(10) != 0 and "No such file" in node.log()


def test_the_command_shows_its_token(guarded, tmp_path):
    node = guarded
    shown = tmp_path / "shown"
    shown.write_text(node.tokens["admin"] + "\n")
    words = ["--node", f"127.0.0.1:{node.port}"]

    def run(*command, file=shown):
        given = ["--token-file", str(file)] if file else []
        node = ["--cluster", words[1]] if command[0] == "keyspace" else words
        return subprocess.run([TRYST, *command, *node, *given], capture_output=True, text=True)

    assert run("timer", "add", "--in", "1h", "--to", "http://127.0.0.1:9/", "x").returncode == 0
    assert run("timer", "ls").stdout and run("status").returncode == 0
    refused = run("timer", "ls", file=None)
    assert refused.returncode == 1 and "wants a token" in refused.stderr and "--token-file" in refused.stderr
    for command in (("cluster", "status"), ("cluster", "resync"), ("keyspace",), ("pops",), ("timer", "where", "0123456789abcdef-2"), ("backup", "create", str(tmp_path / "a"))):
        refused = run(*command, file=None)
        assert refused.returncode == 1 and "wants a token" in refused.stderr, (command, refused)
    assert run("backup", "create", str(tmp_path / "b")).returncode == 0
    again = subprocess.run([TRYST, "token", "new", "admin", "--scope", "read", "--tokens-file", str(node.path)], capture_output=True, text=True)
    assert again.returncode == 2 and "token of that name" in again.stderr
    assert os.stat(node.path).st_mode & 0o007 == 0
