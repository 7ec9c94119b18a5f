"""Runs a user's program that links troupe::refused_threads while the system refuses threads. One refused thread must
have no effect. If the system refuses all further threads, the program must end and report why. Run by ctest:

    refused_threads_test.py STORY THREAD_FAULTS

THREAD_FAULTS is the library of tests/support/thread_faults.cpp.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

PATIENCE = 100  # timeout in seconds; only a hang reaches it
WHOLE = "exit code 0; open tickets: 0"


def complaint(story, faults, nth, count, refused):
    """Runs the program; returns a complaint, or None."""
    run = subprocess.run([story], capture_output=True, text=True, timeout=PATIENCE, check=False,
                         env={**os.environ, "LD_PRELOAD": faults, "TROUPE_TEST_THREAD_FAULT": f"{nth} {count} {refused}"})
    out = run.stdout + run.stderr
    if run.returncode == 0 and WHOLE in run.stdout:
        return None
    told = "cannot start the thread" in out and "Resource temporarily unavailable" in out
    # A refused thread of a library ends the program. One of Troupe's ends the run, or, before the run, the program by
    # an uncaught exception.
    if count > 1 and (told and run.returncode in (2, -signal.SIGABRT)
                      or run.returncode == 0 and "exit code 2" in run.stdout):
        return None
    return f"{count} threads refused from number {nth} on: exit code {run.returncode}\n{out}"


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
                print(wrong or f"the program started only {nth - 1} threads, too few for this test")
                return 1
            print(f"{nth - 1} threads, {count} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
