"""`--save` on a disk that can only be read, or is slow: training goes on, and what is not durable is not called saved.
What is synced beside it. Run by ctest.

    disks_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp, preloaded so that chosen calls wait for as long as a file
exists: nothing here depends on how fast a machine is.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import refuses, works
from process_runs import JOB, JOBS, LONG, PIPELINE, is_stopped, job, judge, require_same

FAULTS = None
EROFS = 30
CHANGES = "open,write,fsync,rename,unlink,rmdir,mkdir,ftruncate"


def planted(below, error, calls, gate):
    """Those are struck as long as the gate stands."""
    return {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{below} 1 {error} 1000000000 {calls} {gate}"}


def visible(save):
    return sorted(int(x.name.removeprefix("iter_")) for x in save.glob("iter_*"))


def saved(one):
    """The iterations whose checkpoints are complete. One is visible a moment before: its folder is synced after that."""
    text = (one.run / "ledger.jsonl").read_text()
    lines = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
    return [x["saved"] for x in lines if "saved" in x]


def ends_here(one, wanted, what, code=0):
    """Asked to, with what it has saved by then."""
    one.process.terminate()
    one.ends(code)
    require_same(one, wanted, what, until=len(one.steps()))


def check_read_only(folder):
    """When it can only be read later training goes on, and the exit code tells; when it can be written again it is used
    again."""
    wanted = judge(folder)
    for comes_back in (True, False):
        save, gate = folder / f"save-{comes_back}", folder / f"gate-{comes_back}"
        one = job(folder, *LONG, "--save", save, "--save-interval", 5, environment=planted(save, EROFS, CHANGES, gate))
        one.until("a checkpoint", lambda: visible(save))
        gate.touch()
        one.until("a refusal", lambda: "training goes on" in one.out.read_text())
        one.reaches(one.steps()[-1]["iteration"] + 10)
        if comes_back:
            gate.unlink()
        ends_here(one, wanted, f"a disk that becomes read-only, comes back: {comes_back}", 0 if comes_back else 2)
        works("checkpoint", "verify", save)
        if comes_back and visible(save)[-1] != one.steps()[-1]["iteration"]:
            raise one.fails("the last iteration is not saved")
        if "Read-only file system" not in one.text():
            raise one.fails("it is not said what the disk said")


def check_slow(folder):
    """While it does not answer training goes on until the next save is due, and waits for it; then both are complete."""
    wanted, every = judge(folder), 5
    save, gate = folder / "save", folder / "gate"
    one = job(folder, *LONG, "--save", save, "--save-interval", every, environment=planted(save, 0, "fsync", gate))
    one.until("a checkpoint", lambda: visible(save))
    gate.touch()

    def waits():
        """The newest step, at which a save is due, while the one before is under way."""
        newest = one.steps()[-1]["iteration"]
        held = lambda: newest % every == 0 and newest - every not in saved(one)  # noqa: E731
        if not held():
            return None
        time.sleep(3 * max(x["elapsed_ms"] for x in one.steps()) / 1000)  # by then it would have committed another step
        return newest if held() and one.steps()[-1]["iteration"] == newest else None

    newest = one.until("training waits", waits)
    before = newest - 2 * every
    if saved(one) != [*range(every, before + 1, every)]:
        raise one.fails(f"at iteration {newest} it has saved {saved(one)}")
    gate.unlink()
    one.until("both are saved", lambda: {newest - every, newest} <= set(saved(one)))
    one.reaches(newest + every)
    ends_here(one, wanted, "a disk that was slow")
    if visible(save) != [*range(every, newest + 1, every), *(x for x in visible(save) if x > newest)]:
        raise one.fails(f"it has saved {visible(save)}")
    for iteration in (newest - every, newest):
        works("checkpoint", "verify", save / f"iter_{iteration:07}")
    if "is not saved" in one.out.read_text() or one.restarts():
        raise one.fails("a slow disk is taken for one that refuses, or for a death")


def check_silent(folder):
    """A writer for which it does not answer for four suspicions is replaced, and the save is tried again."""
    wanted = judge(folder)
    save, gate = folder / "save", folder / "gate"
    one = job(folder, *LONG, "--save", save, "--save-interval", 5, "--suspicion-seconds", 3,
              environment=planted(save, 0, "fsync", gate))
    one.until("a checkpoint", lambda: visible(save))
    gate.touch()
    one.until("a writer is replaced", lambda: [x for x in one.records() if x.get("event") == "replaced"
                                               and x["who"].startswith("shard_writer")])
    held = visible(save)
    gate.unlink()
    one.until("it is saved again", lambda: visible(save)[-1] > held[-1])
    ends_here(one, wanted, "a disk that did not answer for long")
    if visible(save)[-1] != one.steps()[-1]["iteration"]:
        raise one.fails("the last iteration is not saved")
    works("checkpoint", "verify", save)
    if "shown no progress" not in one.out.read_text():
        raise one.fails("it is not said why a writer was replaced")


def check_ledger_synced(folder):
    """When a checkpoint is complete the ledger is synced that says so. Who does that stops in that call, once."""
    wanted = judge(folder)
    run = folder / f"job-{len(JOBS)}" / "run"
    stops = {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{run} 1 {-signal.SIGSTOP} 1 fdatasync"}
    one = job(folder, *LONG, "--save", folder / "save", "--save-interval", 20, "--suspicion-seconds", 100,
              environment=stops)
    if one.run != run:
        raise one.fails(f"its folder is {one.run}, and not {run}")
    one.reaches(1)
    at = one.deciding()["pid"]
    one.until("the ledger is synced", lambda: is_stopped(at))
    complete, seen = saved(one), visible(folder / "save")
    os.kill(at, signal.SIGCONT)
    if complete != [20] or seen != [20]:
        raise one.fails(f"the ledger is synced when it says that {complete} are saved, and these are visible: {seen}")
    one.reaches(30)
    ends_here(one, wanted, "a ledger that was synced")


def check_read_only_at_first(folder):
    """It is refused before the run."""
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk], capture_output=True).returncode != 0:
        print("skipped: no mount is allowed here")
        sys.exit(77)
    try:
        refuses("Read-only file system", *JOB, *PIPELINE, "--processes", 2, "--train-iters", 4, "--save", disk)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    FAULTS = sys.argv.pop(2)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
