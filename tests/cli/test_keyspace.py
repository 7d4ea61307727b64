# SPDX-License-Identifier: Apache-2.0
"""`tryst keyspace`: a ring whose figures add up, the same in every form."""

import json
import xml.etree.ElementTree

import pytest


def nodes(count):
    return [word for i in range(count) for word in ("--node", f"10.0.0.{i + 1}:7253")]


def ring(tryst, *arguments):
    result = tryst("keyspace", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("partitions", (1024, 4096, 1 << 20))
@pytest.mark.parametrize("count", range(3, 21))
def test_no_node_that_joined_in_turn_has_more_than_a_quarter_above_its_share(tryst, count, partitions):
    document = ring(tryst, "--partitions", str(partitions), *nodes(count))
    assert max(node["owned"] for node in document["nodes"]) <= 1.25 * partitions / count


@pytest.mark.parametrize("partitions, count, replicas", ((20, 4, 2), (1024, 7, 3), (1 << 32, 5, 7), (1, 1, 1)))
def test_the_figures_add_up(tryst, partitions, count, replicas):
    document = ring(tryst, "--partitions", str(partitions), "--replicas", str(replicas), *nodes(count))
    size = min(replicas, count)
    assert document["partitions"] == partitions and document["list-size"] == size
    assert sum(node["owned"] for node in document["nodes"]) == partitions
    assert sum(node["copies"] for node in document["nodes"]) == partitions * size
    assert all(node["owned"] <= node["copies"] <= partitions for node in document["nodes"])
    places = [stretch["position"] for stretch in document["ring"]]
    assert places == sorted(places) and len(set(places)) == len(places)
    for node in document["nodes"]:
        assert node["owned"] == sum(stretch["partitions"] for stretch in document["ring"] if stretch["node"] == node["name"])


def test_a_ring_that_is_given(tryst):
    result = tryst("keyspace", "--partitions", "100", "--ring", "--node", "a,at=.25", "--node", "b,at=.60", "--node", "c,at=.85")
    assert result.returncode == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["a", "1", "40", "40.00%", "1.20", "65.00%"] in lines
    assert ["b", "1", "35", "35.00%", "1.05", "75.00%"] in lines and ["c", "1", "25", "25.00%", "0.75", "60.00%"] in lines
    assert ["25", "0.250000", "40.00%", "a"] in lines and ["85", "0.850000", "25.00%", "c"] in lines


@pytest.mark.parametrize("arguments", (nodes(1), nodes(3), nodes(40), ["--partitions", "20", *nodes(5)], ["--partitions", "1", "--node", "a<&>"]))
def test_the_picture_is_one(tryst, tmp_path, arguments):
    path = tmp_path / "ring.svg"
    assert tryst("keyspace", "--svg", str(path), *arguments).returncode == 0
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and "nan" not in path.read_text().lower()


def test_what_is_wrong_is_told(tryst):
    for arguments, words in ((["x", *nodes(1)], "--node"), (["--cluster", "127.0.0.1:1", *nodes(1)], "either"), (["--partitions", "3", *nodes(4)], "no partition is left"), (["--strategy", "ring", *nodes(1)], "--strategy")):
        result = tryst("keyspace", *arguments)
        assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1
    assert tryst("keyspace", "--svg", "/nowhere/x.svg", *nodes(2)).returncode == 1
    assert tryst("keyspace", "--cluster", "127.0.0.1:1").returncode == 1  # nobody is there
    assert "usage: tryst keyspace" in tryst("keyspace", "--help").stdout
