"""`--save` on a disk that is read-only or slow: training continues, and only durable checkpoints count as saved. Also
the syncing of the ledger. Run by ctest.

    disks_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp. Preloaded, it delays or fails chosen calls while a file
exists, so the tests do not depend on the machine's speed.
"""

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
    """Environment in which those calls below a folder fail or wait while the gate exists."""
    return {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{below} 1 {error} 1000000000 {calls} {gate}"}


def visible(save):
    return sorted(int(x.name.removeprefix("iter_")) for x in save.glob("iter_*"))


def saved(one):
    """Iterations with complete checkpoints. A checkpoint becomes visible slightly earlier, before its folder is
    synced."""
    text = (one.run / "ledger.jsonl").read_text()
    lines = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
    return [x["saved"] for x in lines if "saved" in x]


def ends_here(one, wanted, what, code=0):
    """Ends the run by SIGTERM and checks its steps so far."""
    one.process.terminate()
    one.ends(code)
    require_same(one, wanted, what, until=len(one.steps()))


def check_read_only(folder):
    """Training continues when the disk becomes read-only, and the exit code reports it. A disk that recovers is used
    again."""
    wanted = judge(folder)
    for comes_back in (True, False):
        save, gate = folder / f"save-{comes_back}", folder / f"gate-{comes_back}"
        one = job(folder, *LONG, "--save", save, "--save-interval", 5, environment=planted(save, EROFS, CHANGES, gate))
        one.until("a checkpoint", lambda: visible(save))
        gate.touch()
        one.until("a refusal", lambda: "training continues" in one.out.read_text())
        one.reaches(one.steps()[-1]["iteration"] + 10)
        if comes_back:
            gate.unlink()
        ends_here(one, wanted, f"a disk that becomes read-only, comes back: {comes_back}", 0 if comes_back else 2)
        works("checkpoint", "verify", save)
        if comes_back and visible(save)[-1] != one.steps()[-1]["iteration"]:
            raise one.fails("the last iteration is not saved")
        if "Read-only file system" not in one.text():
            raise one.fails("the error of the disk is not reported")


def check_slow(folder):
    """While the disk does not answer, training continues until the next save is due and waits there. Later both are
    complete."""
    wanted, every = judge(folder), 5
    save, gate = folder / "save", folder / "gate"
    one = job(folder, *LONG, "--save", save, "--save-interval", every, environment=planted(save, 0, "fsync", gate))
    one.until("a checkpoint", lambda: visible(save))
    gate.touch()

    def waits():
        """Returns the newest step, at which a save is due, if training waits there for the previous save."""
        newest = one.steps()[-1]["iteration"]
        held = lambda: newest % every == 0 and newest - every not in saved(one)  # noqa: E731
        if not held():
            return None
        time.sleep(3 * max(x["elapsed_ms"] for x in one.steps()) / 1000)  # long enough for another step
        return newest if held() and one.steps()[-1]["iteration"] == newest else None

    newest = one.until("training waits", waits)
    before = newest - 2 * every
    if saved(one) != [*range(every, before + 1, every)]:
        raise one.fails(f"at iteration {newest}, saved: {saved(one)}")
    gate.unlink()
    one.until("both are saved", lambda: {newest - every, newest} <= set(saved(one)))
    one.reaches(newest + every)
    ends_here(one, wanted, "a disk that was slow")
    if visible(save) != [*range(every, newest + 1, every), *(x for x in visible(save) if x > newest)]:
        raise one.fails(f"saved: {visible(save)}")
    for iteration in (newest - every, newest):
        works("checkpoint", "verify", save / f"iter_{iteration:07}")
    if "is not saved" in one.out.read_text() or one.restarts():
        raise one.fails("a slow disk counts as a failed write or as a death")


def check_silent(folder):
    """A writer that waits for the disk for four suspicion timeouts is replaced, and the save is repeated."""
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
        raise one.fails("no reason is given for the replaced writer")


def check_ledger_synced(folder):
    """When a checkpoint is complete, the ledger with that fact is synced. The first process to do so stops in that
    call."""
    wanted = judge(folder)
    run = folder / f"job-{len(JOBS)}" / "run"
    stops = {"LD_PRELOAD": FAULTS, "TROUPE_TEST_DISK_FAULT": f"{run} 1 {-signal.SIGSTOP} 1 fdatasync"}
    one = job(folder, *LONG, "--save", folder / "save", "--save-interval", 20, "--suspicion-seconds", 100,
              environment=stops)
    if one.run != run:
        raise one.fails(f"the run's folder is {one.run}, expected {run}")
    one.reaches(1)
    at = one.deciding()["pid"]
    one.until("the ledger is synced", lambda: is_stopped(at))
    complete, seen = saved(one), visible(folder / "save")
    os.kill(at, signal.SIGCONT)
    if complete != [20] or seen != [20]:
        raise one.fails(f"when the ledger is synced, it has {complete} as saved, and {seen} are visible")
    one.reaches(30)
    ends_here(one, wanted, "a ledger that was synced")


def check_read_only_at_first(folder):
    """A disk that is read-only at the start is refused before the run."""
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
    FAULTS = sys.argv.pop(2)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
