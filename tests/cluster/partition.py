# SPDX-License-Identifier: Apache-2.0
"""Three nodes in network namespaces of their own, and what they do when the network between them is cut: fully, or one way.

usage: partition.py full|one-way FOLDER      (as root, in a network namespace of its own: unshare --net)

Packets are dropped where they arrive, by nftables. Ends with 0 when all was as it should be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from cluster import SLOW, Cluster, Member, wait_for
from crowd import Crowd
from keys import connect, count_misplaced
from tellers import Tellers

NETWORK = "10.77.0"
HUB = f"{NETWORK}.254"
SECRET = "what the nodes know, and who may change them"


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


class Network:
    """A bridge here, and a namespace behind it for each node."""

    def __init__(self, count: int) -> None:
        self.names = [f"tryst-{os.getpid()}-{i + 1}" for i in range(count)]
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "hub", "type", "bridge")
        run("ip", "address", "add", f"{HUB}/24", "dev", "hub")
        run("ip", "link", "set", "hub", "up")
        for i, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"port{i}", "master", "hub", "up")
            self.inside(i, "ip", "address", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0")
            self.inside(i, "ip", "link", "set", "eth0", "up")
            self.inside(i, "ip", "link", "set", "lo", "up")

    def inside(self, index: int, *words: str) -> None:
        run("ip", "netns", "exec", self.names[index], *words)

    def drop(self, at: int, sources: list[int]) -> None:
        """What comes from these nodes is lost where it arrives."""
        self.inside(at, "nft", "add table ip cut; add chain ip cut in { type filter hook input priority 0; }")
        for source in sources:
            self.inside(at, "nft", f"add rule ip cut in ip saddr {NETWORK}.{source + 1} drop")

    def heal(self) -> None:
        for i in range(len(self.names)):
            subprocess.run(["ip", "netns", "exec", self.names[i], "nft", "delete table ip cut"], capture_output=True)

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def is_gone(node: Member, location: str) -> bool:
    return node.request("GET", location)[0] == 404


def play(kind: str, network: Network, cluster: Cluster) -> None:
    nodes = cluster.add(3)
    for i, node in enumerate(nodes):
        node.prefix = ["ip", "netns", "exec", network.names[i]]
        node.configure(nodes)
        node.start(wait=False)
    for node in nodes:
        wait_for(node.is_ready, 30, f"{node.address} is ready: {node.log()[-1000:]}")
    crowd = Crowd([node.address for node in nodes], host=HUB)
    long = crowd.set_many(60, (30 * SLOW, 40 * SLOW))
    with connect(nodes[0], password=SECRET) as client:
        assert client.execute_command("CREATE KEYSPACE", 64, 2) == "OK"
    tellers = Tellers([node.address for node in nodes], 300)

    if kind == "full":
        network.drop(0, [1, 2])
        network.drop(1, [0])
        network.drop(2, [0])
    else:
        network.drop(1, [0])  # the second hears nothing of the first, which hears all of it
    up = lambda node, count: node.metrics()["tryst_peers_up"] == count
    wait_for(lambda: up(nodes[0], 0 if kind == "full" else 1), 10, "the first sees the cut")
    wait_for(lambda: up(nodes[1], 1), 10, "the second sees the cut")

    during = []
    for side in (nodes[0], nodes[1]):
        crowd.use([side.address])
        during += crowd.set_many(60, (1, 2))
    assert all(timer.state == "acked" for timer in during), (crowd.account(), crowd.refusals)
    crowd.use([nodes[0].address])
    crowd.cancel(long[::2])
    crowd.wait(lambda: all(timer.pops for timer in during), 20 * SLOW, "both sides pop")
    print("cut:", crowd.account())

    network.heal()
    for node in nodes:
        wait_for(lambda node=node: up(node, 2), 20, "they see each other again")
    healed = time.monotonic()
    for timer in long[::2]:
        wait_for(lambda timer=timer: all(is_gone(node, timer.location) for node in nodes), 10, "what was cancelled is gone")
    print(f"what was cancelled on one side was gone on the other {time.monotonic() - healed:.2f} s after they met")
    wait_for(lambda: all(not node.json("/cluster")["rebalancing"] for node in nodes), 30, "all is settled")
    crowd.use([node.address for node in nodes])
    after = crowd.set_many(200, (2, 4))
    crowd.wait(lambda: all(timer.pops for timer in after + long[1::2]), 60 * SLOW, "the rest pops")
    time.sleep(3)
    account = crowd.account()
    print("healed:", account)
    assert account["lost"] == account["early"] == account["strange"] == account["after cancel"] == 0, account
    assert cluster.stood_still() or all(len(timer.pops) == 1 for timer in after), "after healing one pops"
    assert not any(timer.pops for timer in long[::2])
    crowd.close()
    told = tellers.finish([node.address for node in nodes])
    print("keys:", told)
    assert not told["wrong"] and not told["undocumented"] and told["keys"] > 0
    wait_for(lambda: count_misplaced(nodes) == 0, 30 * SLOW, "each key is where it belongs, and nowhere else")


def main() -> int:
    kind, folder = sys.argv[1:]
    network = Network(3)
    secret = Path(f"{folder}.secret")
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    cluster = Cluster(Path(folder), shared=f"[cluster]\nsecret-file = {secret}\n")
    cluster.network = NETWORK
    try:
        play(kind, network, cluster)
    finally:
        cluster.close()
        network.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
