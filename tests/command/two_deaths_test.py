"""Two processes die that do not keep each other's states, so the newest state survives. Run by ctest.

    two_deaths_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp. Preloaded, it makes a starting process wait while a file
exists. The runs are endless and their suspicion timeout is long, so the tests do not depend on the machine's speed.
"""

import itertools
import os
import pathlib
import re
import signal
import sys

import cli_test
from process_runs import ENDLESS, JOBS, is_same, job, judge, replaced, require_same

FAULTS = None
PROCESSES = 4


def started(folder, environment=None):
    """Starts a run of four processes. Returns it, and two processes that do not keep each other's states, read from
    its log."""
    one = job(folder, *ENDLESS, "--suspicion-seconds", 100, processes=PROCESSES, environment=environment)
    one.reaches(10)
    told = re.findall(r"the states of process (\d+)'s ranks \(host '.*'\) are kept in process (\d+) ", one.out.read_text())
    keeper = {int(process): int(of) for process, of in told}
    apart = [(x, y) for x, y in itertools.combinations(keeper, 2) if keeper[x] != y and keeper[y] != x]
    if len(keeper) != PROCESSES or not apart:
        raise one.fails(f"the log has the keepers {keeper}")
    return one, apart[0]


def require_newest_kept(folder, one, survivors, what):
    one.reaches(one.steps()[-1]["iteration"] + 5)
    then = {x["name"]: x for x in one.processes()}
    if not all(x["name"] in then and is_same(then[x["name"]], x) for x in survivors):
        raise one.fails(f"{what}: survivors were {survivors}, now {then}")
    one.process.terminate()
    one.ends()
    require_same(one, judge(folder, *ENDLESS, "--exit-interval", one.steps()[-1]["iteration"]), what)
    restarts = one.restarts()
    if not restarts or any(x["state_from"] != "keeper" or x["iteration"] - x["resumed_from"] > 2 for x in restarts):
        raise one.fails(f"{what}: more than two repeated steps, or a state not from a keeper: {restarts}")
    if "with a peer's copy of the state" not in one.out.read_text():
        raise one.fails(f"{what}: the source of the state is not reported")


def divided(one, lost):
    """Survivors and victims, from one look at the processes, because each look takes time."""
    found = one.until("all processes are visible", lambda: len(x := one.processes()) == PROCESSES and sorted(x, key=lambda y: y["ranks"]))
    return [found[x] for x in range(PROCESSES) if x not in lost], [found[x] for x in lost]


def check_at_once(folder):
    """Kills both at the same moment: stops them first, so that the run sees both deaths at once."""
    one, lost = started(folder)
    survivors, dead = divided(one, lost)
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for at in dead:
            os.kill(at["pid"], how)
    for number, at in zip(lost, dead):
        replaced(one, number, at)
    require_newest_kept(folder, one, survivors, "two deaths at once")


def is_coming(one, number, after):
    """Whether a later incarnation of that process is starting."""
    for pid in one.left():
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"incarnation" in words and words[words.index(b"process") + 1] == b"%d" % number:
            if int(words[words.index(b"incarnation") + 1]) > after:
                return True
    return False


def check_during_recovery(folder):
    """The second process is killed while the replacement of the first is starting. The replacement cannot read its
    run's record while the gate exists."""
    record, gate = folder / f"job-{len(JOBS)}" / "run" / "run.json", folder / "gate"
    one, lost = started(folder, {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{record} 1 0 1000000000 read {gate}"})
    if one.run != record.parent:
        raise one.fails(f"the run's folder is {one.run}, expected {record.parent}")
    survivors, (first, second) = divided(one, lost)
    gate.touch()
    os.kill(first["pid"], signal.SIGKILL)
    one.until("a replacement is started", lambda: is_coming(one, lost[0], first["incarnation"]))
    os.kill(second["pid"], signal.SIGKILL)
    one.until("the second death is known", lambda: f"process {second['pid']}, has ended" in one.text())
    stood = re.findall(r"\(incarnation (\d+)\) listens", (one.run / "logs" / f"node-{lost[0]}.log").read_text())
    if int(stood[-1]) != first["incarnation"]:
        raise one.fails(f"process {lost[0]} has reached incarnations {stood}, but the last one should wait")
    gate.unlink()
    for number, at in zip(lost, (first, second)):
        replaced(one, number, at)
    require_newest_kept(folder, one, survivors, "a death during the recovery from another")


if __name__ == "__main__":
    FAULTS = sys.argv.pop(2)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
