# SPDX-License-Identifier: Apache-2.0
"""Pops in the hands of the official libraries, from npm, Standard Webhooks and CloudEvents; and openapi.json in those of a linter and of a
client in TypeScript. `scripts/clients` installs them; `make check` runs this."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import QUICK, ROOT, wait_for

MODULES = ROOT / "build/npm/node_modules"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


wants_clients = pytest.mark.skipif(not (MODULES / "standardwebhooks").exists(), reason="scripts/clients has not run")


@wants_clients
def test_official_libraries_take_our_pops(nodes, receiver, tmp_path):
    (tmp_path / "secrets").write_text(SECRET + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {tmp_path}/secrets\n").start()
    for name, members in (("plain", {"json": {"text": "é"}}), ("a%20b", {"json": {"a": [1, 2]}, "ce-type": "org.example.x"})):
        body = {"timing": {"interval": 0}, "callback": {"http": {"uri": receiver.uri, **members}}}
        assert node.request("PUT", f"/timers/named/{name}", json.dumps(body)).status == 200
    pops = [{"secret": SECRET, "headers": pop.headers, "body": pop.body.decode()} for pop in receiver.wait(2)]
    done = subprocess.run(
        ["node", Path(__file__).parent / "libraries.js"], input=json.dumps(pops), env={**os.environ, "NODE_PATH": str(MODULES)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    events = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda event: event["type"])
    assert [event["type"] for event in events] == ["io.tryst.timer.pop", "org.example.x"]
    assert all(re.match(r"^urn:tryst:cluster:[0-9a-f]{16}$", event["source"]) for event in events)
    assert events[1]["subject"] in ("a b", "a%20b") and events[1]["data"] == {"a": [1, 2]}


def test_the_lines_of_python_in_the_docs(nodes, receiver, tmp_path):
    (tmp_path / "secrets").write_text(SECRET + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {tmp_path}/secrets\n").start()
    assert node.create(receiver.uri, 0, opaque="é").status == 200
    shown = {}
    exec(re.search(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.S).group(1), shown)
    pop = receiver.wait(1)[0]
    assert shown["check"](SECRET, pop.body, pop.headers)
    assert not shown["check"](SECRET, pop.body + b" ", pop.headers)


def npm(tool, *arguments):
    return subprocess.run([str(MODULES / ".bin" / tool), *map(str, arguments)], capture_output=True, text=True, cwd=MODULES.parent, env={**os.environ, "REDOCLY_TELEMETRY": "off"})


@wants_clients
def test_a_linter_finds_no_error_in_openapi(tmp_path):
    done = npm("redocly", "lint", "--format=json", ROOT / "docs/openapi.json")
    problems = json.loads(done.stdout)["problems"]
    assert [problem for problem in problems if problem["severity"] == "error"] == []


CLIENT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./api";
const client = createClient<paths>({ baseUrl: process.argv[2] });
async function main() {
  const body = { timing: { interval: 60 }, callback: { http: { uri: "http://127.0.0.1:9/", opaque: "x" } } };
  const { data, error } = await client.POST("/timers", { body, headers: { Accept: "application/json" } });
  if (error !== undefined) throw new Error(error.detail);
  const id: string = (data as components["schemas"]["Timer"]).id;
  const shown = await client.GET("/timers/{id}", { params: { path: { id } } });
  if (shown.data?.timing.interval !== 60) throw new Error("it is not as it was set");
  const refused = await client.GET("/timers", { params: { query: { limit: 0 } } });
  if (refused.error?.status !== 400) throw new Error("limit=0 is not refused");
}
main().catch((error) => { console.error(error); process.exit(1); });
"""


@wants_clients
def test_a_client_in_typescript(node, receiver, tmp_path):
    """The types are generated, a client is written with them and run; and what GET returns is a value of its type, member by member."""
    assert npm("openapi-typescript", ROOT / "docs/openapi.json", "-o", tmp_path / "api.ts").returncode == 0
    http_members = {"uri": receiver.uri + "/status/500", "json": {"a": 1}, "method": "PUT", "headers": {"X-A": "b"}, "timeout": 2, "retry": {"attempts": 2}}
    for name, timing in (("plain", {"interval": 60}), ("every", {"interval": 60, "count": 5, "jitter": 3}), ("at", {"at": "2030-01-01T00:00:00Z", "missed": "none"}),
                         ("cron", {"cron": "0 9 * * *", "zone": "Europe/Berlin", "until": "2031-01-01T00:00:00Z"}), ("failed", {"interval": 0})):  # fmt: skip
        body = {"timing": timing, "callback": {"http": http_members}, "statistics": {"tag-info": [{"type": "T", "count": 1}]}}
        assert node.request("PUT", f"/timers/named/{name}", json.dumps(body)).status == 200
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"], what="it has failed for good")
    schema = "components['schemas']"
    values = [(f"{schema}['Timer']", f"/timers/named/{name}{now}") for name in ("plain", "every", "at", "cron", "failed") for now in ("", "?now=1")]
    values += [(f"{schema}['Page']", "/timers"), (f"{schema}['Page']", "/timers?state=dead"), (f"{schema}['Cluster']", "/cluster"), ("paths['/pops']['get']['responses']['200']['content']['application/json']", "/pops")]
    lines = ["import type { components, paths } from './api';"]
    lines += [f"export const v{i}: {kind} = {node.get(path).body.decode()};" for i, (kind, path) in enumerate(values)]
    (tmp_path / "values.ts").write_text("\n".join(lines))
    (tmp_path / "client.ts").write_text(CLIENT)
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "node.d.ts").write_text("declare const process: { argv: string[]; exit(code: number): never };")
    options = {"strict": True, "target": "es2022", "module": "commonjs", "moduleResolution": "node10", "types": [], "skipLibCheck": True}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["client.ts", "values.ts", "node.d.ts"]}))
    done = npm("tsc", "--project", tmp_path)
    assert done.returncode == 0, done.stdout
    done = subprocess.run(["node", str(tmp_path / "client.js"), f"http://127.0.0.1:{node.port}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
