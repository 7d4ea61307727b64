# SPDX-License-Identifier: Apache-2.0
"""Clusters of real processes, with the original's files, flags and signals: scaling, kills, partitions of time. Every timer that
was acknowledged pops, none that was cancelled does, and without a kill none pops twice."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from cluster import SLOW, TRYST, Cluster, wait_for
from crowd import Crowd

MANY = int(os.environ.get("TRYST_MANY", "1000"))  # timers; the long proofs set 10000


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def crowd():
    made = []

    def make(nodes, **options):
        made.append(Crowd([node.address for node in nodes], **options))
        made[-1].cluster = nodes[0].cluster
        return made[-1]

    yield make
    for one in made:
        one.close()


def check(crowd, twice=0, refused=0):
    account = crowd.account()
    assert account["lost"] == account["early"] == account["strange"] == account["after cancel"] == 0, account
    is_quiet = SLOW == 1 and not crowd.cluster.stood_still()  # a node that is starved of time is taken for dead
    assert (account["twice"] <= twice or not is_quiet) and account["refused"] <= refused, (account, crowd.refusals)


def span(seconds):
    """Due times far enough away that they are set by then, and long enough that much happens before."""
    return (seconds * SLOW, (seconds + 2) * SLOW)


def test_two_to_four_and_back(cluster, crowd):
    two = cluster.start(2)
    clients = crowd(two)
    clients.set_many(MANY, span(4))
    four = two + cluster.add(2)
    cluster.scale(two, four)
    clients.use([node.address for node in four])
    assert all(node.held() > 0 for node in four)
    clients.set_many(MANY, span(4))
    cluster.scale(four, two)
    assert [node.held() for node in four[2:]] == [0, 0]
    for node in four[2:]:
        node.kill()
    clients.use([node.address for node in two])
    clients.drain(30 * SLOW)
    check(clients)


def test_two_to_four_to_the_other_two(cluster, crowd):
    two = cluster.start(2)
    clients = crowd(two)
    clients.set_many(MANY, span(5))
    four = two + cluster.add(2)
    cluster.scale(two, four)
    cluster.scale(four, four[2:])
    for node in two:
        assert node.held() == 0
        node.kill()
    clients.use([node.address for node in four[2:]])
    clients.drain(30 * SLOW)
    check(clients)


def test_one_becomes_two_and_the_first_is_killed(cluster, crowd):
    one = cluster.start(1)
    clients = crowd(one)
    clients.set_many(MANY, span(4))
    two = one + cluster.add(1)
    cluster.scale(one, two)
    assert all(node.held() == MANY for node in two)
    one[0].kill()
    clients.use([two[1].address])
    clients.drain(30 * SLOW)
    check(clients)


def test_deletes_through_another_node(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three[:1])
    timers = clients.set_many(MANY, span(6))
    clients.use([three[1].address, three[2].address])
    clients.cancel(timers[::2])
    clients.drain(30 * SLOW)
    time.sleep(1)
    check(clients)
    in_time = [timer for timer in timers[::2] if timer.cancelled < timer.due]
    assert in_time and not any(timer.pops for timer in in_time) and all(timer.pops for timer in timers[1::2])


def test_all_are_killed_and_start_again_in_any_order(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three)
    clients.set_many(MANY, span(4))
    for node in three:
        node.kill()
    order = list(three)
    random.shuffle(order)
    for node in order:
        node.start(wait=False)
        time.sleep(random.random())
    for node in three:
        wait_for(node.is_ready, 30, f"{node.address} is ready")
    clients.drain(40 * SLOW)
    check(clients)


def test_503_from_the_first_attempt(cluster, crowd):
    """Each replica in turn calls again, and the fourth attempt gets through."""
    cluster.shared = "[callback]\nbackoff-ms = 100\n"
    three = cluster.start(3)
    clients = crowd(three, factor=3)
    answers = {}

    def refuse(timer):
        answers[timer.serial] = answers.get(timer.serial, 0) + 1
        return 503 if answers[timer.serial] < 4 else 200

    clients.judge = refuse
    timers = clients.set_many(200, (1, 2))
    clients.drain(30 * SLOW)
    wait_for(lambda: all(answers.get(timer.serial, 0) >= 4 for timer in timers), 20, "four attempts each")
    time.sleep(1)
    assert {answers[timer.serial] for timer in timers} == {4} or cluster.stood_still()
    check(clients)


def test_takeover_after_a_kill(cluster, crowd):
    """What the killed node would have popped is popped by the next one at once, not when its turn would come."""
    three = cluster.start(3)
    clients = crowd(three)
    clients.load(400, (0.5, 2.5))
    time.sleep(3 * SLOW)
    clients.use([node.address for node in three[1:]])
    three[0].kill()
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    time.sleep(3 * SLOW)
    clients.drain(30 * SLOW)
    late = clients.lateness(since=killed)
    taken = sum(node.metrics()["tryst_takeovers_total"] for node in three[1:])
    print("taken over:", taken, "p99 and most, s:", late[int(len(late) * 0.99)], late[-1])
    assert taken > 0
    check(clients, twice=MANY)


def test_a_pause_loses_nothing(cluster, crowd):
    """SIGSTOP for 3 s: others take over, and what pops twice is known by its triple."""
    three = cluster.start(3)
    clients = crowd(three)
    clients.load(300, (0.5, 2.5))
    time.sleep(3 * SLOW)
    clients.use([node.address for node in three[1:]])
    three[0].signal(signal.SIGSTOP)
    time.sleep(3)
    three[0].signal(signal.SIGCONT)
    time.sleep(3 * SLOW)
    clients.drain(30 * SLOW)
    check(clients, twice=MANY)


def test_a_rolling_restart_under_load(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three)
    clients.load(300, (0.5, 2.5))
    time.sleep(2 * SLOW)
    for node in three:
        clients.use([other.address for other in three if other is not node])
        time.sleep(0.2)
        assert node.stop() == 0
        node.start()
        time.sleep(0.5)
    clients.use([node.address for node in three])
    time.sleep(2 * SLOW)
    clients.drain(30 * SLOW)
    check(clients)


def test_old_ids_after_two_scalings(cluster, crowd):
    """PUT and DELETE reach the holders, with the id as it was given out and without its third part."""
    two = cluster.start(2)
    clients = crowd(two)
    timers = clients.set_many(120, (30, 40))
    four = two + cluster.add(2)
    cluster.scale(two, four)
    cluster.scale(four, four[2:])
    short = lambda location: "-".join(location.split("-")[:2])
    for i, timer in enumerate(timers):
        node = four[2 + i % 2]
        location = timer.location if i % 4 < 2 else short(timer.location)
        if i % 3 == 0:
            assert node.request("DELETE", location)[0] == 200
            timer.cancelled = time.clock_gettime(time.CLOCK_BOOTTIME)
        else:
            body = f'{{"timing":{{"interval":2}},"callback":{{"http":{{"uri":"http://127.0.0.1:{clients.port}/","opaque":"{timer.serial}"}}}}}}'
            assert node.request("PUT", location, body)[0] == 200
            timer.asked, timer.interval = time.clock_gettime(time.CLOCK_BOOTTIME) - 0.5, 2
    clients.drain(20 * SLOW)
    check(clients)
    assert sum(len(timer.pops) for timer in timers) == 80
    for node in four[2:]:
        wait_for(lambda node=node: node.held() == 0, 20, "nothing is left")


RATE = int(os.environ.get("TRYST_RATE", "300"))  # timers a second; the long proofs set 5000


def write_nodes(path, nodes):
    path.write_text("[cluster]\n" + "".join(f"node = {node.address}\n" for node in nodes))
    return str(path)


def apply(path, kill_after=None):
    process = subprocess.Popen([TRYST, "cluster", "apply", path, "--yes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if kill_after is not None:
        time.sleep(kill_after)
        process.kill()
    output = process.communicate(timeout=120 * SLOW)[0]
    assert kill_after is not None or process.returncode == 0, output
    return output


def is_back_or_gone(node, other):
    seen = [one for one in node.json("/cluster")["nodes"] if one["address"] == other.address]
    return all(one["state"] == "up" or one["role"] == "gone" for one in seen)


def test_apply_under_load(cluster, crowd, tmp_path):
    """3 nodes, then 5, then 2 of them, by one command each, a node killed and restarted in the middle, and the command too."""
    three = cluster.start(3)
    clients = crowd(three)
    clients.load(RATE, (0.5, 2.5))
    time.sleep(2 * SLOW)
    five = three + [node.start() for node in cluster.add(2)]
    to_five = write_nodes(tmp_path / "five.conf", five)
    apply(to_five, kill_after=0.3)
    assert "done: 5 nodes" in apply(to_five)
    clients.use([node.address for node in five])
    time.sleep(2 * SLOW)

    to_two = write_nodes(tmp_path / "two.conf", five[3:])
    process = subprocess.Popen([TRYST, "cluster", "apply", to_two, "--yes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(0.3)
    clients.use([node.address for node in five[2:]])
    five[1].kill()
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    time.sleep(1.5)
    five[1].start(wait=False)  # it may be no member by now
    output = process.communicate(timeout=120 * SLOW)[0]
    if "run it again and it goes on" in output or "does not answer\ntryst cluster apply: nothing was done" in output:
        wait_for(lambda: is_back_or_gone(five[3], five[1]), 60, "the node that was killed is back, or is no member")
        output = apply(to_two)  # it was about to tell, or to ask, the one that was killed
    assert "done: 2 nodes" in output, output
    clients.use([node.address for node in five[3:]])
    assert [node.held() for node in five[:3]] == [0, 0, 0]
    for node in five[:3]:
        node.kill()
    time.sleep(1 * SLOW)
    clients.drain(30 * SLOW)
    check(clients, twice=3 * RATE)
    late = [timer.pops[0][0] - timer.due for timer in clients.timers.values() if timer.pops and not killed <= timer.due + timer.interval < killed + 1]
    late.sort()
    print(clients.account(), "p99 lateness outside the second of the kill", late[int(len(late) * 0.99)])
    assert "nothing to do" in apply(to_two)


def test_the_read_only_form_of_resync(cluster, crowd):
    """What nodes of the original ask each other for, in pages, for people and old tools."""
    two = cluster.start(2)
    clients = crowd(two)
    timers = clients.set_many(250, (60, 70))
    view = two[0].json("/cluster")["view"]
    ask = f"/timers?node-for-replicas={two[1].address};cluster-view-id={view}"
    found, cursor = [], ""
    for _ in range(10):
        status, headers, body = two[0].request("GET", ask + cursor, headers={"Range": "100"})
        page = json.loads(body)["Timers"]
        assert int(headers["content-range"]) == len(page)
        found += page
        if status == 200:
            break
        assert status == 206 and len(page) == 100
        cursor = f";cursor={headers['x-tryst-cursor']}"
    assert sorted(one["TimerID"] % 2**64 for one in found) == sorted(int(timer.location[8:24], 16) for timer in timers)
    assert all(set(one["OldReplicas"]) == {node.address for node in two} for one in found)
    assert all(set(one["Timer"]["reliability"]["replicas"]) == set(one["OldReplicas"]) for one in found)
    starts = [one["Timer"]["timing"]["start-time-delta"] for one in found]
    assert all(-60000 < start <= 0 for start in starts), "it is due `interval` after its start"
    assert found[0]["Timer"]["callback"]["http"]["uri"].startswith("http://127.0.0.1:")
    late = two[0].request("GET", f"{ask}&time-from=65000", headers={"Range": "1000"})
    assert 0 < len(json.loads(late[2])["Timers"]) < 250
    for bad in (
        f"/timers?node-for-replicas={two[1].address}",
        f"/timers?cluster-view-id={view}",
        f"/timers?node-for-replicas={two[1].address}&cluster-view-id=0123456789abcdef",
        f"/timers?node-for-replicas=10.9.8.7:7253&cluster-view-id={view}",
        f"/timers?node-for-replicas={two[1].address}&cluster-view-id=x",
    ):
        assert two[0].request("GET", bad)[0] == 400, bad
    assert two[0].request("DELETE", "/timers/references", "{}")[0] == 202


def test_the_commands_of_a_cluster(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three)
    timers = clients.set_many(20, (60, 70))
    run = lambda *words: subprocess.run([TRYST, *words, "--node", three[0].address], capture_output=True, text=True, timeout=30 * SLOW)
    assert "all nodes are up, and every timer is where it belongs" in run("cluster", "status").stdout
    where = run("timer", "where", timers[0].location).stdout.splitlines()
    replicas = three[2].json(timers[0].location + "?now=1")["replicas"]
    told = json.loads(run("timer", "where", "--json", timers[0].location).stdout)
    assert told["replicas"] == [{"node": address, "state": "up"} for address in replicas]
    assert len(where) == 2 and all(address in line and " up " in line for address, line in zip(replicas, where))
    listed = [line.split()[0] for line in run("timer", "ls", "--cluster").stdout.splitlines()[1:]]
    assert sorted("/timers/" + one for one in listed) == sorted(timer.location for timer in timers)
    assert run("cluster", "resync").returncode == 0
    three[2].kill()
    status = wait_for(lambda: (found := run("cluster", "status")).returncode == 1 and found, 10, "it is seen to be down")
    assert "DOWN" in status.stdout and "1 node is down" in status.stdout
    listed = [line.split()[0] for line in run("timer", "ls", "--cluster").stdout.splitlines()[1:]]
    assert sorted("/timers/" + one for one in listed) == sorted(timer.location for timer in timers)  # others list for it


def pages(node, query):
    """All pages of a listing: how many timers each has, and their ids."""
    sizes, ids, cursor = [], [], ""
    for _ in range(1000):
        page = node.json(f"/timers?{query}{'&cursor=' + cursor if cursor else ''}")
        sizes.append(len(page["timers"]))
        ids += [timer["id"] for timer in page["timers"]]
        cursor = page.get("cursor")
        if not cursor:
            return sizes, ids
    raise AssertionError("it does not end")


def test_a_listing_of_the_whole_cluster(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three)
    timers = clients.set_many(300, (60, 70))
    body = json.dumps({"timing": {"interval": 60}, "callback": {"http": {"uri": "http://127.0.0.1:1/x", "opaque": ""}}, "statistics": {"tag-info": [{"type": "A b-c", "count": 1}]}})
    tagged = [three[i % 3].request("POST", "/timers", body)[1]["location"] for i in range(30)]
    want = sorted(timer.location[8:] for timer in timers) + sorted(location[8:] for location in tagged)
    for node in three:
        for limit in (7, 100, 1000):
            sizes, ids = pages(node, f"scope=cluster&limit={limit}")
            assert sorted(ids) == sorted(want) and max(sizes) <= limit, sizes
    assert sorted(pages(three[0], "scope=cluster&tag=A%20b-c&limit=4")[1]) == sorted(location[8:] for location in tagged)
    assert pages(three[0], "scope=cluster&state=dead")[1] == []
    assert len(pages(three[1], "scope=node")[1]) < len(want)
    three[2].kill()
    wait_for(lambda: sorted(pages(three[0], "scope=cluster&limit=50")[1]) == sorted(want), 10, "the others list for it")
    for bad in ("cursor=12", "cursor=" + 20 * "x", "cursor=" + 19 * "0", "scope=all"):
        assert three[0].request("GET", f"/timers?scope=cluster&{bad}")[0] == 400, bad
    assert three[0].json(f"/timers?scope=cluster&cursor={20 * 'f'}")["timers"] == []


NEXT = os.environ.get("TRYSTD_NEXT")  # a build that speaks one version more


@pytest.mark.skipif(not NEXT, reason="TRYSTD_NEXT names no build of the next version")
def test_two_versions_in_one_cluster(cluster, crowd):
    """An upgrade, node by node, under load, and back again."""
    three = cluster.start(3)
    clients = crowd(three)
    clients.load(200, (0.5, 2.5))
    old = three[0].trystd
    for trystd in (NEXT, old):
        for node in three:
            clients.use([other.address for other in three if other is not node])
            time.sleep(0.2)
            assert node.stop() == 0
            node.trystd = trystd
            node.start()
            wait_for(lambda node=node: node.metrics()["tryst_peers_up"] == 2, 10, "it is linked with the others")
            time.sleep(1)
    clients.drain(30 * SLOW)
    check(clients)


BEFORE = os.environ.get("TRYSTD_BEFORE")  # a build that speaks one version less: it cannot hold timers with a plan


@pytest.mark.skipif(not BEFORE, reason="TRYSTD_BEFORE names no build of the version before")
def test_an_upgrade_from_the_version_before(cluster, crowd):
    """Nothing is lost, and no change is asked for; while one node is old what it cannot hold is refused, and it is named."""
    three = cluster.add(3)
    new = three[0].trystd
    for node in three:
        node.configure(three)
        node.trystd = BEFORE
        node.start(wait=False)
    for node in three:
        wait_for(node.is_ready, 20, "it is ready")
    clients = crowd(three)
    clients.load(200, (0.5, 4))
    daily = json.dumps({"timing": {"cron": "@daily"}, "callback": {"http": {"uri": "http://127.0.0.1:9/", "opaque": ""}}})
    for node in three:
        clients.use([other.address for other in three if other is not node])
        time.sleep(0.2)
        assert node.stop() == 0
        node.trystd = new
        node.start()
        wait_for(lambda node=node: node.metrics()["tryst_peers_up"] == 2, 10, "it is linked with the others")
        if node is not three[2]:
            status, _, body = node.ask("POST", "/timers", daily, None)
            older = three[1 if node is three[0] else 2]
            assert status == 503 and older.address.encode() in body, body
    clients.drain(30 * SLOW)
    check(clients)
    told = [node.json("/cluster") for node in three]
    assert len({one["cluster"] for one in told}) == 1 and {one["epoch"] for one in told} == {1}, told
    status, headers, _ = three[0].request("POST", "/timers", daily)
    assert status == 200 and three[2].request("DELETE", headers["location"])[0] == 200
    assert ask_to_leave(three[0], three[2])[0] == 200
    wait_for(lambda: all(node.json("/cluster")["epoch"] == 3 for node in three), 20, "the change is through")


def ask_to_leave(node, leaver):
    status, _, body = node.request("PUT", "/cluster", f"[cluster]\nleaving = {leaver.address}\n")
    return status, body
