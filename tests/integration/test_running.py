# SPDX-License-Identifier: Apache-2.0
"""Command line, configuration, signals, logs, and the command for people."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from conftest import SLOW, TRYST, TRYSTD, free_port, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*arguments, **options):
    return subprocess.run([TRYSTD, *arguments], capture_output=True, text=True, timeout=20, **options)


def tryst(node, *arguments):
    return subprocess.run([TRYST, *arguments], capture_output=True, text=True, timeout=20, env={**os.environ, "TRYST_NODE": f"127.0.0.1:{node.port}"})


def test_help_and_version():
    assert "--listen" in run("--help").stdout and run("--help").returncode == 0
    assert re.match(r"trystd \d+\.\d+\.\d+\n", run("--version").stdout)


def test_an_unknown_option_is_told():
    answer = run("--nonsense")
    assert answer.returncode == 2 and "--help" in answer.stderr


def test_without_arguments_it_is_a_working_node(tmp_path):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 7253)) == 0:
            pytest.skip("something else listens on 7253")
    process = subprocess.Popen([TRYSTD], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert "ready on 127.0.0.1:7253" in line
        assert (tmp_path / "tryst-data").is_dir()
    finally:
        process.terminate()
        assert process.wait(10 * SLOW) == 0
        process.stderr.close()


def test_all_faults_of_a_config_are_told_at_once(tmp_path):
    config = tmp_path / "bad.conf"
    config.write_text("[http]\nbind-port = seven\nnonsense = 1\n[storage]\nsync = maybe\nbroken line\n[callback]\ndeny = 300.1.1.1/8\n[limits]\nopaque = 4T\n")
    answer = run("--config", str(config), "--check-config")
    assert answer.returncode == 2
    lines = [line for line in answer.stderr.splitlines() if "error" in line]
    assert len(lines) == 6
    for number, line in zip([2, 3, 5, 6, 8, 10], lines):
        assert f"{config}:{number}: " in line


def test_a_good_config_is_good(tmp_path):
    config = tmp_path / "good.conf"
    config.write_text("; all of it\n[http]\nbind-address = 127.0.0.1\n[logging]\nlevel = 4\nformat = json\n[callback]\ndeny = 10.0.0.0/8, fe80::/10 # why\n")
    answer = run("--config", str(config), "--check-config")
    assert answer.returncode == 0 and "good" in answer.stdout


def test_the_example_for_kubernetes_fits_together(tmp_path):
    parts = {}
    for part in yaml.safe_load_all((ROOT / "packaging" / "kubernetes.yaml").read_text()):
        parts.setdefault(part["kind"], []).append(part)
    stateful, config = parts["StatefulSet"][0], parts["ConfigMap"][0]["data"]["tryst.conf"]
    pod = stateful["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert [name for name in re.findall(r"node = (.*)", config)] == [f"{stateful['metadata']['name']}-{i}.{stateful['spec']['serviceName']}:7253" for i in range(stateful["spec"]["replicas"])]
    assert all(service["spec"]["ports"][0]["port"] == 7253 and service["spec"]["selector"] == stateful["spec"]["template"]["metadata"]["labels"] for service in parts["Service"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    own = next(variable["value"] for variable in container["env"] if variable["name"] == "TRYST_CLUSTER_LOCALHOST").replace("$(POD_NAME)", "tryst-1")
    (tmp_path / "secret").write_text("a secret of the cluster")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "tryst.conf").write_text(config.replace("/etc/tryst-secret", str(tmp_path)))
    done = subprocess.run([TRYSTD, "--config", tmp_path / "tryst.conf", "--check-config"], env={**os.environ, "TRYST_CLUSTER_LOCALHOST": own}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_a_missing_config_is_a_fault():
    assert run("--config", "/no/such/file", "--check-config").returncode == 2


def test_a_value_of_any_length_is_read(tmp_path):
    config = tmp_path / "long.conf"
    folder = tmp_path / ("d" * 200)
    folder.mkdir()
    config.write_text(f"[storage]\ndata-dir = {folder / ('e' * 200)}\n")
    assert run("--config", str(config), "--check-config").returncode == 0


def test_the_flags_and_files_of_the_original(tmp_path):
    port = free_port()
    (tmp_path / "cluster.conf").write_text(f"[cluster]\nlocalhost = 127.0.0.1:{port}\nnode = 127.0.0.1:{port}\n")
    (tmp_path / "local.conf").write_text(
        f"[http]\nbind-address = 127.0.0.1\nbind-port = {port}\nthreads = 50\n[logging]\nfolder = {tmp_path}\nlevel = 2\n[identity]\ninstance_id = 5\ndeployment_id = 3\n"
        "[throttling]\ntarget_latency = 100000\nmax_tokens = 20\n[exceptions]\nmax_ttl = 600\n[dns]\nservers = 127.0.0.1\n[sites]\nlocal_site = here\n"
    )
    process = subprocess.Popen(
        [TRYSTD, "--local-config-file", str(tmp_path / "local.conf"), "--cluster-config-file", str(tmp_path / "cluster.conf"), "--shared-config-file", str(tmp_path / "none.conf"),
         "--pidfile", str(tmp_path / "pid"), "--data-dir", str(tmp_path / "data")],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )
    try:
        log = tmp_path / "tryst_current.txt"
        wait_for(lambda: log.exists() and "ready on" in log.read_text(), what="the log in its folder")
        assert (tmp_path / "pid").read_text().strip() == str(process.pid)
        body = '{"timing":{"interval":9},"callback":{"http":{"uri":"http://h/","opaque":""}}}'
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
            stream.sendall(f"POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            location = re.search(r"/timers/([0-9a-f]{16})", stream.recv(1000).decode()).group(1)
        assert int(location, 16) >> 20 & 1023 == 3 << 7 | 5  # the identity is in the id
        second = run("--local-config-file", str(tmp_path / "local.conf"), "--pidfile", str(tmp_path / "pid"), "--data-dir", str(tmp_path / "other"))
        assert second.returncode == 2
    finally:
        process.terminate()
        assert process.wait(10 * SLOW) == 0
        errors = process.stderr.read()
        process.stderr.close()
    assert "means nothing here" in errors and "threads" in errors
    assert not (tmp_path / "pid").exists()


def test_with_flags_of_the_original_data_is_in_no_current_directory(tmp_path):
    """As a user who may write to neither: a namespace in which /var/lib is read-only, and then one in which it is not."""
    (tmp_path / "local.conf").write_text(f"[http]\nbind-address = 127.0.0.1\nbind-port = {free_port()}\n")
    command = f"{TRYSTD} --check-config --local-config-file {tmp_path}/local.conf --cluster-config-file {tmp_path}/none --shared-config-file {tmp_path}/none"
    for mount, status in (("mount -t tmpfs -o ro none /var/lib", 2), ("mount -t tmpfs none /var/lib", 0)):
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", f"{mount} && {command}"], cwd=tmp_path, capture_output=True, text=True, timeout=20 * SLOW)
        assert done.returncode == status, done.stderr
        assert ("/var/lib/chronos cannot be written to" in done.stderr) == (status == 2)
    assert not (tmp_path / "tryst-data").exists()


def test_it_goes_to_the_background(tmp_path):
    port = free_port()
    command = [TRYSTD, "--daemon", "--pidfile", str(tmp_path / "pid"), "--listen", f"127.0.0.1:{port}", "--data-dir", "none"]
    assert subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, timeout=20 * SLOW).returncode == 0
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), what="the pidfile"))
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not (tmp_path / "pid").exists(), what="its end")


def test_a_daemon_that_cannot_start_says_so(node, tmp_path):
    command = [TRYSTD, "--daemon", "--listen", f"127.0.0.1:{node.port}", "--data-dir", "none"]
    assert subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, timeout=20 * SLOW).returncode == 1


@pytest.mark.parametrize("text", ["[http]\nbind-address = garbage\n", "[callback]\nca-file = /no/such/file\n", "[logging]\nfolder = /no/such/folder\n", "[http]\nbind-port = 1\nbind-port = 2\n"])
def test_a_config_that_cannot_work_is_not_good(tmp_path, text):
    (tmp_path / "bad.conf").write_text(text)
    answer = run("--config", str(tmp_path / "bad.conf"), "--check-config")
    assert answer.returncode == 2 and answer.stderr.count("error") == 1


def test_a_mistyped_variable_is_a_fault(tmp_path):
    answer = run("--check-config", env={**os.environ, "TRYST_HTTP_BIND_PROT": "7"}, cwd=tmp_path)
    assert answer.returncode == 2 and "TRYST_HTTP_BIND_PROT" in answer.stderr


def test_config_and_the_original_files_do_not_mix(tmp_path):
    assert run("--config", "a", "--local-config-file", "b").returncode == 2


def test_the_environment_overrides(nodes):
    node = nodes(config="[limits]\nopaque = 64K\n", environment={"TRYST_LIMITS_OPAQUE": "10"}).start()
    assert node.create("http://h/", 100, opaque="o" * 11).status == 413
    bad = nodes(environment={"TRYST_CALLBACK_TIMEOUT_MS": "soon"})
    bad.start(wait=False)
    assert bad.process.wait(10 * SLOW) == 2 and "TRYST_CALLBACK_TIMEOUT_MS" in bad.log()


def test_logs_as_json(nodes):
    node = nodes(config="[logging]\nformat = json\n").start()
    line = json.loads(node.log().splitlines()[0])
    assert line["level"] == "status" and "ready" in line["message"] and line["time"].endswith("Z")


def test_a_line_as_json_has_what_it_is_about_as_members(nodes):
    node = nodes(config="[logging]\nformat = json\nlevel = 4\n").start()
    refuses = f"http://127.0.0.1:{free_port()}"
    created = node.create(f"{refuses}/a", interval=0)
    assert created.status == 200
    number = created.location.rsplit("/", 1)[1][:16]
    lines = wait_for(lambda: [line for line in map(json.loads, node.log().splitlines()) if "attempt" in line], what="a line about the failed callback")
    assert lines[0]["timer"] == number and lines[0]["destination"] == refuses and lines[0]["attempt"] == 1
    assert number in lines[0]["message"]


def test_a_failed_start_says_why_also_with_a_log_folder(node, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    config = tmp_path / "second.conf"
    config.write_text(f"[http]\nbind-address = 127.0.0.1\nbind-port = {node.port}\n[logging]\nfolder = {logs}\n")
    for more in ([], ["--daemon"]):
        started = subprocess.run([TRYSTD, "--config", config, "--data-dir", tmp_path / "second", *more], capture_output=True, text=True, timeout=20 * SLOW)
        assert started.returncode == 1 and "address already in use" in started.stderr, started.stderr
        assert "address already in use" in (logs / "tryst_current.txt").read_text()
        assert not (tmp_path / "second").exists(), "a start that failed has left something"


def test_a_failed_start_leaves_a_directory_as_it_was(node, tmp_path):
    held = tmp_path / "held"
    held.mkdir()
    started = subprocess.run([TRYSTD, "--listen", f"127.0.0.1:{node.port}", "--data-dir", held], capture_output=True, text=True, timeout=20 * SLOW)
    assert started.returncode == 1 and list(held.iterdir()) == []
    other = free_port()
    used = subprocess.run([TRYSTD, "--listen", f"127.0.0.1:{other}", "--data-dir", node.data_dir], capture_output=True, text=True, timeout=20 * SLOW)
    assert used.returncode == 1 and "another process uses" in used.stderr
    assert (Path(node.data_dir) / "lock").exists(), "the lock of the node that runs is gone"


def test_a_node_that_cannot_be_is_told_with_its_line(tmp_path):
    config = tmp_path / "tryst.conf"
    config.write_text("[cluster]\nlocalhost = 127.0.0.1\n\nnode = 1.2.3.4:99999\nnode = a b\nnode = fe80::1\n")
    done = subprocess.run([TRYSTD, "--config", config, "--check-config"], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{config}:4: node 1.2.3.4:99999: the port of a node must be 1 to 65535" in done.stderr
    assert f"{config}:5: node a b" in done.stderr and "fe80" not in done.stderr


def test_a_reload_takes_effect(node, receiver):
    node.config.write_text("[callback]\nattempts = 1\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "in force" in node.log())
    node.create(receiver.uri + "/status/500", 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 1)
    assert len(receiver.pops) == 1


def test_resync_is_answered(node):
    node.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: "resync" in node.log())
    assert node.get("/ping").status == 200


def test_systemd_is_told(nodes, tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(10)
    node = nodes(environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}).start()
    assert listener.recv(100).startswith(b"READY=1")
    node.stop()
    assert listener.recv(100).startswith(b"STOPPING=1")
    listener.close()


def test_a_watchdog_hears_that_the_loop_turns(nodes, tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "watchdog"))
    listener.settimeout(10 * SLOW)
    node = nodes(environment={"NOTIFY_SOCKET": str(tmp_path / "watchdog"), "WATCHDOG_USEC": "200000"}).start()
    heard = {listener.recv(100) for _ in range(5)}
    assert b"WATCHDOG=1" in heard
    os.kill(node.process.pid, signal.SIGSTOP)
    listener.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            listener.recv(100)  # what was sent before
    os.kill(node.process.pid, signal.SIGCONT)
    listener.close()


def test_a_port_in_use_is_told(node, nodes):
    second = nodes(port=node.port)
    second.start(wait=False)
    assert second.process.wait(10 * SLOW) == 1
    assert "cannot listen" in second.log() and "--listen" in second.log()


def test_the_metrics_are_prometheus_text(node, receiver):
    node.create(receiver.uri, 0.05)
    receiver.wait(1)
    wait_for(lambda: node.metrics()["tryst_pop_lateness_seconds_count"] == 1)
    text = node.get("/metrics").body.decode()
    for line in text.splitlines():
        assert re.match(r"^(# (HELP|TYPE) tryst_\S+ .+|tryst_\w+(\{[^}]*\})? [0-9.]+)$", line), line
    names = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    assert {"tryst_timers", "tryst_pop_lateness_seconds", "tryst_commit_duration_seconds", "tryst_callback_duration_seconds", "tryst_queue_depth"} <= names


def test_timers_by_hand(node, receiver):
    added = tryst(node, "timer", "add", "--in", "200ms", "--to", receiver.uri + "/hand", "--tag", "T", "time is up")
    assert added.returncode == 0
    name = added.stdout.strip()
    assert json.loads(tryst(node, "timer", "get", "--json", name).stdout)["callback"]["http"]["opaque"] == "time is up"
    assert name in tryst(node, "timer", "ls").stdout and name in tryst(node, "timer", "ls", "--tag", "T").stdout
    assert receiver.wait(1)[0].body == b"time is up"
    later = json.loads(tryst(node, "timer", "add", "--in", "1h", "--to", receiver.uri, "--json").stdout)["id"]
    assert tryst(node, "timer", "cancel", later).returncode == 0
    gone = tryst(node, "timer", "get", later)
    assert gone.returncode == 1 and "no such timer" in gone.stderr
    wait_for(lambda: json.loads(tryst(node, "timer", "ls", "--json").stdout)["timers"] == [])


def test_timers_are_shown_for_people(node, receiver):
    soon = tryst(node, "timer", "add", "--in", "1h30m", "--tag", "red", "--to", receiver.uri, "later").stdout.strip()
    sooner = tryst(node, "timer", "set", "a b", "--in", "10m", "--to", receiver.uri, "--header", "X-A: 1", "now \x1b[31m").stdout.strip()
    lines = tryst(node, "timer", "ls").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", sooner, soon]
    assert "9m 59s" in lines[1] and "a b" in lines[1] and "1h 29m" in lines[2] and "red" in lines[2]
    shown = tryst(node, "timer", "get", sooner).stdout
    for word in ("name         a b", "once, after 600 s", "in 9m 59s, number 1", f"POST {receiver.uri}", "X-A: 1", "now ?[31m"):
        assert word in shown, shown
    assert json.loads(tryst(node, "timer", "get", "--json", sooner).stdout)["name"] == "a b"


def test_what_is_not_there_to_be_cancelled_is_told(node, receiver):
    timer = tryst(node, "timer", "add", "--in", "1h", "--to", receiver.uri).stdout.strip()
    assert tryst(node, "timer", "cancel", timer).stderr == ""
    again = tryst(node, "timer", "cancel", timer)
    assert again.returncode == 0 and f"there is no timer {timer}" in again.stderr and again.stdout == ""
    assert tryst(node, "timer", "cancel", "--must-exist", timer).returncode == 1


def test_a_text_comes_from_standard_input(node, receiver):
    environment = {**os.environ, "TRYST_NODE": f"127.0.0.1:{node.port}"}
    text = "two\nlines " + "x" * 60000
    set_it = subprocess.run([TRYST, "timer", "add", "--in", "0.05", "--to", receiver.uri, "-"], input=text, capture_output=True, text=True, env=environment, timeout=20 * SLOW)
    assert set_it.returncode == 0, set_it.stderr
    assert wait_for(lambda: receiver.pops, what="the pop")[0].body.decode() == text


def test_of_several_nodes_the_first_that_answers_is_asked(node):
    deaf = socket.create_server(("127.0.0.1", 0))  # it takes connections, and says nothing
    nodes = f"127.0.0.1:1,127.0.0.1:{deaf.getsockname()[1]},127.0.0.1:{node.port}"
    assert subprocess.run([TRYST, "status", "--node", nodes], capture_output=True, text=True, timeout=20 * SLOW).returncode == 0
    environment = {**os.environ, "TRYST_NODES": nodes}
    shown = subprocess.run([TRYST, "cluster", "status"], capture_output=True, text=True, env=environment, timeout=20 * SLOW)
    assert shown.returncode == 0 and "version" in shown.stdout and "disk free" in shown.stdout and "\x1b" not in shown.stdout
    none = subprocess.run([TRYST, "status", "--node", "127.0.0.1:1,127.0.0.1:2"], capture_output=True, text=True, timeout=20 * SLOW)
    assert none.returncode == 1 and "127.0.0.1:1" in none.stderr
    deaf.close()


def test_the_status_of_a_cluster_is_watched(node):
    watched = subprocess.Popen([TRYST, "cluster", "status", "--watch", "--node", f"127.0.0.1:{node.port}"], stdout=subprocess.PIPE, text=True)
    seen = [watched.stdout.readline() for _ in range(10)]
    watched.terminate()
    watched.wait(10 * SLOW)
    assert sum("all nodes are up" in line for line in seen) == 2 and "\x1b" not in "".join(seen)


def test_a_terminal_gets_colors(node):
    ours, theirs = os.openpty()
    for wanted in (True, False):
        environment = {**os.environ, "TRYST_NODE": f"127.0.0.1:{node.port}", "NO_COLOR": "" if wanted else "1"}
        subprocess.run([TRYST, "cluster", "status"], stdout=theirs, env=environment, timeout=20 * SLOW)
        assert (b"\x1b[32mup" in os.read(ours, 65536)) == wanted


def test_dead_pops_by_hand(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    receiver.status = 500
    name = tryst(node, "timer", "add", "--in", "0", "--to", receiver.uri).stdout.strip()
    row = wait_for(lambda: [line for line in tryst(node, "timer", "ls", "--dead").stdout.splitlines() if name in line], what="a dead pop in the list")
    assert row[0].split()[-1] == "500"
    receiver.status = 200
    assert tryst(node, "timer", "redrive", name).returncode == 0
    receiver.wait(2)


def test_status_and_bench(node):
    assert "ready" in tryst(node, "status").stdout
    assert json.loads(tryst(node, "status", "--json").stdout)["ready"] is True
    bench = tryst(node, "bench", "--timers", "500", "--connections", "8", "--json")
    assert bench.returncode == 0 and [json.loads(line)["what"] for line in bench.stdout.splitlines()] == ["create", "cancel"]
    assert node.metrics()['tryst_timers{state="pending"}'] == 0


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["timer"], "add, set, get"),
        (["timer", "add"], "--in"),
        (["timer", "add", "--in", "soon", "--to", "http://h"], "no duration"),
        (["timer", "get"], "which timer"),
        (["timer", "get", "xyz"], "no timer's id"),
        (["timer", "fly"], "no verb"),
        (["status", "--node", ":1"], "HOST:PORT"),
        (["log", "check"], "data directory"),
        (["log", "check", "/no/such/dir"], "/no/such/dir"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments, message):
    answer = subprocess.run([TRYST, *arguments], capture_output=True, text=True, timeout=20 * SLOW)
    assert answer.returncode in (1, 2) and message in answer.stderr and answer.stderr.count("\n") == 1


def test_an_unreachable_node_is_told():
    answer = subprocess.run([TRYST, "status", "--node", f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=20 * SLOW)
    assert answer.returncode == 1 and "is trystd running" in answer.stderr


def test_the_log_can_be_dumped(node, receiver):
    node.create(receiver.uri, 3600)
    assert "stop it first" in tryst(node, "log", "check", node.data_dir).stderr
    node.stop()
    assert tryst(node, "log", "check", node.data_dir).stdout.startswith("sound")
    dump = tryst(node, "log", "dump", node.data_dir).stdout
    assert " record " in dump and receiver.uri in dump and "clean stop" in dump


def test_many_idle_connections(nodes):
    node = nodes().start()
    count = int(os.environ.get("TRYST_IDLE", "2000"))
    streams = []
    for _ in range(count):
        streams.append(socket.create_connection(("127.0.0.1", node.port)))
    start = time.monotonic()
    assert node.get("/ping").status == 200 and time.monotonic() - start < 2
    assert node.metrics()["tryst_connections"] >= count
    for stream in streams:
        stream.close()
    wait_for(lambda: node.metrics()["tryst_connections"] < 10)
