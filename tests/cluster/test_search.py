# SPDX-License-Identifier: Apache-2.0
"""Timers found by filters, alone and together, on one node and on three, held against a model of them."""

import json
import os
import random
import threading
import time
from datetime import datetime, timezone

import pytest

from cluster import Cluster, wait_for

TAGS, PATHS = ["REG", "CALL", "a b/ü"], ["http://a.example/x", "http://a.example/xy", "http://b.example/%20"]


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def pages(node, words):
    """All of it, page by page: the ids."""
    found, cursor = [], ""
    while True:
        status, _, body = node.request("GET", f"/timers?{words}&limit=37{cursor}")
        assert status == 200, body
        page = json.loads(body)
        found += [timer["id"] for timer in page["timers"]]
        if "cursor" not in page:
            return sorted(found)
        cursor = f"&cursor={page['cursor']}"


def set_all(node, timers):
    """By the thousand. What a busy machine refuses, or does not know of, is asked again."""
    for first in range(0, len(timers), 1000):
        bodies = [json.dumps(timer) for timer in timers[first : first + 1000]]
        status, _, answer = node.request("POST", "/timers", "\n".join(bodies), {"Content-Type": "application/x-ndjson"})
        lines = [json.loads(line) for line in answer.splitlines()]
        assert status == 200 and len(lines) == len(bodies), answer[:500]
        for line, body in zip(lines, bodies):
            if "status" not in line:
                continue
            method, path = ("PUT", line["location"]) if "location" in line else ("POST", "/timers")
            assert line["status"] == 503 and node.request(method, path, body)[0] == 200, line


def quote(text):
    return "".join(f"%{byte:02x}" for byte in text.encode())


def instant(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@pytest.mark.parametrize("count", [1, 3])
def test_each_filter_alone_and_together(cluster, count):
    nodes = cluster.start(count)
    draw = random.Random(count)
    model = []
    begun = time.time()
    for i in range(300):
        tags = draw.sample(TAGS, draw.randint(0, 2))
        uri, interval = draw.choice(PATHS) + str(i % 3), draw.choice((100, 200, 300)) + i / 1000
        body = {"timing": {"interval": interval}, "callback": {"http": {"uri": uri, "opaque": ""}}, "statistics": {"tag-info": [{"type": tag, "count": 1} for tag in tags]}}
        status, headers, answer = nodes[i % count].request("POST", "/timers", json.dumps(body))
        assert status == 200, answer
        model.append((headers["location"].split("/")[2], tags, uri, interval))
    for _ in range(60):
        words, chosen = ["scope=cluster"], model
        if draw.random() < 0.5:
            tag = draw.choice(TAGS)
            words.append(f"tag={quote(tag)}")
            chosen = [one for one in chosen if tag in one[1]]
        if draw.random() < 0.5:
            prefix = draw.choice(PATHS)[: draw.randint(1, 20)]
            words.append(f"uri-prefix={quote(prefix)}")
            chosen = [one for one in chosen if one[2].startswith(prefix)]
        after, before = sorted(draw.choice((50, 150, 250, 350)) for _ in range(2))
        if draw.random() < 0.5:
            words.append(f"due-after={instant(begun + after)}")
            chosen = [one for one in chosen if one[3] >= after]
        if draw.random() < 0.5:
            words.append(f"due-before={instant(begun + before)}")
            chosen = [one for one in chosen if one[3] < before]
        draw.shuffle(words)
        assert pages(draw.choice(nodes), "&".join(words)) == sorted(one[0] for one in chosen), words
    offset = datetime.fromtimestamp(begun + 150, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S+00:00")
    assert pages(nodes[0], f"scope=cluster&due-after={offset}") == pages(nodes[0], f"scope=cluster&due-after={offset.replace('+', '%2B')}")
    assert pages(nodes[0], "scope=cluster&due-before=1970-01-01T00:00:00Z") == []
    for bad in ("tag=", "uri-prefix=", "due-after=", "due-after=1", "due-before=2026-11-19", "uri-prefix=%zz", f"uri-prefix={'x' * 1025}", "due_after=2026-11-19T00:00:00Z"):
        status, _, body = nodes[0].request("GET", f"/timers?{bad}")
        assert status == 400, (bad, body)
    assert b"did you mean due-after" in nodes[0].request("GET", "/timers?due_after=1")[2]


MANY = int(os.environ.get("TRYST_SEARCHED", "6000"))


def asked(node, path):
    """DELETE, which goes on where it was as often as it is asked for."""

    def is_done():
        status, _, body = node.request("DELETE", path)
        assert status in (200, 503), body
        return status == 200 and json.loads(body)

    return wait_for(is_done, 60, f"DELETE {path} is through")


def left(node):
    return asked(node, "/timers?all=yes&dry-run=yes")["matched"]


@pytest.fixture
def crowd(tmp_path):
    """Three nodes, and what was set on them: tag, URI and seconds."""
    cluster = Cluster(tmp_path, storage="memory-budget = 2G\nsegment-size = 16M\n")
    nodes = cluster.start(3)
    draw = random.Random(MANY)
    drawn = [(draw.choice(TAGS), draw.choice(PATHS), 3600 * draw.randint(1, 100)) for _ in range(MANY)]
    third = MANY // 3 + 1
    for i, node in enumerate(nodes):
        own = drawn[i * third : (i + 1) * third]
        set_all(node, [{"timing": {"interval": interval}, "callback": {"http": {"uri": uri, "opaque": ""}}, "statistics": {"tag-info": [{"type": tag, "count": 1}]}} for tag, uri, interval in own])
    yield nodes, drawn
    cluster.close()


def test_filters_of_a_crowd_are_counted_by_a_model(crowd):
    nodes, drawn = crowd
    draw, now = random.Random(1), time.time()
    for number in range(12):
        tag, uri = draw.choice(TAGS), draw.choice(PATHS)[: draw.randint(8, 20)]
        after, before = sorted(3600 * draw.randint(0, 101) + 1800 for _ in range(2))  # what was set a while ago is still on the same side
        filters = [
            (f"tag={quote(tag)}", lambda one: one[0] == tag),
            (f"uri-prefix={quote(uri)}", lambda one: one[1].startswith(uri)),
            (f"due-after={instant(now + after)}", lambda one: one[2] >= after),
            (f"due-before={instant(now + before)}", lambda one: one[2] < before),
        ]
        given = [filters[number]] if number < 4 else draw.sample(filters, draw.randint(2, 4))
        path = f"/timers?{'&'.join(word for word, _ in given)}&dry-run=yes"
        assert asked(draw.choice(nodes), path) == {"matched": sum(all(keeps(one) for _, keeps in given) for one in drawn)}, path


def test_a_crowd_is_cancelled_though_the_node_that_was_asked_is_killed(crowd):
    nodes, drawn = crowd
    path = f"/timers?tag={TAGS[0]}"
    kept = sum(one[0] != TAGS[0] for one in drawn)
    helper = threading.Thread(target=cut_off, args=(nodes[0], path))
    helper.start()
    wait_for(lambda: left(nodes[1]) < MANY, 30, "the first are cancelled")
    nodes[0].kill()
    helper.join()
    assert MANY < 1_000_000 or left(nodes[1]) > kept, "it was killed half way"
    asked(nodes[1], path)
    nodes[0].start()
    wait_for(lambda: [left(node) for node in nodes] == [kept] * 3, 120, "the others are left, and they alone")


def cut_off(node, path):
    try:
        node.request("DELETE", path)
    except OSError:
        pass
