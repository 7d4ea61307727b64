# SPDX-License-Identifier: Apache-2.0
"""What applications ask of timers, asked of a cluster: one winner of a race, keys, runs over all nodes, cron while nodes die and join."""

import json
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from cluster import SLOW, Cluster, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
from conftest import Receiver  # noqa: E402


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, shared="[callback]\nbackoff-ms = 200\nattempts = 2\n")
    yield made
    made.close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def body(uri, timing, **more):
    return json.dumps({"timing": timing, "callback": {"http": {"uri": uri, "opaque": "x"}}, **more})


def at_once(requests):
    """Sends all of them at the same moment: the statuses."""
    answers = [None] * len(requests)

    def send(i, node, words):
        answers[i] = node.request(*words)

    threads = [threading.Thread(target=send, args=(i, node, words)) for i, (node, *words) in enumerate(requests)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_one_wins(cluster, receiver):
    nodes = cluster.start(3)
    for i in range(25):
        path = f"/timers/named/race-{i}"
        sent = body(receiver.uri, {"interval": 600 + i})
        answers = at_once([(node, "PUT", path, sent, {"If-None-Match": "*"}) for node in nodes])
        assert sorted(answer[0] for answer in answers) == [200, 412, 412]
        etag = nodes[i % 3].request("GET", path)[1]["etag"]
        answers = at_once([(node, "PUT", path, sent, {"If-Match": etag}) for node in nodes])
        assert sorted(answer[0] for answer in answers) == [200, 412, 412]
    assert nodes[0].request("POST", "/timers/named/race-1/fire", None, {"If-Match": '"0000000000000000-1-0"'})[0] == 412


def test_keys_in_a_cluster(cluster, receiver):
    nodes = cluster.start(3)
    for i in range(20):
        sent = body(receiver.uri, {"interval": 600})
        answers = at_once([(node, "POST", "/timers", sent, {"Idempotency-Key": f"k{i}"}) for node in nodes])
        assert {answer[0] for answer in answers} <= {200, 409} and len({answer[1]["location"][:25] for answer in answers if answer[0] == 200}) == 1
        for node in nodes:
            status, headers, _ = node.request("POST", "/timers", sent, {"Idempotency-Key": f"k{i}"})
            assert status == 200 and headers["idempotent-replayed"] == "true"
            assert node.request("POST", "/timers", body(receiver.uri, {"interval": 601}), {"Idempotency-Key": f"k{i}"})[0] == 422


def test_why_it_failed_is_told_by_any_node(cluster, receiver):
    nodes = cluster.start(3)
    location = nodes[0].request("POST", "/timers", body(receiver.uri + "/status/500", {"interval": 0.1}))[1]["location"]
    for node in nodes:
        last = wait_for(lambda node=node: (answer := node.request("GET", location))[0] == 200 and json.loads(answer[2]).get("last-attempt"), 20, "it has failed")
        assert last["status"] == 500
    pops = wait_for(lambda: (found := nodes[1].json("/pops?scope=cluster")["pops"]) and len(found) == 2 and found, 20, "both attempts")
    assert pops[0]["state"] == "dead" and pops[0]["at"] >= pops[1]["at"]


def test_a_run_over_all_nodes(cluster, receiver):
    nodes = cluster.start(3)
    for node in nodes:
        lines = "\n".join(body(receiver.uri, {"interval": 600}, statistics={"tag-info": [{"type": "T"}]}) for _ in range(500))
        assert node.request("POST", "/timers", lines, {"Content-Type": "application/x-ndjson"})[0] == 200
    assert json.loads(nodes[1].request("DELETE", "/timers?tag=T&dry-run=yes")[2]) == {"matched": 1500}
    assert json.loads(nodes[2].request("DELETE", "/timers?tag=T")[2]) == {"cancelled": 1500}
    wait_for(lambda: all(node.json("/timers?scope=cluster")["timers"] == [] for node in nodes), 10, "none is left")


def test_cron_while_nodes_die_and_join(cluster, receiver):
    """Ten pops, a second apart: the first node to make them is killed, another joins. None is left out, and each is at its second."""
    three = cluster.start(3)
    status, headers, _ = three[0].request("PUT", "/timers/named/tick", body(receiver.uri, {"cron": "*/1 * * * * *", "zone": "Europe/Berlin", "missed": "all", "count": 10}))
    assert status == 200
    receiver.wait(2, 20)
    first = three[0].json("/timers/named/tick?now=1")["replicas"][0]
    victim = next(member for member in three if member.address == first)
    victim.kill()
    left = [member for member in three if member is not victim]
    receiver.wait(5, 30)
    victim.start()
    joiner = cluster.add(1)[0]
    cluster.scale(three, [*three, joiner])
    receiver.wait(10, 40)
    wait_for(lambda: left[0].request("GET", "/timers/named/tick")[0] == 404, 10, "it is over")
    times = {pop.sequence: datetime.fromisoformat(pop.headers["ce-time"].replace("Z", "+00:00")).timestamp() for pop in receiver.pops}
    assert sorted(times) == list(range(1, 11))
    assert [times[i] - times[1] for i in range(1, 11)] == list(range(10))
    if not cluster.stood_still() and SLOW == 1:
        assert len(receiver.pops) <= 11  # what the killed node did in its last moment nobody has heard of
    assert time.time() > times[10]
