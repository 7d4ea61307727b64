# SPDX-License-Identifier: Apache-2.0
"""`tryst place` as people and scripts use it."""

import json

import pytest

TEN = [f"10.0.0.{i}:7253" for i in (1, 2, 3)]


def nodes(*names):
    return [word for name in names for word in ("--node", name)]


def test_the_chronos_session(tryst):
    result = tryst("place", "--strategy", "chronos", "--replicas", "2", "--ids", *nodes(*TEN), "64", "c8")
    assert result.stdout == "64\t10.0.0.1:7253\t10.0.0.2:7253\nc8\t10.0.0.1:7253\t10.0.0.3:7253\n"
    assert (result.returncode, result.stderr) == (0, "")


def test_the_keyspace_session(tryst):
    ring = nodes("a,at=0", "b,at=.25", "c,at=.5", "d,at=.75")
    result = tryst("place", "--strategy", "keyspace", "--replicas", "2", "--positions", *ring, ".73")
    assert result.stdout == ".73\td\ta\n"
    assert (result.returncode, result.stderr) == (0, "")


def test_positions_are_exact_decimals(tryst):
    ring = nodes("a,at=0", "b,at=.1", "c,at=.3")
    asked = ["--partitions", "10", "--replicas", "1", "--positions", *ring, ".1", ".10000001", ".3", ".4"]
    assert tryst("place", "--strategy", "keyspace@1", *asked).stdout == ".1\tb\n.10000001\tb\n.3\tc\n.4\ta\n"
    assert tryst("place", "--strategy", "keyspace", *asked).stdout == ".1\tb\n.10000001\tc\n.3\tc\n.4\ta\n"


def test_a_key_at_a_nodes_position_is_that_nodes(tryst):
    """Also where the position is no whole partition: .3 of 1024."""
    for strategy in ("keyspace@1", "keyspace@2"):
        result = tryst("place", "--strategy", strategy, "--replicas", "1", "--positions", *nodes("a,at=.3", "b,at=.6"), ".3", ".6", ".7")
        assert result.stdout == ".3\ta\n.6\tb\n.7\ta\n"


def test_positions_per_node(tryst):
    result = tryst("place", "--strategy", "keyspace", "--per-node", "4", *nodes("a", "b"), "key")
    assert result.returncode == 0
    result = tryst("place", "--strategy", "keyspace@1", "--per-node", "4", *nodes("a", "b"), "key")
    assert result.returncode == 2 and "--per-node is for --strategy keyspace@2" in result.stderr
    result = tryst("place", "--strategy", "keyspace", "--partitions", "1024", "--per-node", "600", *nodes("a", "b"), "key")
    assert result.returncode == 2 and "'b'" in result.stderr and "--per-node" in result.stderr


def test_the_ring_takes_positions_too(tryst):
    result = tryst("place", "--strategy", "ring", "--positions", *nodes("a", "b", "c"), "0", ".5", ".999999999999999999999")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3


def test_json_says_the_same(tryst):
    arguments = ["place", *nodes(*TEN), "x", 'quote"and\\slash', "naïve"]
    lines = [line.split("\t") for line in tryst(*arguments).stdout.splitlines()]
    document = json.loads(tryst(*arguments, "--json").stdout)
    assert document["strategy"] == "rendezvous@1"
    assert [[place["key"], *place["nodes"]] for place in document["places"]] == lines


def test_bytes_that_are_no_text_do_not_break_json(tryst):
    result = tryst("place", "--json", *nodes("a", "b"), b"\xff\xc3\x28\xed\xa0\x80\x01")
    key = json.loads(result.stdout)["places"][0]["key"]
    assert "\ufffd" in key and "\x01" in key


def test_more_replicas_than_nodes_gives_all(tryst):
    result = tryst("place", "--replicas", "9", *nodes("a", "b", "c"), "key")
    assert sorted(result.stdout.rstrip("\n").split("\t")[1:]) == ["a", "b", "c"]


def test_a_version_can_be_named(tryst):
    plain = tryst("place", *nodes("a", "b", "c"), "key")
    assert tryst("place", "--strategy=rendezvous@1", *nodes("a", "b", "c"), "key").stdout == plain.stdout


def test_replicas_spread_over_the_level_asked_for(tryst):
    zoned = nodes("a,zone=eu/1", "b,zone=eu/2", "c,zone=us/1", "d,zone=us/2", "e,zone=eu/1", "f,zone=us/1")
    zone = {"a": "eu/1", "b": "eu/2", "c": "us/1", "d": "us/2", "e": "eu/1", "f": "us/1"}
    keys = [f"k{i}" for i in range(200)]
    for level, depth, distinct in (("region", 1, 2), ("rack", 2, 4)):
        result = tryst("place", "--strategy", "crush", "--levels", "region,rack", "--spread", level, "--replicas", "4", *zoned, *keys)
        for line in result.stdout.splitlines():
            domains = ["/".join(zone[name].split("/")[:depth]) for name in line.split("\t")[1:]]
            assert len(set(domains[:distinct])) == distinct
            assert max(map(domains.count, domains)) == 4 // distinct


def test_operands_may_follow_a_double_dash(tryst):
    result = tryst("place", *nodes("a"), "--", "--node")
    assert result.stdout == "--node\ta\n"


ERRORS = {
    "no nodes": (["key"], "no nodes"),
    "no keys": (nodes("a"), "no keys"),
    "a name twice": ([*nodes("a", "b", "a"), "key"], "'a'"),
    "weight zero": ([*nodes("a,weight=0"), "key"], "weight must be"),
    "weight negative": ([*nodes("a,weight=-1"), "key"], "weight must be"),
    "weight no number": ([*nodes("a,weight=many"), "key"], "weight must be"),
    "weight not finite": ([*nodes("a,weight=inf"), "key"], "weight must be"),
    "weight too large": ([*nodes("a,weight=65537"), "key"], "weight must be"),
    "weight too small": ([*nodes("a,weight=0.00001"), "key"], "weight must be"),
    "position one": (["--strategy", "keyspace", *nodes("a,at=1"), "key"], "[0,1)"),
    "position negative": (["--strategy", "keyspace", *nodes("a,at=-.5"), "key"], "[0,1)"),
    "positions equal": (["--strategy", "keyspace", *nodes("a,at=.5", "b,at=.5"), "key"], "same partition"),
    "key outside": (["--strategy", "keyspace", "--positions", *nodes("a"), "1.5"], "[0,1)"),
    "zones unequal": (["--strategy", "crush", *nodes("a,zone=x", "b,zone=x/y"), "key"], "levels"),
    "zone missing": (["--strategy", "crush", *nodes("a,zone=x", "b"), "key"], "levels"),
    "zones and levels": (["--strategy", "crush", "--levels", "r,k", *nodes("a,zone=x"), "key"], "--levels"),
    "weight unused": (["--strategy", "chronos", *nodes("a,weight=1"), "key"], "weight"),
    "weight unused by keyspace": (["--strategy", "keyspace", *nodes("a,weight=2"), "key"], "weight"),
    "position unused": (["--strategy", "rendezvous", *nodes("a,at=.5"), "key"], "position"),
    "zone unused": (["--strategy", "ring", *nodes("a,zone=x"), "key"], "zones are for crush"),
    "levels unused": (["--levels", "x", *nodes("a"), "key"], "--levels"),
    "spread unused": (["--spread", "rack", *nodes("a"), "key"], "--spread is for --strategy crush"),
    "spread unknown": (["--strategy", "crush", "--levels", "x", "--spread", "y", *nodes("a,zone=q"), "key"], "no such level"),
    "partitions unused": (["--partitions", "8", *nodes("a"), "key"], "--partitions is for --strategy keyspace"),
    "partitions zero": (["--strategy", "keyspace", "--partitions", "0", *nodes("a"), "key"], "--partitions"),
    "partitions too many": (["--strategy", "keyspace", "--partitions", "4294967297", *nodes("a"), "key"], "--partitions"),
    "no partition left": (["--strategy", "keyspace", "--partitions", "2", *nodes("a", "b", "c"), "key"], "'c'"),
    "strategy unknown": (["--strategy", "random", *nodes("a"), "key"], "rendezvous@1"),
    "version unknown": (["--strategy", "ring@7", *nodes("a"), "key"], "ring@1"),
    "replicas zero": (["--replicas", "0", *nodes("a"), "key"], "--replicas"),
    "replicas no number": (["--replicas", "two", *nodes("a"), "key"], "--replicas"),
    "id no hex": (["--ids", *nodes("a"), "xyz"], "hexadecimal"),
    "id too long": (["--ids", *nodes("a"), "11112222333344445"], "hexadecimal"),
    "positions unused": (["--positions", *nodes("a"), ".5"], "--positions"),
    "ids and positions": (["--ids", "--positions", *nodes("a"), "5"], "--positions"),
    "attribute unknown": ([*nodes("a,colour=red"), "key"], "weight=W"),
    "attribute twice": ([*nodes("a,weight=1,weight=2"), "key"], "twice"),
    "option unknown": (["--nodes", "a", "key"], "--nodes"),
    "value missing": ([*nodes("a"), "key", "--replicas"], "needs a value"),
    "name empty": ([*nodes(""), "key"], "name"),
    "name with a tab": ([*nodes("a\tb"), "key"], "control"),
    "name with a line break": ([*nodes("a\nb\x1b[31m"), "key"], "node 'a?b?[31m': control"),
    "endless name": ([*nodes("n" * 100000), "key"], "node 'nnn"),
    "too many points": (["--strategy", "ring", *nodes("a,weight=65536", "b,weight=65536"), "key"], "points"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_gets_one_clear_line(tryst, case):
    arguments, hint = ERRORS[case]
    result = tryst("place", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("tryst place: ")
    assert hint in result.stderr


def test_keys_come_from_standard_input_too(tryst):
    plain = tryst("place", *nodes("a", "b", "c"), "one", "two words", "-x", "--", "--y")
    assert plain.returncode == 2  # -x is no option
    expected = tryst("place", *nodes("a", "b", "c"), "one", "two words", "", "--", "-x", "-").stdout
    piped = tryst("place", *nodes("a", "b", "c"), "-", input="one\ntwo words\n\n-x\n-")
    assert piped.stdout == expected and len(expected.splitlines()) == 5
    assert tryst("place", *nodes("a"), "-", input="").returncode == 2
    cut = tryst("place", *nodes("a"), "zero", "-", input="one\ntw\0o\n")
    assert (cut.returncode, cut.stdout) == (2, "") and "line 2: a key has a NUL byte" in cut.stderr


def test_a_key_that_would_break_its_line_needs_json(tryst):
    for key in ("a\tb", "a\nb"):
        assert tryst("place", *nodes("a"), key).returncode == 2
        assert json.loads(tryst("place", *nodes("a"), key, "--json").stdout)["places"][0]["key"] == key


def test_a_fault_in_a_key_prints_no_half_answer(tryst):
    result = tryst("place", "--ids", *nodes("a"), "1", "2", "zz")
    assert (result.returncode, result.stdout) == (2, "")


def test_output_that_cannot_be_written_is_an_error(tryst, tmp_path):
    with open("/dev/full", "w") as full:
        import os
        import subprocess

        command = os.environ.get("TRYST", "build/tryst")
        result = subprocess.run([command, "place", "--node", "a", "key"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert "cannot write" in result.stderr


def test_help_and_version(tryst):
    for arguments in (["--help"], ["help"], ["help", "place"], ["place", "--help"], ["place", "-h"], ["help", "plan"], ["plan", "--help"]):
        result = tryst(*arguments)
        assert result.returncode == 0 and "usage: tryst" in result.stdout
    assert tryst("--version").stdout.startswith("tryst ")
    for arguments in ([], ["nonsense"], ["help", "nonsense"], ["help", "place", "plan"]):
        result = tryst(*arguments)
        assert result.returncode == 2 and result.stdout == "" and result.stderr != ""
