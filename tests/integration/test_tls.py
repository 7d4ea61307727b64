# SPDX-License-Identifier: Apache-2.0
"""TLS with clients: HTTP, RESP and the command on one port, beside plain ones or instead of them; certificates that are read anew."""

import http.client
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
import redis

from certificates import Authority
from conftest import QUICK, TRYST, TRYSTD, timer_body, wait_for


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "ca")


def context(authority, cert=None):
    made = ssl.create_default_context(cafile=authority.cert)
    if cert:
        made.load_cert_chain(*cert)
    return made


def secure(nodes, authority, more="", clients="accept"):
    cert, key = authority.sign("node", "127.0.0.1")
    return nodes(config=f"{QUICK}[tls]\ncert = {cert}\nkey = {key}\nclients = {clients}\n{more}")


def by_https(node, made, method="GET", path="/timers", body=None, headers=None):
    connection = http.client.HTTPSConnection("127.0.0.1", node.port, context=made, timeout=10)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_one_port_speaks_it_all(nodes, authority, receiver):
    node = secure(nodes, authority).start()
    made = context(authority)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        made.minimum_version = made.maximum_version = version
        status, body = by_https(node, made, "POST", "/timers", timer_body(receiver.uri, 0.1))
        assert status == 200, body
    wait_for(lambda: len(receiver.pops) == 2, 10, "both pops")
    assert node.get("/timers").status == 200  # plain, too
    client = redis.Redis("127.0.0.1", node.port, ssl=True, ssl_ca_certs=str(authority.cert))
    big = b"x" * 900_000
    assert client.set("k", "v") and client.set("big", big) and client.get("big") == big
    with client.pipeline(transaction=False) as pipe:
        for i in range(5000):
            pipe.set(f"k{i}", f"v{i}")
        assert all(pipe.execute())
    assert redis.Redis("127.0.0.1", node.port).get("k4999") == b"v4999"
    # Many requests in one record, and one in many.
    with made.wrap_socket(socket.create_connection(("127.0.0.1", node.port)), server_hostname="127.0.0.1") as stream:
        stream.sendall(b"GET /ping HTTP/1.1\r\nHost: n\r\n\r\n" * 300)
        got = b""
        while got.count(b"HTTP/1.1 200") < 300:
            got += stream.recv(65536)
        for byte in b"GET /ping HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n":
            stream.sendall(bytes([byte]))
        got = b""
        while piece := stream.recv(65536):
            got += piece
        assert got.startswith(b"HTTP/1.1 200")
    assert ssl.get_server_certificate(("127.0.0.1", node.port), ca_certs=str(authority.cert))


def test_where_it_is_required_nothing_goes_plainly(nodes, authority):
    node = secure(nodes, authority, clients="require")
    node.start(wait=False)
    made = context(authority)
    wait_for(lambda: ready(node, made), 20, "readiness by TLS")
    assert b"https://" in node.get("/timers").body and node.get("/timers").status == 400
    assert node.raw(b"PING\r\n").startswith(b"-ERR this node speaks TLS")
    assert node.raw(b"*1\r\n$4\r\nPING\r\n").startswith(b"-ERR this node speaks TLS")
    status, body = by_https(node, made, "POST", "/timers", timer_body("http://127.0.0.1:9/", 100))
    assert status == 200 and by_https(node, made, "GET", "/timers?scope=cluster")[0] == 200
    run = lambda *words: subprocess.run([TRYST, *words, "--cluster" if words[0] == "keyspace" else "--node", f"127.0.0.1:{node.port}"], capture_output=True, text=True)
    for words in (("timer", "ls"), ("status",), ("cluster", "status"), ("cluster", "resync"), ("keyspace",), ("pops",), ("timer", "where", "0123456789abcdef-2"), ("backup", "create", str(authority.folder / "b"))):
        refused = run(*words)
        assert refused.returncode == 1 and "speaks TLS" in refused.stderr and not refused.stdout, (words, refused)
    assert "https:// (400; --ca, TRYST_CA)" in run("status").stderr
    assert run("timer", "ls", "--ca", str(authority.cert)).returncode == 0
    other = Authority(authority.folder, "other")
    refused = run("timer", "ls", "--ca", str(other.cert))
    assert refused.returncode == 1 and "certificate" in refused.stderr
    assert by_https(node, made, "GET", "/keys")[0] == 200


def ready(node, made):
    try:
        return by_https(node, made, "GET", "/readyz")[0] == 200
    except OSError:
        return False


def test_bad_certificates_of_clients_are_refused_and_said(nodes, authority):
    node = secure(nodes, authority, f"client-ca = {authority.cert}\n").start()
    good = authority.sign("client", "client.example")
    expired = authority.sign("old", "old.example", days=-1)
    stranger = Authority(authority.folder / "other", "stranger").sign("stray", "a.example")
    assert by_https(node, context(authority, good))[0] == 200 and by_https(node, context(authority))[0] == 200
    for cert, said in ((expired, "certificate has expired"), (stranger, "unable to get local issuer certificate")):
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            by_https(node, context(authority, cert))
        wait_for(lambda said=said: said in node.log(), 5, said)
    with pytest.raises(ssl.SSLError):
        by_https(node, ssl.create_default_context())
    old = context(authority)
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        by_https(node, old)
    wait_for(lambda: node.metrics()["tryst_tls_refused_total"] >= 3, 5, "refusals, counted")
    for noise in (b"\x16\x03\x01\x00\x05hello", b"\x16" + b"\x00" * 3000, b"\x16\x03\x01\xff\xff" + b"a" * 70000):
        node.raw(noise)
    assert node.get("/ping").status == 200


def test_certificates_are_read_anew_under_load(nodes, authority):
    node = secure(nodes, authority).start()
    made, stop, counts, faults = context(authority), threading.Event(), [0], []
    kept = made.wrap_socket(socket.create_connection(("127.0.0.1", node.port)), server_hostname="127.0.0.1")

    def serial():
        return ssl.get_server_certificate(("127.0.0.1", node.port))

    def load():
        connection = http.client.HTTPSConnection("127.0.0.1", node.port, context=made, timeout=10)
        try:
            while not stop.is_set():
                connection.request("GET", "/ping")
                assert connection.getresponse().read() == b"OK"
                counts[0] += 1
        except Exception as fault:  # noqa: BLE001: whatever it is, it must not be
            faults.append(fault)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    before = serial()
    authority.sign("node", "127.0.0.1")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: serial() != before, 5, "the new certificate")
    now = serial()
    key = authority.folder / "node.key"
    shutil.copy(key, authority.folder / "saved")
    key.write_text("nothing\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "stays in force, with its tokens and certificates" in node.log(), 5, "a word on it")
    assert serial() == now and node.metrics()["tryst_config_faults"] == 1
    shutil.copy(authority.folder / "saved", key)
    time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults and counts[0] > 20
    kept.sendall(b"GET /ping HTTP/1.1\r\nHost: n\r\n\r\n")
    assert kept.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("config,said", [
    ("[tls]\ncert = {cert}\n", "belong together"), ("[tls]\nclients = accept\n", "need cert and key"), ("[tls]\ncert = {cert}\nkey = {other}\n", "cannot be used"),
    ("[tls]\ncert = /none.pem\nkey = {key}\n", "cannot be used"), ("[tls]\ncert = {cert}\nkey = {key}\npeers = require\n", "needs client-ca"), ("[tls]\ncert = {cert}\nkey = {key}\nclients = maybe\n", "off, accept or require"),
])
def test_a_start_that_cannot_be_is_said(nodes, authority, config, said):
    cert, key = authority.sign("node", "127.0.0.1")
    _, other = authority.sign("other", "127.0.0.1")
    node = nodes(config=config.format(cert=cert, key=key, other=other))
    node.start(wait=False)
    assert node.process.wait(10) != 0 and said in node.log(), node.log()


def check_config(authority, tmp_path, config, tokens="x read sha256:" + "0" * 64):
    """What --check-config says of a node with these lines, and how it ends."""
    (tmp_path / "tokens").write_text(tokens + "\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "check.conf").write_text(f"[storage]\ndata-dir = none\n[auth]\ntokens-file = {tmp_path}/tokens\n[tls]\n{config}")
    done = subprocess.run([TRYSTD, "--config", tmp_path / "check.conf", "--check-config"], capture_output=True, text=True, timeout=10)
    return done.returncode, done.stderr


def test_the_configuration_is_checked_with_its_files(authority, tmp_path):
    good, key = authority.sign("good", "127.0.0.1")
    lines = "cert = {}\nkey = {}\nclient-ca = {}\npeers = accept\n"
    assert check_config(authority, tmp_path, lines.format(good, key, authority.cert)) == (0, "")
    other, other_key = authority.sign("other", "127.0.0.9")
    stranger = Authority(tmp_path / "strange").sign("stranger", "127.0.0.1")
    late, late_key = authority.sign("late", "127.0.0.1", days=3)
    ended, ended_key = authority.sign("ended", "127.0.0.1", days=-1)
    for pair, wanted, said in (((other, other_key), 2, "does not bear 127.0.0.1"), (stranger, 0, "unable to get local issuer certificate"), ((late, late_key), 0, "expires at 20"), ((ended, ended_key), 2, "has expired")):
        status, words = check_config(authority, tmp_path, lines.format(*pair, authority.cert))
        assert status == wanted and words.count(said) == 1, words
    status, words = check_config(authority, tmp_path, lines.format(good, other_key, authority.cert))
    assert status == 2 and "it does not belong to the certificate" in words
    half = tmp_path / "half.key"
    half.write_text(key.read_text()[:100])
    status, words = check_config(authority, tmp_path, lines.format(good, half, authority.cert) + "[http]\nbind-prt = 1\n", "# none")
    assert status == 2 and all(said in words for said in ("is no private key in PEM", "has no token", "bind-prt")), words
    status, words = check_config(authority, tmp_path, lines.format(good, key, authority.cert) + f"[callback]\nca-file = {half}\n")
    assert status == 2 and "cannot be read as certificates" in words
    status, words = check_config(authority, tmp_path, lines.format(*stranger, authority.cert).replace("peers", "clients") + "[cluster]\nnode = 127.0.0.1:7253\nnode = 127.0.0.2:7253\n")
    assert "unable to get local issuer certificate" in words
    status, words = check_config(authority, tmp_path, lines.format(good, key, authority.cert), "x fly sha256:" + "0" * 64)
    assert status == 2 and "a scope is read" in words


def test_a_reload_is_whole_or_nothing(nodes, authority, tmp_path):
    cert, key = authority.sign("node", "127.0.0.1")
    (tmp_path / "tokens").write_text("x read sha256:" + "0" * 64 + "\n")
    node = nodes(config=f"[tls]\ncert = {cert}\nkey = {key}\n[auth]\ntokens-file = {tmp_path}/tokens\n").start()
    end = node.metrics()["tryst_tls_expires_timestamp_seconds"] - time.time()
    assert 29 * 86400 < end <= 30 * 86400
    # Of three things one is wrong: none of them is taken over.
    (tmp_path / "tokens").write_text("nothing\n")
    node.config.write_text(node.config.read_text().replace(str(cert), str(authority.sign("next", "127.0.0.1", days=3)[0])).replace(str(key), str(authority.folder / "next.key")))
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the new configuration has 1 fault; the one before stays in force" in node.log(), 5, "a word on it")
    assert "is in force" not in node.log() and node.get("/timers").status == 401
    assert node.metrics()["tryst_tls_expires_timestamp_seconds"] - time.time() > 29 * 86400
    # Nor one that has expired, while there is a better one.
    (tmp_path / "tokens").write_text("y read sha256:" + "1" * 64 + "\n")
    (tmp_path / "good.pem").write_text((authority.folder / "next.pem").read_text())
    shutil.copy(authority.sign("gone", "127.0.0.1", days=-1)[0], authority.folder / "next.pem")
    shutil.copy(authority.folder / "next.key", tmp_path / "good.key")
    shutil.copy(authority.folder / "gone.key", authority.folder / "next.key")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "next.pem has expired" in node.log() and node.log().count("stays in force") == 2, 5, "a word on it")
    assert node.metrics()["tryst_tls_expires_timestamp_seconds"] - time.time() > 29 * 86400
    shutil.copy(tmp_path / "good.pem", authority.folder / "next.pem")
    shutil.copy(tmp_path / "good.key", authority.folder / "next.key")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "is in force" in node.log() and "expires at" in node.log() and "1 token is in force" in node.log(), 5, "a word on it")
    assert node.metrics()["tryst_tls_expires_timestamp_seconds"] - time.time() < 4 * 86400 and node.metrics()["tryst_config_faults"] == 0
    node.config.write_text(node.config.read_text().replace("tokens-file", "# tokens-file"))
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "tokens-file is gone from the configuration" in node.log() and node.get("/timers").status == 200, 5, "a word on what is open now")
