# SPDX-License-Identifier: Apache-2.0
"""Nodes behind links that are slow: they become ready, take writes, pop on time, and lose and double nothing when one is killed.

usage: latency.py NODES MILLISECONDS FOLDER      (as root, in a network namespace of its own: unshare --net)

Ends with 0 when all was as it should be."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cluster import SLOW, Cluster, SlowLinks, wait_for
from crowd import Crowd

READY = 10.0  # seconds; a quiet machine needs 2


def is_quiet(cluster: Cluster) -> bool:
    """Whether nothing may be made twice: a node that is starved of time, as sanitized ones on a busy machine are, is taken for dead."""
    return SLOW == 1 and not cluster.stood_still()


def play(cluster: Cluster, count: int, one_way: float) -> None:
    begun = time.monotonic()
    nodes = cluster.start(count)
    took = time.monotonic() - begun
    print(f"{count} nodes, {1000 * one_way:.0f} ms each way: ready after {took:.2f} s")
    assert took < READY * SLOW or cluster.stood_still()
    crowd = Crowd([node.address for node in nodes], connections=64)

    made = crowd.set_many(600, (2, 4))
    assert all(timer.state == "acked" for timer in made), crowd.refusals
    crowd.drain(30 * SLOW)
    time.sleep(3)  # a backup that has not heard would pop by now
    late = crowd.lateness()
    print(f"{crowd.account()}, late by {1000 * late[len(late) // 2]:.0f} ms, at most {1000 * late[-1]:.0f}")
    account = crowd.account()
    assert account["set"] == 600 and account["lost"] == account["early"] == account["strange"] == 0, account
    assert account["once"] == 600 or not is_quiet(cluster), account
    # A copy counts from when it arrives: a record that was moved once or twice is late by as many trips.
    assert late[-1] < (0.5 + 6 * one_way) * SLOW or cluster.stood_still(), late[-10:]

    made = crowd.set_many(300, (6, 8))  # not due before the others know that it is dead
    time.sleep(1)  # what is answered is known to all
    nodes[-1].kill()
    crowd.use([node.address for node in nodes[:-1]])
    wait_for(lambda: nodes[0].metrics()["tryst_peers_up"] == count - 2, 10, "the others see that one is down")
    crowd.wait(lambda: all(timer.pops for timer in made), 30 * SLOW, "all pop")
    time.sleep(5)
    account = crowd.account()
    print(f"one killed: {account}")
    assert account["lost"] == account["early"] == 0, account
    assert account["twice"] == 0 or not is_quiet(cluster), account

    begun = time.monotonic()
    nodes[-1].start()
    print(f"the one that was killed is ready after {time.monotonic() - begun:.2f} s")
    assert time.monotonic() - begun < READY * SLOW or cluster.stood_still()
    crowd.use([node.address for node in nodes])
    crowd.set_many(200, (1, 2))
    crowd.drain(30 * SLOW)
    time.sleep(3)
    account = crowd.account()
    assert account["set"] == 1100 and account["lost"] == account["early"] == 0, account
    assert account["once"] == 1100 or not is_quiet(cluster), account
    crowd.close()


def main() -> int:
    count, milliseconds, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    cluster = Cluster(Path(folder))
    links = SlowLinks(cluster.network, cluster.port, milliseconds)
    try:
        play(cluster, count, milliseconds / 1000)
    finally:
        cluster.close()
        links.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
