"""`troupe simulate`: seeds hold, and each seed gives the same trace each time. Run by ctest.

    simulate_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import pathlib
import re
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


def check_size(folder):
    page = works("simulate", "--workers", 64, 128, "--kill", "process")
    for part in ("64 workers in 8 processes on 8 hosts: TP 8, PP 8, DP 1", "128 workers in 16 processes",
                 "states from: keeper"):
        if part not in page:
            raise wrong(f"the page lacks '{part}':\n{page}")
    if not re.search(r"replica: most messages of one +0\.00\n", page):
        raise wrong(f"the messages of a replica grow with the cluster:\n{page}")
    if "2 workers in 2 processes" not in works("simulate", "--workers", 2):
        raise wrong("the smallest cluster does not have two processes")
    found = json.loads(works("simulate", "--workers", 64, 128, "--json"))
    if [x["workers"] for x in found["runs"]] != [64, 128] or found["latency_s"] <= 0 or found["handling_s"] <= 0:
        raise wrong(f"JSON: {found}")
    exponents = {x["figure"]: x["exponent"] for x in found["growth"]}
    supervisor, stage = (exponents[f"{x}: most messages of one"] for x in ("supervisor", "stage"))
    if abs(supervisor - 1) > 0.1 or abs(stage) > 0.01:
        raise wrong(f"growth: {exponents}")


def check_size_refused(folder):
    refuses("leave out --seeds, --seed", "simulate", "--workers", 64, "--seed", 1)
    refuses("give --workers", "simulate", "--kill", "rack")
    refuses("a rack of 16 hosts", "simulate", "--workers", 64, "--kill", "rack")
    refuses("64 workers in 100 processes", "simulate", "--workers", 64, "--processes", 100)
    refuses("--workers", "simulate", "--workers", 1)


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
