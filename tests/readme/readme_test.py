"""Runs all commands of docs/guides/first_run.md in an empty folder. Run by ctest:

    readme_test.py PROGRAM PAGE

Commands begin with `troupe`, in blocks or in the text, and run in the order of the page. A command with --dry-run runs
again without that flag. A block of flags replaces the --world-size line of the last training command. The table SMALL
reduces sizes; each of its entries must occur on the page.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SMALL = {"--vocab-size 8192": "--vocab-size 300", "--num-layers 6": "--num-layers 2",
         "--hidden-size 384": "--hidden-size 48", "--seq-length 256": "--seq-length 32",
         "--train-iters 2000": "--train-iters 4", "--lr-warmup-iters 100": "--lr-warmup-iters 1",
         "--eval-interval 200": "--eval-interval 2", "--eval-iters 10": "--eval-iters 1",
         "--save-interval 200": "--save-interval 2", "--tokens 200": "--tokens 5"}
WITH_THE_SAME_FLAGS = ["troupe memory"]  # the page says so
AT_LEAST = 8  # minimum number of commands; fewer mean that this test no longer understands the page


def pieces(section):
    """Yields commands and blocks of flags in the order of the page."""
    block = re.compile(r"\n\n((?: {4,}.*\n)+)")
    code = re.compile(r"`([^`]+)`")
    numbered = re.compile(r"^(\d+\. )", re.MULTILINE)
    section = numbered.sub(lambda m: " " * len(m[1]), section)
    at = 0
    while at < len(section):
        found = block.search(section, at)
        for inline in code.findall(section[at:found.start() if found else None]):
            yield " ".join(inline.split())
        if not found:
            return
        text = found[1].replace("\\\n", " ")
        yield from (" ".join(line.split()) for line in text.splitlines())
        at = found.end() - 1


def commands(section):
    training = None
    for piece in pieces(section):
        if piece.startswith("--") and training and re.search(r"--world-size \d", piece):
            yield re.sub(r"--world-size \S+( --[a-z-]*parallel-size \S+)*", piece, training)
        elif piece in WITH_THE_SAME_FLAGS and training:
            yield training.replace("troupe train gpt", piece)
        elif piece.startswith("troupe ") and not re.search(r"\b[A-Z]{3,}\b|\.\.\.", piece):
            yield piece
            if " --dry-run" in piece:
                training = piece.replace(" --dry-run", "")
                yield training


def corpus(words):
    return "\n\n".join(" ".join(f"{words[(i * j + j) % len(words)]}" for j in range(40)) + "."
                       for i in range(120))


def main(program, page):
    section = page.read_text().split("\n## ")[0]
    wrong = [f"'{x}' of the table SMALL is not on the page" for x in SMALL if x not in section]
    ran = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = "Once upon a time there was an actor who waited for a message and then".split()
        (folder / "corpus.txt").write_text(corpus(words))
        (folder / "other.txt").write_text(corpus(words[::-1]))
        for command in commands(section):
            small = command
            for long, short in SMALL.items():
                small = re.sub(re.escape(long) + r"\b", short, small)
            done = subprocess.run([program, *shlex.split(small)[1:]], cwd=folder, text=True, timeout=120,
                                  capture_output=True, check=False)
            ran += 1
            print(f"{done.returncode}  {small}")
            if done.returncode != 0:
                wrong.append(f"'{command}', run as '{small}', exited with {done.returncode}:\n{done.stderr}")
    if ran < AT_LEAST:
        wrong.append(f"found only {ran} commands on the page, at least {AT_LEAST} expected")
    print("\n".join(wrong) or f"all {ran} commands of the page work")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])))
