"""`--save` on a disk that is slow, or can only be read: training goes on, and what is not durable is not called saved.
Run by ctest.

    disks_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp, preloaded so that chosen calls wait for as long as a file
exists: nothing here depends on how fast a machine is.
"""

import atexit
import pathlib
import subprocess
import sys

import cli_test
from cli_test import refuses, works
from processes_test import JOB, JOBS, LONG, PIPELINE, job, judge, require_same

FAULTS = None
MANY = 1_000_000_000


def partial(save):
    """Folders in which a checkpoint is being written."""
    return [x for x in save.glob(".*") if x.name.endswith(".partial")]


def visible(save):
    return sorted(int(x.name.removeprefix("iter_")) for x in save.glob("iter_*"))


def memory(one):
    """Of all its processes that host ranks, resident, in bytes."""
    return sum(int(line.split()[1]) << 10 for x in one.processes()
               for line in pathlib.Path(f"/proc/{x['pid']}/status").read_text().splitlines() if line.startswith("VmRSS"))


def ends_here(one, wanted, what, code=0):
    """Asked to, with what it has saved by then."""
    one.process.terminate()
    one.ends(code)
    require_same(one, wanted, what, until=len(one.steps()))


def check_slow(folder):
    """What is written does not get to the disk: one save is under way, however many are due, nothing is told as saved,
    memory stays, and training goes on. When the disk does its work the newest state is saved, once."""
    wanted = judge(folder)
    for calls in ("fsync", "write"):
        save, gate = folder / f"save-{calls}", folder / f"gate-{calls}"
        save.mkdir()
        gate.touch()
        one = job(folder, *LONG, "--save", save, "--save-interval", 5,
                  environment={"LD_PRELOAD": FAULTS, "ASAN_OPTIONS": "verify_asan_link_order=0",
                               "TROUPE_TEST_DISK_FAULT": f"{save} 1 0 {MANY} {calls} {gate}"})
        one.until("a save has begun", lambda: partial(save))
        one.reaches(one.steps()[-1]["iteration"] + 10)
        before = memory(one)
        one.reaches(one.steps()[-1]["iteration"] + 60)  # twelve more are due
        after = memory(one)
        if len(partial(save)) != 1 or visible(save):
            raise one.fails(f"with a disk that hangs in {calls} there are {sorted(save.iterdir())}")
        if after > before + (8 << 20):
            raise one.fails(f"a slow disk costs memory: {before} bytes, later {after}")
        if "saved" in [x.get("kind") for x in one.records()]:
            raise one.fails("it tells of a checkpoint that is not durable")
        gate.unlink()
        ends_here(one, wanted, f"a disk that is slow in {calls}")
        works("checkpoint", "verify", save)
        if visible(save)[-1] != one.steps()[-1]["iteration"] or partial(save):
            raise one.fails(f"afterwards there are {sorted(save.iterdir())}")


class read_only_disk:
    """A folder on a disk of its own, which can be made read-only."""

    def __init__(self, folder):
        self.at = folder
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode != 0:
            print("skipped: no mount is allowed here")
            sys.exit(77)
        atexit.register(self.remove)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        subprocess.run(["umount", "--lazy", self.at], capture_output=True)

    def remount(self, how):
        """Whether it is; not while somebody writes there."""
        return subprocess.run(["mount", "-o", f"remount,{how}", self.at], capture_output=True).returncode == 0


def check_read_only(folder):
    """Read-only from the start it is refused before the run; when it becomes so later training goes on, and the exit code
    tells; when it can be written again it is used again."""
    wanted = judge(folder)
    with read_only_disk(folder / "disk") as disk:
        save = disk.at / "save"
        save.mkdir()
        if not disk.remount("ro"):
            raise cli_test.wrong("an empty disk cannot be made read-only")
        refuses("Read-only file system", *JOB, *PIPELINE, "--processes", 2, "--train-iters", 4, "--save", save)
        disk.remount("rw")
        for comes_back in (True, False):
            one = job(folder, *LONG, "--save", save, "--save-interval", 5, "--keep-last", 2)
            one.until("a checkpoint", lambda: visible(save))
            one.until("the disk is read-only", lambda: disk.remount("ro"))
            one.until("a refusal", lambda: "training goes on" in one.out.read_text())
            one.reaches(one.steps()[-1]["iteration"] + 10)
            if comes_back:
                disk.remount("rw")
            ends_here(one, wanted, f"a disk that becomes read-only, comes back: {comes_back}", 0 if comes_back else 2)
            disk.remount("rw")
            works("checkpoint", "verify", save)
            if comes_back and visible(save)[-1] != one.steps()[-1]["iteration"]:
                raise one.fails("the last iteration is not saved")
            if "Read-only file system" not in one.text():
                raise one.fails("it is not said what the disk said")
            save = disk.at / "other"


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    FAULTS = sys.argv.pop(2)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
