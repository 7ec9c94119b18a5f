"""Every test is in a room that `tests/run.sh --room` selects, and no other word is taken for one.
Run by ctest, with the root, the build folder and ctest itself."""

import json
import pathlib
import re
import subprocess
import sys


def rooms_of(root):
    """What run.sh knows, by what it says to a word that is none."""
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
        if name.endswith("_NOT_BUILT"):  # a program whose tests cannot be listed yet
            continue
        used.update(labels)
        if not labels:
            yield f"{name}: is in no room: no --room selects it"
        for label in labels:
            if label not in rooms:
                yield f"{name}: its room '{label}' is not one that tests/run.sh knows"
    # What is not built lists nothing, so only folders of scripts and programs that are there count.
    for room in rooms:
        if room not in used and any((root / "tests" / room).glob("*_test.py")):
            yield f"tests/run.sh knows the room '{room}', in which no test is"


def own_faults(root):
    """That it would find what it looks for."""
    planted = [("a", []), ("b", ["nowhere"]), ("c", ["kernels"]), ("d_NOT_BUILT", [])]
    return len(list(complaints(root / "nothing", planted, ["kernels"]))) != 2


def main():
    root, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if own_faults(root):
        raise SystemExit("labels_test.py does not find what is planted")
    tests = list(tests_of(ctest, build))
    if len(tests) < 100:
        raise SystemExit(f"ctest lists only {len(tests)} tests")
    wrong = list(complaints(root, tests, rooms_of(root)))
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
