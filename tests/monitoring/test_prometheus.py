# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alarms in a real Prometheus that scrapes a real cluster: every expression answers, and an alarm fires when its
fault is made and not before."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from cluster import Cluster, wait_for  # noqa: E402
from conftest import Receiver, free_port  # noqa: E402

DASHBOARD = json.loads((ROOT / "packaging" / "grafana.json").read_text())
RULES = ROOT / "packaging" / "tryst.rules.yml"
EXPRESSIONS = sorted({target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.receiver = Receiver()
    made.start(3)
    yield made
    made.receiver.close()
    made.close()


@pytest.fixture(scope="module")
def prometheus(cluster, tmp_path_factory):
    """Its port. The alarms' patience is shortened, their expressions are as they are."""
    folder = tmp_path_factory.mktemp("prometheus")
    rules = re.sub(r"for: \d+m", "for: 2s", RULES.read_text())
    (folder / "rules.yml").write_text(rules)
    targets = ", ".join(f"'{member.address}'" for member in cluster.members)
    (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: tryst\n    static_configs:\n      - targets: [{targets}]\n")
    port = free_port()
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    yield port
    process.terminate()
    process.wait(20)


def ask(port, path, **parameters):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
        told = json.loads(answer.read())
    assert told["status"] == "success", told
    return told["data"]


def load(cluster, count):
    body = {"timing": {"interval": 0.2}, "callback": {"http": {"uri": cluster.receiver.uri, "opaque": "x"}}}
    for i in range(count):
        assert cluster.members[i % 3].request("POST", "/timers", json.dumps(body))[0] == 200
    for member in cluster.members:
        member.request("GET", "/timers")
        member.request("GET", "/timers/0123456789abcdef-2")


def firing(port):
    return {alert["labels"]["alertname"] for alert in ask(port, "alerts")["alerts"] if alert["state"] == "firing"}


def test_the_files_are_good():
    assert subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True).returncode == 0
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) > 10 and all(panel["targets"] and panel["title"] for panel in DASHBOARD["panels"])


def test_every_expression_answers(cluster, prometheus):
    def is_up():
        try:
            return len([at for at in ask(prometheus, "query", query='up{job="tryst"} == 1')["result"]]) == 3
        except OSError:
            return False

    wait_for(is_up, 30, "three nodes are scraped")
    with __import__("socket").create_connection((cluster.members[0].host, cluster.port)) as stream:
        stream.sendall(b"SET a b\r\nGET a\r\n")
        stream.recv(100)
    end = time.monotonic() + 60
    silent = set(EXPRESSIONS)
    while silent and time.monotonic() < end:
        load(cluster, 30)
        time.sleep(1)
        silent = {at for at in silent if not any(result["value"][1] != "NaN" for result in ask(prometheus, "query", query=at)["result"])}
    assert not silent, silent


def test_alarms_fire_for_their_faults_alone(cluster, prometheus):
    wait_for(lambda: ask(prometheus, "query", query="tryst_ready")["result"], 20, "metrics")
    for expression in re.findall(r"expr: (.*)", RULES.read_text()):
        ask(prometheus, "query", query=expression)
    time.sleep(3)
    assert firing(prometheus) == set()
    member = cluster.members[2]
    good = (member.folder / "chronos_cluster.conf").read_text()
    (member.folder / "chronos_cluster.conf").write_text(good + "node = 1.2.3.4:99999\n")
    member.signal(signal.SIGHUP)
    wait_for(lambda: firing(prometheus) == {"TrystConfigFaults"}, 20, "an alarm for a bad file", lambda: str(firing(prometheus)))
    (member.folder / "chronos_cluster.conf").write_text(good)
    member.signal(signal.SIGHUP)
    wait_for(lambda: firing(prometheus) == set(), 20, "no alarm any more", lambda: str(firing(prometheus)))
    member.kill()
    wait_for(lambda: {"TrystNodeDown", "TrystPeerDown"} <= firing(prometheus), 20, "alarms for a dead node", lambda: str(firing(prometheus)))
    member.start()
    wait_for(lambda: not {"TrystNodeDown", "TrystPeerDown"} & firing(prometheus), 30, "no alarm any more", lambda: str(firing(prometheus)))
