# SPDX-License-Identifier: Apache-2.0
"""Nodes on loopback addresses of their own, with the original's three configuration files each, driven by signals alone."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
from certificates import Authority  # noqa: E402

TRYSTD = os.environ.get("TRYSTD", str(ROOT / "build" / "trystd"))
TRYST = os.environ.get("TRYST", str(ROOT / "build" / "tryst"))
SLOW = float(os.environ.get("TRYST_SLOW", "1"))  # sanitized builds get more patience


def wait_for(condition: Callable[[], object], seconds: float, what: str, why: Callable[[], str] = str):
    end = time.monotonic() + seconds * SLOW
    while True:
        is_last = time.monotonic() >= end  # who waits may have been the one that stood still
        value = condition()
        if value:
            return value
        if is_last:
            raise AssertionError(f"not within {seconds * SLOW} s: {what} {why()}")
        time.sleep(0.02)


class Member:
    """One node: its files, its process, and what it answers."""

    def __init__(self, cluster: Cluster, index: int) -> None:
        self.cluster = cluster
        self.host = f"{cluster.network}.{index}"
        self.address = f"{self.host}:{cluster.port}"
        self.folder = cluster.folder / f"node{index}"
        self.folder.mkdir(parents=True)
        self.log_path = self.folder / "log.txt"
        self.process: subprocess.Popen | None = None
        self.trystd = TRYSTD
        self.environment: dict[str, str] = {}
        self.prefix: list[str] = []  # what runs it
        local = f"[http]\nbind-address = {self.host}\nbind-port = {cluster.port}\n[logging]\nlevel = 2\n[storage]\ndata-dir = {self.folder}/data\n{cluster.storage}"
        (self.folder / "chronos.conf").write_text(local)
        (self.folder / "chronos_shared.conf").write_text(cluster.shared + self.tls("require" if os.environ.get("TRYST_TLS") else ""))
        self.configure([self])

    def tls(self, peers: str, host: str = "") -> str:
        """What a node's configuration says of TLS with other nodes; nothing if it is not to be spoken."""
        if not peers:
            return ""
        cert, key = self.cluster.authority().sign(f"node-{self.host}", host or self.host)
        return f"[tls]\ncert = {cert}\nkey = {key}\nclient-ca = {self.cluster.authority().cert}\npeers = {peers}\n"

    def configure(self, nodes: list[Member], joining: list[Member] = [], leaving: list[Member] = []) -> None:
        lines = ["[cluster]", f"localhost = {self.address}"]
        for key, members in (("node", nodes), ("joining", joining), ("leaving", leaving)):
            lines += [f"{key} = {member.address}" for member in members]
        (self.folder / "chronos_cluster.conf").write_text("\n".join(lines) + "\n")

    def start(self, wait: bool = True) -> Member:
        files = [f"--{kind}-config-file={self.folder}/chronos{name}.conf" for kind, name in (("local", ""), ("cluster", "_cluster"), ("shared", "_shared"))]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.prefix, self.trystd, *files], stdout=log, stderr=log, env={**os.environ, **self.environment})
        if wait:
            wait_for(self.is_ready, 30, f"{self.address} is ready", lambda: self.log()[-2000:])
        return self

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.process.wait(30 * SLOW)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        assert self.is_running(), self.log()
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def request(self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """As a client would: what a busy machine refuses is asked again, and so is what may be repeated and has no known outcome."""
        for _ in range(20):
            answer = self.ask(method, path, body, headers)
            is_unknown = method != "POST" and b"the outcome is unknown" in answer[2]
            if answer[0] != 503 or not (is_unknown or b"the disk is too slow" in answer[2]):
                break
            time.sleep(0.2)
        return answer

    def ask(self, method: str, path: str, body: str | None, headers: dict[str, str] | None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, self.cluster.port, timeout=10 * SLOW)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def json(self, path: str) -> dict:
        status, _, body = self.request("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def metrics(self) -> dict[str, float]:
        text = self.request("GET", "/metrics")[2].decode()
        return {name: float(value) for name, value in re.findall(r"^(\S+(?:\{[^}]*\})?) (\S+)$", text, re.M)}

    def held(self) -> int:
        """Copies of timers, of whatever place in their list."""
        metrics = self.metrics()
        return int(sum(metrics[f'tryst_timers{{state="{state}"}}'] for state in ("pending", "retrying", "dead")))


class SlowLinks:
    """Links between nodes that take some milliseconds each way: redirected by nftables, in the network namespace this process made
    for itself (unshare --net), to a process that holds back what it passes on. Clients and receivers are as near as ever."""

    PORT, MARK = 9999, 7

    def __init__(self, network: str, port: int, milliseconds: int) -> None:
        tool = Path(os.environ.get("TRYST_SLOW_LINK", str(ROOT / "build" / "tests" / "slow-link")))
        nodes = f"{network}.0/24"
        rules = f"""table ip slow {{
            chain out {{
                type nat hook output priority -100;
                ip saddr {nodes} ip daddr {nodes} tcp dport {port} meta mark != {self.MARK} redirect to :{self.PORT}
            }}
        }}"""
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["nft", rules], check=True)
        self.process = subprocess.Popen([tool, str(self.PORT), str(milliseconds)])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        subprocess.run(["nft", "delete table ip slow"], check=True)


class Cluster:
    def __init__(self, folder: Path, storage: str = "memory-budget = 256M\nsegment-size = 4M\n", shared: str = "") -> None:
        self.folder, self.storage, self.shared = Path(folder), storage, shared
        draw = random.Random(f"{os.getpid()} {time.monotonic()}")
        self.network = f"127.{draw.randrange(1, 250)}.{draw.randrange(1, 250)}"
        self.port = 7253
        self.members: list[Member] = []
        self.numbers = itertools.count(1)
        self.certificates: Authority | None = None

    def authority(self) -> Authority:
        if self.certificates is None:
            self.certificates = Authority(self.folder / "ca")
        return self.certificates

    def add(self, count: int) -> list[Member]:
        made = [Member(self, next(self.numbers)) for _ in range(count)]
        self.members += made
        return made

    def start(self, count: int) -> list[Member]:
        """A new cluster of so many nodes."""
        made = self.add(count)
        for member in made:
            member.configure(made)
            member.start(wait=False)
        for member in made:
            wait_for(member.is_ready, 30, f"{member.address} is ready: {member.log()[-2000:]}")
        return made

    def stood_still(self) -> bool:
        """Whether a node had no time to run for so long that others took it for dead: then nothing is promised about twice, or when."""
        return any("stood still for" in member.log() for member in self.members)

    def running(self) -> list[Member]:
        return [member for member in self.members if member.is_running()]

    def tell(self, to: list[Member], nodes: list[Member], joining: list[Member] = [], leaving: list[Member] = []) -> None:
        """The same files for all, and SIGHUP."""
        for member in to:
            member.configure(nodes, joining, leaving)
        for member in to:
            member.signal(signal.SIGHUP)

    def resync(self, members: list[Member], seconds: float = 60) -> None:
        """SIGUSR1, and waits for the word of each in its log."""
        before = {member.address: member.log().count("resync: complete") for member in members}
        for member in members:
            member.signal(signal.SIGUSR1)
        for member in members:
            wait_for(lambda member=member: member.log().count("resync: complete") > before[member.address], seconds, f"{member.address} is settled: {member.log()[-1500:]}")

    def scale(self, old: list[Member], new: list[Member], seconds: float = 60) -> None:
        """The three steps of the original: from one list of nodes to another."""
        staying = [member for member in old if member in new]
        joining = [member for member in new if member not in old]
        leaving = [member for member in old if member not in new]
        for member in joining:
            member.configure(staying, joining, leaving)
            if not member.is_running():
                member.start(wait=False)
        self.tell(staying + leaving, staying, joining, leaving)
        for member in joining:
            wait_for(member.is_ready, 30, f"{member.address} is ready: {member.log()[-1500:]}")
        self.resync(old + joining, seconds)
        self.tell(new, new)
        self.tell(leaving, new)

    def close(self) -> None:
        for member in self.running():
            member.kill()
        for member in self.members:
            shutil.rmtree(member.folder / "data", ignore_errors=True)
        for member in self.members:
            for line in member.log().splitlines():
                assert "Sanitizer" not in line and "runtime error" not in line and "assertion" not in line.lower(), member.log()
