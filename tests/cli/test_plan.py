# SPDX-License-Identifier: Apache-2.0
"""`tryst plan`: shares and moves that add up, the same in every form."""

import json
import xml.etree.ElementTree

import pytest

THREE = ["--node", "10.0.0.1:7253", "--node", "10.0.0.2:7253", "--node", "10.0.0.3:7253"]
FOURTH = "10.0.0.4:7253"
STRATEGIES = ["chronos", "rendezvous", "carp", "virtual", "skeleton", "crush", "ring", "keyspace@1", "keyspace"]


def plan(tryst, *arguments):
    result = tryst("plan", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("strategy", ["rendezvous", "chronos"])
def test_a_fourth_node_takes_a_quarter_of_the_primaries(tryst, strategy):
    document = plan(tryst, "--strategy", strategy, "--keys", "1000000", *THREE, "--add", FOURTH)
    assert abs(document["moved"]["primaries"] / 1e6 - 0.25) <= 0.002
    assert document["moved"] == document["least"]
    assert all(move["to"] == FOURTH for move in document["moves"] if move["primaries"] > 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_figures_add_up(tryst, strategy):
    document = plan(tryst, "--strategy", strategy, "--keys", "20000", "--replicas", "2", *THREE, "--add", FOURTH, "--remove", "10.0.0.2:7253")
    nodes = {node["name"]: node for node in document["nodes"]}
    assert sum(node["before"]["primaries"] for node in nodes.values()) == 20000
    assert sum(node["after"]["copies"] for node in nodes.values()) == 40000 == document["total"]["copies"]
    assert nodes[FOURTH]["change"] == "joins" and nodes["10.0.0.2:7253"]["change"] == "leaves"
    for kind in ("primaries", "copies"):
        assert document["moved"][kind] >= document["least"][kind] > 0
        assert document["moved"][kind] == sum(move[kind] for move in document["moves"])
        for name, node in nodes.items():
            gained = sum(move[kind] for move in document["moves"] if move["to"] == name)
            lost = sum(move[kind] for move in document["moves"] if move["from"] == name)
            assert node["before"][kind] + gained - lost == node["after"][kind]


def test_nothing_moves_when_nothing_changes(tryst):
    document = plan(tryst, *THREE)
    assert document["moves"] == [] and document["moved"] == {"primaries": 0, "copies": 0}


def test_copies_that_are_new_come_from_nowhere(tryst):
    document = plan(tryst, "--keys", "1000", "--replicas", "2", "--node", "a", "--add", "b")
    assert [move["copies"] for move in document["moves"] if move["from"] is None] == [1000]
    assert document["least"]["copies"] == document["moved"]["copies"] == 0
    assert (document["created"], document["dropped"]) == (1000, 0)


def test_copies_that_are_dropped_go_nowhere(tryst):
    document = plan(tryst, "--keys", "1000", "--replicas", "2", "--node", "a", "--node", "b", "--remove", "a")
    assert [move["copies"] for move in document["moves"] if move["to"] is None] == [1000]
    assert (document["moved"]["copies"], document["created"], document["dropped"]) == (0, 0, 1000)
    table = tryst("plan", "--keys", "1000", "--node", "a", "--node", "b", "--remove", "a").stdout
    assert "(dropped)" in table and "50.00% of the copies are dropped" in table


def test_one_replica_has_no_backups_to_tell_of(tryst):
    assert "copies" not in tryst("plan", "--replicas", "1", *THREE, "--add", FOURTH).stdout


def test_a_weight_can_be_changed(tryst):
    document = plan(tryst, *THREE, "--remove", "10.0.0.1:7253", "--add", "10.0.0.1:7253,weight=2")
    changed = next(node for node in document["nodes"] if node["name"] == "10.0.0.1:7253")
    assert changed["change"] == "changes"
    assert all(move["to"] == "10.0.0.1:7253" for move in document["moves"])


def test_a_keyspace_node_that_stays_keeps_its_place(tryst):
    arguments = ["--replicas", "1", "--node", "a", "--node", "b", "--node", "c"]
    document = plan(tryst, "--strategy", "keyspace@1", *arguments, "--remove", "a")
    assert {(move["from"], move["to"]) for move in document["moves"]} == {("a", "c")}
    document = plan(tryst, "--strategy", "keyspace", *arguments, "--remove", "a")
    assert {move["from"] for move in document["moves"]} == {"a"}


def test_the_table_has_every_node_and_the_totals(tryst):
    result = tryst("plan", *THREE, "--add", FOURTH)
    assert result.returncode == 0
    for word in ("10.0.0.1:7253", FOURTH, "joins", "stays", "->", "any way from these shares"):
        assert word in result.stdout


@pytest.mark.parametrize("count", [3, 60])
def test_the_picture_is_sound_xml(tryst, tmp_path, count):
    path = tmp_path / "plan.svg"
    nodes = [word for i in range(count) for word in ("--node", f"<n&{i}>")]
    result = tryst("plan", "--keys", "5000", *nodes, "--add", "ü" * 30, "--svg", str(path))
    assert result.returncode == 0, result.stderr
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) >= 6


def test_names_that_are_no_text_do_not_break_the_picture(tryst, tmp_path):
    path = tmp_path / "plan.svg"
    strange = [b"a\xff", b"\xef\xbf\xbe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80" * 20]
    nodes = [word for name in strange for word in (b"--node", name)]
    result = tryst("plan", "--keys", "100", *nodes, "--add", "b", "--json", "--svg", str(path))
    assert result.returncode == 0
    assert "\ufffd" in xml.etree.ElementTree.parse(path).getroot().findtext(".//{*}text/{*}title")
    assert len(json.loads(result.stdout)["nodes"]) == 5


ERRORS = {
    "no nodes": ([], "no nodes"),
    "none left": (["--node", "a", "--remove", "a"], "no nodes would be left"),
    "remove unknown": (["--node", "a", "--remove", "b"], "--remove b"),
    "add twice": (["--node", "a", "--add", "a"], "'a'"),
    "operand": (["--node", "a", "key"], "'key'"),
    "keys zero": (["--node", "a", "--keys", "0"], "--keys"),
    "bad node": (["--node", "a", "--add", "b,weight=0"], "weight must be"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_gets_one_clear_line(tryst, case):
    arguments, hint = ERRORS[case]
    result = tryst("plan", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("tryst plan: ")
    assert hint in result.stderr


def test_a_picture_that_cannot_be_written_is_an_error(tryst):
    result = tryst("plan", "--keys", "10", "--node", "a", "--svg", "/nonexistent/plan.svg")
    assert result.returncode == 1 and "/nonexistent/plan.svg" in result.stderr
