# SPDX-License-Identifier: Apache-2.0
"""Clusters whose nodes talk by TLS, and whose clients show tokens."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
import time

import pytest

from cluster import TRYST, Cluster, wait_for


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def timer(seconds, tag="x"):
    return json.dumps({"timing": {"interval": seconds}, "statistics": {"tag-info": [{"type": tag, "count": 1}]}, "callback": {"http": {"uri": "http://127.0.0.1:9/", "opaque": "x"}}})


def say(member, more):
    """Its shared file, and SIGHUP."""
    (member.folder / "chronos_shared.conf").write_text(member.cluster.shared + more)
    member.signal(signal.SIGHUP)


def links(member):
    return [peer["state"] for peer in member.json("/cluster")["nodes"]]


def test_a_running_cluster_is_switched_over_node_by_node(cluster):
    members = cluster.start(3)
    stop, statuses = threading.Event(), []

    def load():
        while not stop.is_set():
            for member in members:
                try:
                    statuses.append(member.request("POST", "/timers", timer(3600))[0])
                except OSError:
                    time.sleep(0.01)  # it starts anew

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for mode in ("accept", "require"):
            for member in members:
                say(member, member.tls(mode))
                time.sleep(0.2)
            # Links that are there stay as they are: each node starts anew, as a new version would.
            for member in members:
                assert member.stop() == 0
                member.start()
                wait_for(lambda: all(links(at) == ["up", "up"] for at in members if at.is_running()), 20, "all see all", lambda: member.log()[-1500:])
    finally:
        stop.set()
        thread.join(60)
    done = statuses.count(200)
    assert done > 30
    # What goes between two nodes cannot be read any more: a plain greeting is refused.
    assert members[0].request("GET", "/peer", headers={"Connection": "Upgrade", "Upgrade": "tryst-peer"})[0] == 400
    wait_for(lambda: sum(member.json("/timers/ahead?scope=node")["pending"] for member in members) >= done, 20, "all timers are there")


def test_certificates_of_nodes_that_are_wrong_are_refused(cluster):
    members = cluster.add(3)
    for member in members:
        member.configure(members)
        (member.folder / "chronos_shared.conf").write_text(member.tls("require"))
    # The second bears another node's address, the third has none.
    (members[1].folder / "chronos_shared.conf").write_text(members[1].tls("require", host="127.9.9.9"))
    (members[2].folder / "chronos_shared.conf").write_text("")
    for member in members:
        member.start(wait=False)
    first = members[0]
    wait_for(lambda: f"a link from {members[1].address} was not made: by TLS" in first.log() or "IP address mismatch" in first.log(), 20, "a word on the wrong name", first.log)
    wait_for(lambda: "no link to" in members[2].log() and "HTTP status 400" in members[2].log(), 20, "a word on the missing one", members[2].log)
    say(members[1], members[1].tls("require"))
    say(members[2], members[2].tls("require"))
    wait_for(lambda: all(links(member) == ["up", "up"] for member in members), 30, "links, once they are right", lambda: first.log()[-1500:])


@pytest.mark.parametrize("clients", ["", "require"])
def test_listings_of_all_nodes_with_tokens(cluster, clients):
    tokens = cluster.folder / "tokens"
    secret = cluster.folder / "secret"
    cluster.folder.mkdir(exist_ok=True)
    secret.write_text("a secret of the cluster\n")
    shown = {}
    for name, scope in (("admin", "admin"), ("shop", "read,write,tag:shop"), ("reader", "read")):
        made = subprocess.run([TRYST, "token", "new", name, "--scope", scope, "--tokens-file", str(tokens)], capture_output=True, text=True, check=True)
        shown[name] = made.stdout.splitlines()[-1]
    members = cluster.add(3)
    for member in members:
        member.configure(members)
        text = f"[auth]\ntokens-file = {tokens}\n[cluster]\nsecret-file = {secret}\n"
        (member.folder / "chronos_shared.conf").write_text(text + (member.tls("require") + "clients = require\n" if clients else ""))
        member.start(wait=False)
    made = ssl.create_default_context(cafile=cluster.authority().cert)

    def ask(member, name, method, path, body=None):
        kind = http.client.HTTPSConnection if clients else http.client.HTTPConnection
        connection = kind(member.host, cluster.port, timeout=20, **({"context": made} if clients else {}))
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {shown[name]}"} if name else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(member):
        try:
            return ask(member, None, "GET", "/readyz")[0] == 200
        except OSError:
            return False

    for member in members:
        wait_for(lambda member=member: is_ready(member), 30, "readiness", lambda: members[0].log()[-2000:])
    for i in range(60):
        tag = "shop" if i % 3 == 0 else "else"
        assert ask(members[i % 3], "admin", "POST", "/timers", timer(3600 + i, tag))[0] == 200
    assert ask(members[0], None, "GET", "/timers?scope=cluster")[0] == 401
    own, others = (json.loads(ask(members[0], "admin", "GET", f"/timers?scope=node&tag={tag}")[1])["timers"][0]["id"] for tag in ("shop", "else"))
    for member in members:  # one of them at least does not hold it, and reads it from others
        assert [ask(member, name, "GET", f"/timers/{own}")[0] for name in ("admin", "reader", "shop")] == [200, 200, 200]
        assert [ask(member, name, "GET", f"/timers/{others}")[0] for name in ("admin", "shop")] == [200, 403]
        assert [ask(member, "shop", method, f"/timers/{others}{suffix}", body)[0] for method, suffix, body in (("DELETE", "", None), ("PUT", "", timer(100, "shop")), ("POST", "/fire", None))] == [403] * 3
        assert ask(member, "shop", "PUT", f"/timers/{own}", timer(7200, "shop"))[0] == 200
    for member in members:
        ahead = {name: json.loads(ask(member, name, "GET", "/timers/ahead?scope=cluster")[1]) for name in ("shop", "reader")}
        assert (ahead["shop"]["pending"], ahead["reader"]["pending"]) == (20, 60) and ahead["reader"]["nodes-unheard"] == 0, ahead
        listed = json.loads(ask(member, "shop", "GET", "/timers?scope=cluster&sort=due")[1])
        assert len(listed["timers"]) == 20 and all(at["statistics"]["tag-info"][0]["type"] == "shop" for at in listed["timers"])
        found, cursor = [], ""
        for _ in range(10):
            page = json.loads(ask(member, "shop", "GET", f"/timers?scope=cluster{cursor}")[1])
            found += page["timers"]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
        assert len(found) == 20
    assert json.loads(ask(members[1], "shop", "DELETE", "/timers?all=yes")[1]) == {"cancelled": 20}
    # What was counted a second ago is told again.
    wait_for(lambda: json.loads(ask(members[2], "reader", "GET", "/timers/ahead?scope=cluster")[1])["pending"] == 40, 10, "counts without them")
    assert json.loads(ask(members[0], "admin", "DELETE", "/timers?all=yes")[1]) == {"cancelled": 40}
