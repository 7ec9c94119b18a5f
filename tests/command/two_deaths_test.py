"""Two processes die that are not each other's keepers: the newest state is there all the same. Run by ctest.

    two_deaths_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import itertools
import os
import pathlib
import re
import signal
import sys

import cli_test
from processes_test import JOBS, LONG, is_gone, is_same, is_stopped, job, judge, replaced

PROCESSES = 4


def started(folder):
    """A run of four processes, and two of them of which neither keeps the other's states, by what the run has told."""
    one = job(folder, *LONG, "--max-restarts", 20, processes=PROCESSES)
    one.reaches(10)
    told = re.findall(r"the states of process (\d+)'s ranks \(host '.*'\) are kept in process (\d+) ", one.out.read_text())
    keeper = {int(process): int(of) for process, of in told}
    apart = [(x, y) for x, y in itertools.combinations(keeper, 2) if keeper[x] != y and keeper[y] != x]
    if len(keeper) != PROCESSES or not apart:
        raise one.fails(f"it tells of the keepers {keeper}")
    return one, apart[0]


def require_newest_kept(one, wanted, survivors, what):
    one.reaches(one.steps()[-1]["iteration"] + 5)
    then = {x["name"]: x for x in one.processes()}
    if not all(x["name"] in then and is_same(then[x["name"]], x) for x in survivors):
        raise one.fails(f"{what}: those that lived were {survivors}, and all are {then}")
    one.goes_on(wanted, what)
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
    wanted = judge(folder)
    one, lost = started(folder)
    survivors, dead = divided(one, lost)
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for at in dead:
            os.kill(at["pid"], how)
    for number, at in zip(lost, dead):
        replaced(one, number, at)
    require_newest_kept(one, wanted, survivors, "two deaths at once")


def coming(one, number):
    """Who is started in the place of that process and has not taken part in the run yet, stopped there; None: nobody any more."""
    def find():
        for pid in one.left():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"incarnation" in words and words[words.index(b"process") + 1] == b"%d" % number:
                incarnation = int(words[words.index(b"incarnation") + 1])
                if incarnation > started_before:
                    return pid, incarnation
        return None
    log = one.run / "logs" / f"node-{number}.log"
    at, = one.until("it is seen", lambda: [x for x in one.processes() if x["name"] == f"node-{number}"])
    started_before = max(map(int, re.findall(r"\(incarnation (\d+)\) stands", log.read_text())))
    os.kill(at["pid"], signal.SIGKILL)
    pid, incarnation = one.until("another one is started", find)
    os.kill(pid, signal.SIGSTOP)
    one.until("it has stopped", lambda: is_stopped(pid) or is_gone(pid))
    if f"(incarnation {incarnation}) stands" in log.read_text():
        os.kill(pid, signal.SIGCONT)
        return None
    return pid


def check_during_recovery(folder):
    """The second one is killed while another one is started in the place of the first, and stands nowhere yet."""
    wanted = judge(folder)
    one, lost = started(folder)
    first, second = lost
    survivors, (_, dead) = divided(one, lost)
    for _ in range(5):  # who stands so soon is killed once more
        if pid := coming(one, first):
            break
        one.reaches(one.steps()[-1]["iteration"] + 5)
    else:
        raise one.fails("whoever was started stood before it was seen")
    os.kill(dead["pid"], signal.SIGKILL)
    one.until("its death is known", lambda: f"process {dead['pid']}, has ended" in one.text())
    os.kill(pid, signal.SIGCONT)
    replaced(one, second, dead)
    require_newest_kept(one, wanted, survivors, "a death during the recovery from another")


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
