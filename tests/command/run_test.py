"""The folder of a run, and the commands that inspect and stop a run from outside. Run by ctest.

    run_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import cli_test
from cli_test import MOCK, SMALL, refuses, works, wrong

LONG = [*SMALL, *MOCK, "--train-iters", 1_000_000, "--eval-iters", 0, "--log-interval", 100]
PATIENCE = 100  # timeout in seconds; only a hang reaches it


def started(*words, **more):
    one = subprocess.Popen([cli_test.PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, **more)
    atexit.register(one.kill)  # a failed check must not leave a run that slows all following tests
    return one


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.02)
    raise wrong(f"not within {PATIENCE} s: {what}")


def status(run):
    return json.loads(works("status", "--run", run, "--json"))


def stepping(run):
    """Waits until the run has committed steps. Returns its status."""
    def look():
        if (run / "run.json").exists():
            now = status(run)
            return now if now["processes"] and now["processes"][0]["step"] > 0 else None
    return until("a step is committed", look)


def check_shown(folder):
    """status shows a live run; stop ends it in order; its folder keeps how it ended."""
    run, save = folder / "run", folder / "save"
    train = started("train", "gpt", *LONG, "--save", save, "--run", run)
    now = stepping(run)
    mine = now["processes"][0]
    stat = pathlib.Path(f"/proc/{train.pid}/stat").read_text()
    wanted = {"pid": train.pid, "start_time": int(stat.rpartition(")")[2].split()[19]), "host": socket.gethostname(),
              "role": "supervisor", "ranks": [0], "incarnation": 1, "generation": 1, "running": True}
    if now["state"] != "running" or {key: mine[key] for key in wanted} != wanted:
        raise wrong(f"status shows {now}")
    until("later steps", lambda: status(run)["processes"][0]["step"] > mine["step"])
    page = works("status", run)  # the folder as a positional argument
    if "running" not in page or not re.search(r"^step +\d+ of \d+, loss [\d.]+, \d+ tokens/s, .* left$", page, re.MULTILINE):
        raise wrong(f"the page of status lacks the state or the progress:\n{page}")
    if run.stat().st_mode & 0o777 != 0o700:
        raise wrong("other users may enter the folder")

    waiting = started("wait", "--run", run, "--lines", 1000)
    line = waiting.stdout.readline()
    if " troupe" not in line:
        raise wrong(f"wait starts with {line!r}")
    if "ended in order" not in works("stop", "--run", run):
        raise wrong("stop does not say that the run has ended")
    out = train.communicate(timeout=PATIENCE)[0]
    shown = line + waiting.communicate(timeout=PATIENCE)[0]
    if train.returncode != 0 or waiting.returncode != 0 or "SIGTERM: finishing iteration" not in out:
        raise wrong(f"train ended with {train.returncode}, wait with {waiting.returncode}:\n{out}")
    if out.splitlines()[-1] != shown.splitlines()[-1] or (run / "logs/supervisor.log").read_text() != out:
        raise wrong(f"wait shows other lines than the run:\n{shown}\n---\n{out}")
    end = status(run)
    if end["state"] != "ended" or end["ended"]["exit_code"] != 0 or end["processes"][0]["running"]:
        raise wrong(f"after its end the status is {end}")
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if end["processes"][0]["step"] != newest:
        raise wrong(f"the last step is {newest}, but the status has {end['processes'][0]}")
    if "ended already" not in works("stop", "--run", run):
        raise wrong("stop does not say that the run had ended already")
    works("wait", "--run", run)
    if "--run" in (save / "config.yaml").read_text() or "\nrun:" in (save / "config.yaml").read_text():
        raise wrong("the kept configuration has the folder of the run")


def check_died(folder):
    """A killed run is shown as died. The next run takes its folder, and a reused pid is not mistaken for it."""
    run = folder / "run"
    train = started("train", "gpt", *LONG, "--run", run)
    stepping(run)
    train.kill()
    train.communicate()
    if (now := status(run))["state"] != "died" or now["processes"][0]["running"]:
        raise wrong(f"a run that was killed is shown as {now}")
    refuses("died", "stop", "--run", run)
    refuses("died", "wait", "--run", run)
    train = started("train", "gpt", *LONG, "--run", run)
    until("the folder is taken", lambda: status(run)["state"] == "running")
    refuses("another run uses it", "train", "gpt", *LONG, "--run", run)
    stepping(run)
    if not (run / "logs.before/supervisor.log").exists():
        raise wrong("the logs of the previous run are gone")
    works("stop", "--run", run)
    train.communicate(timeout=PATIENCE)


def check_ledger(folder):
    """The ledger has commits, repeated steps and saves, during a run and after it; a manipulated ledger is detected."""
    run, save = folder / "run", folder / "save"
    refuses("as the folder of a run", "ledger", "--run", run)
    works("train", "gpt", *SMALL, *MOCK, "--train-iters", 12, "--eval-iters", 1, "--eval-interval", 4, "--save", save,
          "--save-interval", 6, "--run", run, "--recovery", "on", "--plant-death", "stage:0.0@5:updated",
          "--log-file", folder / "log.jsonl")
    if "is in order" not in works("ledger", "--run", run, "--check"):
        raise wrong("the ledger of a run is not in order")
    known = json.loads(works("ledger", "--run", run, "--json", "--check"))
    last = [x for x in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if "state_digest" in x][-1]
    wanted = {"started_at": 0, "committed": 12, "consumed_samples": last["consumed_samples"],
              "state_digest": last["state_digest"], "saved": [6, 12], "validated": [4, 8, 12], "wrong": []}
    if {key: known[key] for key in wanted} != wanted or [x["iteration"] for x in known["restarts"]] != [5]:
        raise wrong(f"the ledger has {known}")
    if "iterations 1 to 12, each once" not in works("ledger", "--run", run):
        raise wrong("the page of the ledger does not say what was committed")
    file = run / "ledger.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    step = next(i for i, x in enumerate(lines) if x.startswith('{"committed"'))
    file.write_text("".join(lines[:step] + lines[step + 1:]))
    out = subprocess.run([cli_test.PROGRAM, "ledger", "--run", run, "--check"], capture_output=True, text=True)
    if out.returncode != 1 or "committed after iteration 0" not in out.stderr or "each once" in out.stdout:
        raise wrong(f"--check of a ledger without a step: exit code {out.returncode}: {out.stderr}")
    file.write_text("".join([*lines, "{}\n"]))
    refuses("is not a record of a ledger", "ledger", "--run", run)
    file.unlink()
    refuses("there is no ledger", "ledger", "--run", run)


def check_ledger_removed(folder):
    """A ledger that is removed during a run is written again from the start. A truncated one causes an error."""
    run = folder / "run"
    file = run / "ledger.jsonl"
    train = started("train", "gpt", *LONG, "--run", run)
    stepping(run)
    first = file.read_text().splitlines()[:3]
    file.unlink()
    until("the ledger exists again", file.exists)
    works("stop", "--run", run)
    out = train.communicate(timeout=PATIENCE)[0]
    if out.count("was removed while the run writes it") != 1:
        raise wrong(f"not exactly one report of the removed ledger:\n{out}")
    if file.read_text().splitlines()[:3] != first:
        raise wrong("the ledger starts differently than before")
    if "is in order" not in works("ledger", "--run", run, "--check"):
        raise wrong("the ledger is not in order")

    run = folder / "cut"
    file = run / "ledger.jsonl"
    train = started("train", "gpt", *LONG, "--run", run)
    stepping(run)
    until("the ledger has lines", lambda: file.stat().st_size > 0)
    os.truncate(file, 0)
    until("more is written", lambda: file.stat().st_size > 0)
    works("stop", "--run", run)
    out = train.communicate(timeout=PATIENCE)[0]
    if out.count("was made shorter while the run writes it") != 1 or train.returncode != 0:
        raise wrong(f"not exactly one report of the truncated ledger:\n{out}")
    code, page, err = cli_test.run("ledger", "--run", run, "--check")
    if code != 1 or "the beginning is missing" not in err or "earlier records are missing" not in page:
        raise wrong(f"a ledger without its beginning: {code}\n{page}\n{err}")


def check_stopped_twice(folder):
    """Two concurrent stop commands send one signal: a second would end the run without saving."""
    run, save = folder / "run", folder / "save"
    train = started("train", "gpt", *LONG, "--save", save, "--run", run)
    stepping(run)
    os.kill(train.pid, signal.SIGSTOP)
    stops = [started("stop", "--run", run) for _ in range(2)]
    lines = {stop.stdout.readline() for stop in stops}
    if lines != {"asked the run to end; it finishes its step and saves\n",
                 "the run was asked to end before; waiting for it\n"}:
        raise wrong(f"two stop commands print {lines}")
    os.kill(train.pid, signal.SIGCONT)
    ends = [x.wait(timeout=PATIENCE) for x in [train, *stops]]
    for process in [train, *stops]:
        process.stdout.close()
    if ends != [0, 0, 0] or not (save / "latest_checkpointed_iteration.txt").exists():
        raise wrong(f"exit codes {ends}")


def check_failed(folder):
    """The folder keeps the exit code and the reason of a failed run, as the program reported them."""
    run = folder / "run"
    code, _, err = cli_test.run("train", "gpt", *SMALL, *MOCK, "--run", run, "--plant-fault", "stage:0.0@3")
    end = status(run)["ended"]
    if code == 0 or end["exit_code"] != code or not end["reason"] or end["reason"] not in err:
        raise wrong(f"a failed run ended with {code}, but its folder has {end}:\n{err}")
    done = subprocess.run([cli_test.PROGRAM, "wait", "--run", run], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != end["exit_code"] or end["reason"] not in done.stderr:
        raise wrong(f"wait ended with {done.returncode}: {done.stderr}")
    refuses("--load", "train", "gpt", *SMALL, *MOCK, "--run", run, "--load", folder / "nothing")
    if "--load" not in status(run)["ended"]["reason"]:
        raise wrong(f"the status lacks the refusal: {status(run)}")


def check_default(folder):
    """By default the folder is inside --save, and its errors do not end the run."""
    save = folder / "save"
    works("train", "gpt", *SMALL, *MOCK, "--save", save)
    for named in (save, save / ".run"):
        if status(named)["ended"]["exit_code"] != 0:
            raise wrong(f"{named} does not show how the run ended")
    (folder / "other/.run").mkdir(parents=True, mode=0o755)
    (folder / "other/.run").chmod(0o755)
    done = subprocess.run([cli_test.PROGRAM, "train", "gpt", *map(str, [*SMALL, *MOCK]), "--save", folder / "other"],
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0 or "`troupe status` will not show this run" not in done.stderr:
        raise wrong(f"a default folder that others may enter: {done.returncode}, {done.stderr}")
    refuses("others may enter it", "train", "gpt", *SMALL, *MOCK, "--run", folder / "other/.run")
    refuses("has files and no run.json", "train", "gpt", *SMALL, *MOCK, "--run", private(folder / "data"))
    for command in ("status", "stop", "wait"):
        refuses("the run is missing", command)
        refuses("No such file", command, "--run", folder / "nothing")
        refuses("is not the folder of a run: it has no run.json", command, folder / "other/.run")
    works("train", "gpt", *SMALL, *MOCK, "--dry-run", "--run", folder / "dry")
    if (folder / "dry").exists():
        raise wrong("--dry-run creates the folder of a run")


def private(folder):
    folder.mkdir(mode=0o700)
    (folder / "precious").write_text("x")
    return folder


def ask(connection, **what):
    text = json.dumps({"version": 2, **what}).encode()
    connection.sendall(struct.pack(">I", len(text)) + text)


def told(connection, kind):
    """Waits for an agent's next message of that type."""
    while True:
        length, = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
        x = json.loads(connection.recv(length, socket.MSG_WAITALL))
        if x["type"] == kind:
            return x


def agents_in(run):
    """Sockets of agents; another one is that of the run's hub."""
    return [x.name for x in (run / "sockets").iterdir() if x.name != "hub"]


def connected(run):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    here = os.getcwd()
    os.chdir(run / "sockets")
    # A socket may belong to an agent that has just ended, or does not listen yet.
    until("an agent listens",
          lambda: any(connection.connect_ex(x) == 0 for x in agents_in(pathlib.Path("..").resolve())))
    os.chdir(here)
    return connection


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def check_agent(folder):
    """A host agent through its socket: starts processes, reports, ends with its owner, and leaves nothing."""
    run = folder / "run"
    train = started("train", "gpt", *LONG, "--run", run)
    stepping(run)
    # A shell that leaves a process in another session.
    command = ["/bin/sh", "-c", f"(setsid sleep 1000 & echo $! > {folder}/pid); sleep 1000"]
    for end in ("told", "owner"):
        (folder / "pid").unlink(missing_ok=True)
        agent = started("troupe:agent", "run", run, "patience", 3 if end == "owner" else 600)
        until("the agent listens", lambda: agents_in(run))
        connection = connected(run)
        ask(connection, type="start", request=1, name="node", incarnation=1, command=command, environment=[],
            output="")
        node = told(connection, "started")["pid"]
        until("the process runs", lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
        below = int((folder / "pid").read_text())
        shown = [x for x in status(run)["processes"] if x["role"] == "agent"]
        if len(shown) != 1 or not shown[0]["running"] or not alive(node):
            raise wrong(f"the agent is shown as {shown}")
        if end == "told":
            ask(connection, type="end", request=2)
            told(connection, "ended")
        if end == "owner":
            connection.close()
        agent.communicate(timeout=PATIENCE)
        until(f"nothing is left of an agent ({end})",
              lambda: not any(map(alive, [node, below, shown[0]["pid"]])))
        connection.close()
        if agent.returncode != 0:
            raise wrong(f"the agent ({end}) ended with {agent.returncode}")
        if agents_in(run) or len(status(run)["processes"]) != 1:
            raise wrong(f"an agent ({end}) leaves its socket or entry")
    works("stop", "--run", run)
    train.communicate(timeout=PATIENCE)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
