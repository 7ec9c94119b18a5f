"""A program of a user's own, which links troupe::refused_threads, where the system refuses threads: one that is refused
for a moment changes nothing, and where all are refused the program ends and says why. Run by ctest:

    refused_threads_test.py STORY THREAD_FAULTS

THREAD_FAULTS is the library of tests/support/thread_faults.cpp.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

PATIENCE = 100  # seconds, which only a hang reaches
WHOLE = "exit code 0; tickets that nobody redeemed: 0"


def complaint(story, faults, nth, count, refused):
    """What is wrong; nothing when it is as it should be."""
    run = subprocess.run([story], capture_output=True, text=True, timeout=PATIENCE, check=False,
                         env={**os.environ, "LD_PRELOAD": faults, "TROUPE_TEST_THREAD_FAULT": f"{nth} {count} {refused}"})
    out = run.stdout + run.stderr
    if run.returncode == 0 and WHOLE in run.stdout:
        return None
    told = "cannot start the thread" in out and "Resource temporarily unavailable" in out
    # A library's ends the program; one of Troupe's own the run, or, before it, by an exception that nobody catches.
    if count > 1 and (told and run.returncode in (2, -signal.SIGABRT)
                      or run.returncode == 0 and "exit code 2" in run.stdout):
        return None
    return f"{count} threads refused from number {nth} on: ended with {run.returncode}\n{out}"


def main(story, faults):
    with tempfile.TemporaryDirectory() as folder:
        refused = pathlib.Path(folder) / "refused"
        for count, step in ((1, 1), (1_000_000, 4)):
            for nth in range(1, 200, step):
                wrong = complaint(story, faults, nth, count, refused)
                if wrong or not refused.exists():
                    break
                refused.unlink()
            if wrong or nth < 5:
                print(wrong or f"it started {nth - 1} threads, so this test finds nothing")
                return 1
            print(f"{nth - 1} threads, {count} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
