# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.json against the server: every operation it names answers as it says, and refuses what it does not name."""

import json
import re
from pathlib import Path

import pytest

from conftest import timer_body, wait_for

DOCUMENT = json.loads((Path(__file__).resolve().parent.parent.parent / "docs" / "openapi.json").read_text())
METHODS = ["get", "put", "post", "delete", "patch", "options"]
ID = "0123456789abcdef-2"


def resolve(schema):
    while "$ref" in schema:
        part = DOCUMENT
        for name in schema["$ref"].split("/")[1:]:
            part = part[name]
        schema = part
    return schema


def fits(value, schema):
    try:
        check(value, schema)
    except AssertionError:
        return False
    return True


def check(value, schema, where="body"):
    """As much of JSON Schema as the document uses."""
    schema = resolve(schema)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    if "type" in schema:
        assert isinstance(value, kinds[schema["type"]]), (where, value)
    if "enum" in schema:
        assert value in schema["enum"], (where, value)
    if "oneOf" in schema:
        assert any(fits(value, one) for one in schema["oneOf"]), (where, value)
    if "const" in schema:
        assert value == schema["const"], (where, value)
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), (where, value)
    if "minimum" in schema:
        assert value >= schema["minimum"], (where, value)
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, (where, name)
        for name, member in value.items():
            if name in schema.get("properties", {}):
                check(member, schema["properties"][name], f"{where}.{name}")
            elif isinstance(schema.get("additionalProperties"), dict):
                check(member, schema["additionalProperties"], f"{where}.{name}")
            else:
                assert schema.get("additionalProperties", True), (where, name)
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), f"{where}[{i}]")


def check_answer(answer, operation):
    described = operation["responses"].get(str(answer.status))
    assert described is not None, f"{answer.status} is not described for {operation['operationId']}: {answer.body}"
    described = resolve(described)
    for name, header in described.get("headers", {}).items():
        assert re.search(header["schema"]["pattern"], answer.headers[name.lower()])
    content = described.get("content", {})
    if not content or "content-type" not in answer.headers:
        assert answer.body == b""
        return
    kind = answer.headers["content-type"].split(";")[0]
    assert kind in content
    if kind.endswith("json"):
        check(answer.json(), content[kind]["schema"])


OPERATIONS = [(path, method, item[method]) for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item]


# A query that an operation cannot do without, and values that parameters do not take.
NEEDS = {"cancel-all": "?tag=T", "redrive-all": "?tag=T"}
BAD = {
    "limit": "0", "cursor": "x", "tag": "t" * 65, "state": "other", "scope": "world", "sequence": "x", "uri-prefix": "", "name-prefix": "",
    "due-after": "tomorrow", "due-before": "2026-02-30T00:00:00Z", "all": "maybe", "dry-run": "maybe", "now": "soon",
    "sort": "name", "from": "soon", "pattern": "",
}
MAY_BE_404 = ("key", "deleteKey", "read", "redrive", "fire", "read-named", "redrive-named", "fire-named")


@pytest.mark.parametrize("path,method,operation", OPERATIONS, ids=[operation["operationId"] for _, _, operation in OPERATIONS])
def test_an_operation_answers_as_described(node, receiver, path, method, operation):
    which = operation["operationId"]
    existing = node.create(receiver.uri, 3600, tags=[{"type": "T"}]).location.split("/")[2]
    assert node.request("PUT", "/timers/named/known", timer_body(receiver.uri, 3600)).status == 200
    good = {"set-nodes": f"[cluster]\nnode = 127.0.0.1:{node.port}\n"}.get(which, timer_body(receiver.uri, 3600))
    for place, name in ((existing, "known"), (ID, "un%20known")):
        for body in [good, "[]", "{"] if "requestBody" in operation else [None]:
            answer = node.request(method.upper(), path.replace("{id}", place).replace("{name}", name) + NEEDS.get(which, ""), body)
            check_answer(answer, operation)
            is_refused = body in ("[]", "{") or (answer.status == 404 and which in MAY_BE_404) or which in ("set-clock", "advance")
            assert answer.status // 100 == (4 if is_refused else 2)
    for parameter in operation.get("parameters", []):
        if parameter["in"] != "query":
            continue
        answer = node.request(method.upper(), f"{path.replace('{id}', existing).replace('{name}', 'known')}?{parameter['name']}={BAD[parameter['name']]}", None)
        assert answer.status == 400
        check_answer(answer, operation)


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_what_is_not_described_is_405(node, path):
    if path == "/ping":
        return  # any method will do there, as with the original
    described = {method for method in METHODS if method in DOCUMENT["paths"][path]}
    for method in set(METHODS) - described:
        answer = node.request(method.upper(), path.replace("{id}", ID).replace("{name}", "x"))
        assert answer.status == 405, (method, path)
        assert described <= {name.strip().lower() for name in answer.headers["allow"].split(",")}


def test_dead_pops_are_described(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    node.create(receiver.uri + "/status/500", 0)
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"])
    check_answer(node.get("/timers?state=dead"), DOCUMENT["paths"]["/timers"]["get"])
