"""Checks that a test runs each `check_` function of the Python test scripts, or that another function calls it.
Run by ctest: registered_test.py ROOT BUILD_FOLDER CTEST"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile


def commands_of(ctest, build):
    """The command of each test; a test without a built program has none."""
    out = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"],
                         capture_output=True, text=True, check=True).stdout
    return [test["command"] for test in json.loads(out)["tests"] if "command" in test]


def complaints(root, commands):
    """A script that is given no name of its checks runs all of them."""
    for path in sorted((root / "tests").rglob("*_test.py")):
        text = path.read_text()
        checks = set(re.findall(r"^(?:def )?check_(\w+)(?:\(| = )", text, re.MULTILINE))
        given = [set(command) for command in commands if str(path) in command]
        if any(not words & checks for words in given):
            continue
        for name in sorted(checks.difference(*given)):
            if len(re.findall(rf"\bcheck_{name}\b", text)) == 1:
                yield f"{path.relative_to(root)}: no test runs check_{name}"


def own_faults(root):
    """True if the check misses a planted fault."""
    (root / "tests").mkdir()
    script = root / "tests/a_test.py"
    script.write_text("def check_a(x):\n    check_b(x)\ndef check_b(x):\n    pass\ncheck_c = check_b\n")
    found = [[x.split()[-1] for x in complaints(root, commands)]
             for commands in ([], [["python", str(script), "a"]], [["python", str(script), "a"],
                              ["python", str(script), "c"]], [["python", str(script), "program"]])]
    return found != [["check_a", "check_c"], ["check_c"], [], []]


def main():
    root, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with tempfile.TemporaryDirectory() as folder:
        if own_faults(pathlib.Path(folder)):
            raise SystemExit("registered_test.py does not find its own planted faults")
    commands = commands_of(ctest, build)
    if len(commands) < 100:
        raise SystemExit(f"ctest lists only {len(commands)} tests with a command")
    wrong = list(complaints(root, commands))
    print("\n".join(wrong) or "a test runs each check")
    sys.exit(bool(wrong))


main()
