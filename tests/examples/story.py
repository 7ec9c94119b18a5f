"""Runs a story and compares what it prints with the expected output at its end. Run by ctest:

    story.py PROGRAM SOURCE
"""

import difflib
import pathlib
import subprocess
import sys

MARK = "// Expected output:\n"


def expected(source):
    text = source.read_text()
    if text.count(MARK) != 1:
        sys.exit(f"{source}: a story ends with its expected output, after one line '{MARK.strip()}'")
    lines = text.split(MARK)[1].splitlines()
    if not lines or not all(line.startswith("//   ") for line in lines):
        sys.exit(f"{source}: expected output is lines that begin with '//   ', to the end of the file")
    return [line[len("//   "):] for line in lines]


def complaints(program, source):
    """What is wrong with a run of the story; nothing when it is as expected."""
    run = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    if run.returncode != 0:
        yield f"{program} ended with {run.returncode}: {run.stderr}{run.stdout}"
    yield from difflib.unified_diff(expected(source), run.stdout.splitlines(), str(source), "printed",
                                    lineterm="")


if __name__ == "__main__":
    wrong = list(complaints(sys.argv[1], pathlib.Path(sys.argv[2])))
    print("\n".join(wrong) or f"{sys.argv[1]} prints what it should")
    sys.exit(len(wrong) != 0)
