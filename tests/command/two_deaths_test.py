"""Two processes die that are not each other's keepers: the newest state is there all the same. Run by ctest.

    two_deaths_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp, preloaded so that a process that is started waits for as long
as a file exists. The runs have no end of their own, and nobody is suspected: nothing here depends on how fast a machine is.
"""

import atexit
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
    """A run of four processes, and two of them of which neither keeps the other's states, by what the run has told."""
    one = job(folder, *ENDLESS, "--suspicion-seconds", 100, processes=PROCESSES, environment=environment)
    one.reaches(10)
    told = re.findall(r"the states of process (\d+)'s ranks \(host '.*'\) are kept in process (\d+) ", one.out.read_text())
    keeper = {int(process): int(of) for process, of in told}
    apart = [(x, y) for x, y in itertools.combinations(keeper, 2) if keeper[x] != y and keeper[y] != x]
    if len(keeper) != PROCESSES or not apart:
        raise one.fails(f"it tells of the keepers {keeper}")
    return one, apart[0]


def require_newest_kept(folder, one, survivors, what):
    one.reaches(one.steps()[-1]["iteration"] + 5)
    then = {x["name"]: x for x in one.processes()}
    if not all(x["name"] in then and is_same(then[x["name"]], x) for x in survivors):
        raise one.fails(f"{what}: those that lived were {survivors}, and all are {then}")
    one.process.terminate()
    one.ends()
    require_same(one, judge(folder, *ENDLESS, "--exit-interval", one.steps()[-1]["iteration"]), what)
    restarts = one.restarts()
    if not restarts or any(x["state_from"] != "keeper" or x["iteration"] - x["resumed_from"] > 2 for x in restarts):
        raise one.fails(f"{what}: more than two steps ran again, or the state was not a keeper's: {restarts}")
    if "as another process kept it" not in one.out.read_text():
        raise one.fails(f"{what}: it is not said where the state came from")


def divided(one, lost):
    """Those that live on, and those that are to die; of one look, as each takes time."""
    found = one.until("all are seen", lambda: len(x := one.processes()) == PROCESSES and sorted(x, key=lambda y: y["ranks"]))
    return [found[x] for x in range(PROCESSES) if x not in lost], [found[x] for x in lost]


def check_at_once(folder):
    """They are killed at the same moment: nobody acts on the death of the first before the second."""
    one, lost = started(folder)
    survivors, dead = divided(one, lost)
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for at in dead:
            os.kill(at["pid"], how)
    for number, at in zip(lost, dead):
        replaced(one, number, at)
    require_newest_kept(folder, one, survivors, "two deaths at once")


def is_coming(one, number, after):
    """Whether somebody is started in that place as a later incarnation."""
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
    """The second one is killed while another one is started in the place of the first, and stands nowhere yet: as long as
    the gate is there, nobody who is started reads which run it belongs to."""
    record, gate = folder / f"job-{len(JOBS)}" / "run" / "run.json", folder / "gate"
    one, lost = started(folder, {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{record} 1 0 1000000000 read {gate}"})
    if one.run != record.parent:
        raise one.fails(f"its folder is {one.run}, and not {record.parent}")
    survivors, (first, second) = divided(one, lost)
    gate.touch()
    os.kill(first["pid"], signal.SIGKILL)
    one.until("another one is started", lambda: is_coming(one, lost[0], first["incarnation"]))
    os.kill(second["pid"], signal.SIGKILL)
    one.until("its death is known", lambda: f"process {second['pid']}, has ended" in one.text())
    stood = re.findall(r"\(incarnation (\d+)\) stands", (one.run / "logs" / f"node-{lost[0]}.log").read_text())
    if int(stood[-1]) != first["incarnation"]:
        raise one.fails(f"incarnations {stood} of process {lost[0]} have stood, and the last was to wait")
    gate.unlink()
    for number, at in zip(lost, (first, second)):
        replaced(one, number, at)
    require_newest_kept(folder, one, survivors, "a death during the recovery from another")


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    FAULTS = sys.argv.pop(2)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
