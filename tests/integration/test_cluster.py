# SPDX-License-Identifier: Apache-2.0
"""Clusters of real processes, with the original's files, flags and signals: scaling, kills, partitions of time. Every timer that
was acknowledged pops, none that was cancelled does, and without a kill none pops twice."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "crowd"))

from cluster import SLOW, Cluster, wait_for
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
        return made[-1]

    yield make
    for one in made:
        one.close()


def check(crowd, twice=0):
    account = crowd.account()
    assert account["lost"] == account["early"] == account["strange"] == account["after cancel"] == 0, account
    assert account["twice"] <= twice and account["refused"] == 0, account


def span(seconds):
    """Due times far enough away that they are set by then, and long enough that much happens before."""
    return (seconds * SLOW, (seconds + 4) * SLOW)


def test_two_to_four_and_back(cluster, crowd):
    two = cluster.start(2)
    clients = crowd(two)
    clients.set_many(MANY, span(6))
    four = two + cluster.add(2)
    cluster.scale(two, four)
    clients.use([node.address for node in four])
    assert all(node.held() > 0 for node in four)
    clients.set_many(MANY, span(6))
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
    clients.set_many(MANY, span(8))
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
    clients.set_many(MANY, span(6))
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
    timers = clients.set_many(MANY, span(4))
    clients.use([three[1].address, three[2].address])
    clients.cancel(timers[::2])
    clients.drain(30 * SLOW)
    time.sleep(1)
    check(clients)
    assert sum(bool(timer.pops) for timer in timers) == MANY // 2


def test_all_are_killed_and_start_again_in_any_order(cluster, crowd):
    three = cluster.start(3)
    clients = crowd(three)
    clients.set_many(MANY, span(6))
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
    assert {answers[timer.serial] for timer in timers} == {4}
    check(clients)
