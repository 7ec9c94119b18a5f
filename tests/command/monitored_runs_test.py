"""`troupe monitor` and `troupe ctl` with real runs: a port, a replaced process, a successor. Run by ctest.

    monitored_runs_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import json
import os
import re
import signal
import subprocess
import sys

import cli_test
from cli_test import refuses, works, wrong
from monitor_test import line_of
from process_runs import LONG as LONG_JOB, job, judge, replaced, require_same, succeeded
from run_test import LONG, PATIENCE, started, stepping


def check_live(folder):
    """A real run: its page, its records, and its end during --json."""
    path = folder / "run"
    train = started("train", "gpt", *LONG, "--run", path)
    stepping(path)
    page = works("monitor", path, "--once")
    if "training" not in page or "loss " not in page:
        raise wrong(f"the page of a live run:\n{page}")
    following = started("monitor", path, "--json")
    first = line_of(following, "the run", lambda _: True)
    if first["kind"] != "run" or first["id"] != json.loads((path / "run.json").read_text())["id"]:
        raise wrong(f"--json begins with {first}")
    line_of(following, "a step", lambda x: x["kind"] == "step")
    train.send_signal(signal.SIGTERM)
    rest = following.communicate(timeout=PATIENCE)[0].splitlines()
    train.communicate(timeout=PATIENCE)
    if following.returncode != 0 or json.loads(rest[-1])["kind"] != "end":
        raise wrong(f"--json ends with {rest[-1:]}: exit code {following.returncode}")


def check_port(folder):
    """A real run with a port: viewers need its token, and TLS where it is open to other hosts."""
    refuses("so it needs TLS", "train", "gpt", *LONG, "--monitor-address", "0.0.0.0:0")
    refuses("--monitor-address HOST:PORT", "train", "gpt", *LONG, "--monitor-certificate", "x.pem")
    key, certificate, pem = folder / "key.pem", folder / "certificate.pem", folder / "hub.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    pem.write_text(certificate.read_text() + key.read_text())
    for more, scheme in [([], ""), (["--monitor-certificate", pem], "https://")]:
        path = folder / f"run{len(more)}"
        train = started("train", "gpt", *LONG, "--run", path, "--monitor-address", "127.0.0.1:0", *more)
        stepping(path)
        log = (path / "logs/supervisor.log").read_text()
        address = re.search(r"viewers reach this run at (\S+), with the token in (\S+)", log)
        if not address or not address[1].startswith(scheme + "127.0.0.1:"):
            raise wrong(f"the log does not name the port:\n{log}")
        ca = ["--ca", certificate] if more else []
        refuses("read.token", "monitor", address[1], "--once", *ca)
        if more:
            refuses("certificate", "monitor", address[1], "--once", "--token-file", address[2])
            refuses("cannot ask the server at http://", "monitor", address[1].replace("https", "http"), "--once",
                    "--token-file", address[2])
        if "training" not in works("monitor", address[1], "--once", "--token-file", address[2], *ca):
            raise wrong("the port does not show the run")
        refuses("control.token", "ctl", "pause", "--at", address[1], "--token-file", address[2], *ca)
        said = works("ctl", "status", "--at", address[1], "--token-file", path / "control.token", *ca)
        if "step" not in said:
            raise wrong(f"ctl status prints {said!r}")
        train.send_signal(signal.SIGTERM)
        train.communicate(timeout=PATIENCE)


def followed(one):
    """`troupe monitor --json` on a job, which reads until the run ends."""
    program = subprocess.Popen([cli_test.PROGRAM, "monitor", str(one.run), "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    atexit.register(program.kill)
    return program


def check_replace(folder):
    """`ctl replace` gives the ranks of a process a new one; viewers see the move, and no bit changes."""
    one = job(folder, *LONG_JOB, "--recovery", "on")
    one.reaches(5)
    following = followed(one)
    line_of(following, "a step", lambda x: x["kind"] == "step")
    old = one.node(1)
    if "process 1 will be replaced" not in works("ctl", "replace", "node-1", "--run", one.run):
        raise one.fails("the answer of replace is another one")
    for state in ["dead", "running"]:
        line_of(following, f"the node that is {state}",
                lambda x: x["kind"] == "member" and x["who"] == "node-1" and x["state"] == state)
    moved = line_of(following, "the move", lambda x: x["kind"] == "event")
    if moved["event"] != "move" or "by a command" not in moved["why"]:
        raise one.fails(f"viewers get {moved}")
    replaced(one, 1, old)
    following.kill()  # a process of the run's folder, which the job must not leave
    following.communicate()
    one.ends()
    require_same(one, judge(folder), "a process that a command replaced")


def check_successor(folder):
    """A supervisor's process that is killed: viewers follow its successor, which continues under the commands."""
    one = job(folder, *LONG_JOB, "--recovery", "on")
    one.reaches(5)
    following = followed(one)
    first = line_of(following, "the run", lambda x: x["kind"] == "run")
    works("ctl", "learning-rate", "5e-5", "--run", one.run)
    command = line_of(following, "the command", lambda x: x["kind"] == "command")
    old = one.deciding()
    os.kill(old["pid"], signal.SIGKILL)
    second = line_of(following, "the successor", lambda x: x["kind"] == "run")
    if second["id"] != first["id"] or second["epoch"] == first["epoch"]:
        raise one.fails(f"the successor is {second}, the first process was {first}")
    again = line_of(following, "the command again", lambda x: x["kind"] == "command")
    if (again["name"], again["step"]) != ("learning_rate", command["step"]):
        raise one.fails(f"the successor tells {again}, the first process told {command}")
    line_of(following, "a step of the successor", lambda x: x["kind"] == "step" and x["iteration"] > command["step"])
    succeeded(one, old)
    following.kill()  # a process of the run's folder, which the job must not leave
    following.communicate()
    one.ends()
    # The ledger has the command once, and each step from its number on has its learning rate.
    ledger = json.loads(works("ledger", "--run", one.run, "--json"))
    if [x["command"]["command"] for x in ledger["commands"]] != ["learning_rate"]:
        raise one.fails(f"the ledger has {ledger['commands']}")
    rates = {x["iteration"]: x["learning_rate"] for x in one.steps()}
    if abs(rates[command["step"]] / 5e-5 - 1) > 1e-6 or rates[command["step"] - 1] < 6e-5:
        raise one.fails(f"the learning rates are {rates}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
