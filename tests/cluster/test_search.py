# SPDX-License-Identifier: Apache-2.0
"""Timers found by filters, alone and together, on one node and on three, held against a model of them."""

import json
import random
import time
from datetime import datetime, timezone

import pytest

from cluster import Cluster

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
    quote = lambda text: "".join(f"%{byte:02x}" for byte in text.encode())  # noqa: E731
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
