"""Checks that each test has the label of one room of `tests/run.sh --room` and of one tier (tests/tiers.cmake).
Run by ctest: labels_test.py ROOT BUILD_FOLDER CTEST"""

import json
import pathlib
import re
import subprocess
import sys


TIERS = ["change", "full"]


def rooms_of(root):
    """The rooms in run.sh's error for an unknown room."""
    said = subprocess.run(["bash", root / "tests/run.sh", "--room", "nonsense"],
                          capture_output=True, text=True)
    listed = re.search(r"no room 'nonsense' of tests; there are: (.*)", said.stderr)
    if said.returncode != 2 or not listed:
        raise SystemExit(f"tests/run.sh --room nonsense: ended with {said.returncode}, said\n{said.stderr}")
    return listed.group(1).split()


def tests_of(ctest, build):
    out = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"],
                         capture_output=True, text=True, check=True).stdout
    for test in json.loads(out)["tests"]:
        labels = [x["value"] for x in test.get("properties", []) if x["name"] == "LABELS"]
        yield test["name"], labels[0] if labels else []


def complaints(root, tests, rooms):
    used = set()
    for name, labels in tests:
        used.update(labels)
        if len([x for x in labels if x in rooms]) != 1:
            yield f"{name}: its labels {labels} do not name exactly one room of tests/run.sh"
        if len([x for x in labels if x in TIERS]) != 1:
            yield f"{name}: its labels {labels} do not name exactly one tier of {TIERS}"
        if unknown := [x for x in labels if x not in rooms + TIERS]:
            yield f"{name}: has unknown labels {unknown}"
    for tier in TIERS:
        if tier not in used:
            yield f"no test is in the tier '{tier}'"
    for room in rooms:
        if room not in used and any((root / "tests" / room).glob("*_test.py")):
            yield f"no test is in the room '{room}' of tests/run.sh"


def own_faults(root):
    """True if the check misses a planted fault."""
    planted = [("a", []), ("b", ["nowhere", "full"]), ("c", ["kernels", "change"]), ("d", ["kernels"])]
    return len(list(complaints(root / "nothing", planted, ["kernels"]))) != 5


def main():
    root, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if own_faults(root):
        raise SystemExit("labels_test.py does not find its own planted faults")
    tests = list(tests_of(ctest, build))
    if len(tests) < 100:
        raise SystemExit(f"ctest lists only {len(tests)} tests")
    wrong = list(complaints(root, tests, rooms_of(root)))
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
