"""`troupe simulate`: seeds hold, and each seed gives the same trace each time. Run by ctest.

    simulate_test.py PROGRAM NAME...   runs the named checks, or all
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import cli_test
from cli_test import refuses, works, wrong


def simulate(*words):
    done = subprocess.run([cli_test.PROGRAM, "simulate", *map(str, words)], capture_output=True, text=True, timeout=250)
    return done.returncode, done.stdout, done.stderr


def check_seeds(folder):
    code, out, err = simulate("--seeds", "1-80", "--jobs", 2)
    if code != 0 or not out.startswith("seeds 1 to 80 hold: ") or err:
        raise wrong(f"80 seeds: {code}\n{out}{err}")
    alone = simulate("--seeds", "1-80", "--jobs", 1)
    if alone != (code, out, err):
        raise wrong(f"one process differs from two: {alone}")


def check_trace(folder):
    texts = []
    for name in "ab":
        page = works("simulate", "--seed", 7, "--trace", folder / name)
        if "seed 7 holds: " not in page:
            raise wrong(f"seed 7: {page}")
        texts.append((folder / name).read_bytes())
    if texts[0] != texts[1] or not texts[0].startswith(b"# seed 7\n") or texts[0].count(b"\n") < 100:
        raise wrong("a seed does not give the same trace twice, or no trace")


def scratch_folders():
    homes = [home for home in (pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir())) if home.is_dir()]
    return {path for home in homes for path in home.glob("troupe-simulate-*")}


def check_killed(folder):
    """A search removes the folders of killed searches, and leaves those of running ones."""
    search = subprocess.Popen([cli_test.PROGRAM, "simulate", "--seeds", "1-1000000", "--jobs", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ours = lambda: [path for path in scratch_folders() if path.name == f"troupe-simulate-{search.pid}"]
    try:
        until = time.monotonic() + 60
        while not ours() and time.monotonic() < until:
            time.sleep(0.01)
        if not ours():
            raise wrong("the search has no folder")
        works("simulate", "--seed", 1)
        if not ours():
            raise wrong("the folder of a running search was removed")
    finally:
        search.kill()
        search.wait()
    works("simulate", "--seed", 1)
    if ours():
        raise wrong(f"the folder of a killed search remains: {ours()}")


def check_words(folder):
    refuses("No space left on device", "simulate", "--seed", 3, "--trace", "/dev/full")
    refuses("give it with --seed", "simulate", "--trace", folder / "t")
    for word in ["0-3", "5-4", "x", "1-", "1-2-3", "-3", "1-99999999999999999999"]:
        refuses("--seeds", "simulate", f"--seeds={word}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
