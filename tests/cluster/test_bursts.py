# SPDX-License-Identifier: Apache-2.0
"""More pops at once than a node can make or claim one by one: late, perhaps, and none twice."""

import os
import time

import pytest

from cluster import SLOW, Cluster
from crowd import Crowd, boot

BURST = int(os.environ.get("TRYST_BURST", "8000"))  # 100000 in `make soak`
WIDE = "[callback]\nin-flight = 1024\nper-destination = 1024\n"


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, storage="memory-budget = 512M\nsegment-size = 16M\n", shared=WIDE)
    yield made
    made.close()


def play(cluster, count, delay, setting_s):
    nodes = cluster.start(3)
    crowd = Crowd([node.address for node in nodes], connections=32)
    crowd.delay = delay
    made = crowd.set_at(count, boot() + setting_s, 1.0)
    assert all(timer.state == "acked" for timer in made), crowd.refusals
    if boot() >= made[0].at:
        pytest.skip("the machine was too slow to set them in time")
    crowd.drain((60 + count / 500) * SLOW)
    time.sleep(6)  # three positions: whoever would pop again has
    account = crowd.account()
    late = crowd.lateness()
    sums = {name: sum(node.metrics()[name] for node in nodes) for name in ("tryst_late_turns_total", "tryst_held_back_total") if name in nodes[0].metrics()}
    again = sum(node.metrics()['tryst_pops_total{result="failed"}'] for node in nodes)  # this receiver did not answer in time, and was called again
    print(f"{count} within a second, {delay} s each: {account}, {again:.0f} called again, the last {late[-1]:.1f} s late; {sums}")
    assert account["set"] == count and account["lost"] == account["early"] == 0, account
    assert account["twice"] <= again or cluster.stood_still(), account
    crowd.close()


def test_many_due_within_a_second(cluster):
    play(cluster, BURST, 0.0, (4 + BURST / 1500) * SLOW)


def test_many_to_a_receiver_that_takes_its_time(cluster):
    count = max(BURST // 5, 3000)
    play(cluster, count, 1.5, (4 + count / 1500) * SLOW)
