"""Runs an example and compares its output with the expected output in its source. Run by ctest:

    story.py PROGRAM SOURCE [SECONDS]

Ends it after SECONDS, by default 200. If SOURCE is a script, runs it with PROGRAM as its argument. The script exits
with 77 if it cannot run here.
"""

import difflib
import itertools
import pathlib
import subprocess
import sys

MARK = "// Expected output:\n"
MARK_OF_SCRIPT = "# Expected output:\n"
SKIPPED = 77


def expected_of_script(source):
    """The expected output of a script: lines of its first comment."""
    text = source.read_text()
    if text.count(MARK_OF_SCRIPT) != 1:
        sys.exit(f"{source}: needs exactly one line '{MARK_OF_SCRIPT.strip()}' at its top, before the expected output")
    lines = itertools.takewhile(lambda line: line.startswith("#   "), text.split(MARK_OF_SCRIPT)[1].splitlines())
    return [line[len("#   "):] for line in lines]


def expected(source):
    if source.suffix == ".sh":
        return expected_of_script(source)
    text = source.read_text()
    if text.count(MARK) != 1:
        sys.exit(f"{source}: needs exactly one line '{MARK.strip()}', with the expected output after it")
    lines = text.split(MARK)[1].splitlines()
    if not lines or not all(line.startswith("//   ") for line in lines):
        sys.exit(f"{source}: the expected output must be lines that begin with '//   ', up to the end of the file")
    return [line[len("//   "):] for line in lines]


def complaints(program, source, seconds=200):
    """Runs the example; yields nothing if the output is as expected."""
    command = ["bash", source, program] if source.suffix == ".sh" else [program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if source.suffix == ".sh" and run.returncode == SKIPPED:
        print(run.stderr)
        sys.exit(SKIPPED)
    if run.returncode != 0:
        yield f"{program} ended with {run.returncode}: {run.stderr}{run.stdout}"
    yield from difflib.unified_diff(expected(source), run.stdout.splitlines(), str(source), "printed",
                                    lineterm="")


if __name__ == "__main__":
    wrong = list(complaints(sys.argv[1], pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:4])))
    print("\n".join(wrong) or f"{sys.argv[1]}: the output is as expected")
    sys.exit(len(wrong) != 0)
