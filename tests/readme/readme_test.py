"""Runs commands of the documentation. Run by ctest:

    readme_test.py PROGRAM PAGE              runs all commands of docs/guides/first_run.md in an empty folder
    readme_test.py PROGRAM --shown SOURCES   compares the marked outputs of all pages with what the commands print
    readme_test.py OUTPUT --quickstart PAGE  compares the losses of README.md with the output of examples/quickstart.sh;
                                             tests/package/readme.sh runs it

Commands begin with `troupe`, in blocks or in the text, and run in the order of the page. A command with --dry-run runs
again without that flag. A block of flags replaces the --world-size line of the last training command. The table SMALL
reduces sizes; each of its entries must occur on the page.

An output is marked by the comment `<!-- checked -->` before the block of its command; the next block is what it prints.
In it, `...` stands for any text on its line, and on a line of its own for any lines. Sizes may differ by 5 %, because
scratch memory of operations depends on the processor. Losses may differ by 1 %, because rounding does. A block after
`<!-- run -->` is only run. A page's marked blocks share a folder and the shell variables of the page.
"""

import os
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


MARKED = re.compile(r"^<!-- (?:(run)|checked) -->\n\n((?: {4}.*\n)+)(?(1)|\n(?:(?! {4}).*\n\n)?((?: {4}.*\n)+))",
                    re.MULTILINE)
MARK = re.compile(r"<!-- (?:run|checked) -->")
VARIABLE = re.compile(r'^ {4}([a-z]+="[^"]*")$', re.MULTILINE)
NUMBER = re.compile(r"(?P<size>\d+(?:\.\d+)?(?= [kMG]?B\b))"
                    r"|(?P<loss>(?:(?<=loss: )|(?<=value: )|(?<=PPL: )|(?<=perplexity ))\d+(?:\.\d+)?(?:E[+-]\d+)?"
                    r"|\d+(?:\.\d+)?(?= nats| bits per byte))"
                    r"|(?P<gain>\d+(?:\.\d+)?(?= % fewer bits))")
# A gain is a difference of losses, in percent.
TOLERANCE = {"size": lambda x: 0.05 * x, "loss": lambda x: 0.01 * x, "gain": lambda x: 0.5}
OTHER_MACHINE = 5  # factor for 500 iterations on other processors, which round differently
MARKS_AT_LEAST = 12  # minimum number of marked outputs; fewer mean that this test no longer finds them


def unindented(block):
    return [x[4:] for x in block.splitlines()]


def same_line(shown, said, slack=1):
    """Whether `shown`, with `...` for any text, is `said` up to `slack` times the tolerance of each number."""
    form, at, allowed = "", 0, []
    for x in NUMBER.finditer(shown):
        form += re.escape(shown[at:x.start()]) + r"(\d+(?:\.\d+)?(?:E[+-]\d+)?)"
        at = x.end()
        allowed.append((float(x[0]), slack * TOLERANCE[x.lastgroup](float(x[0]))))
    form = (form + re.escape(shown[at:])).replace(re.escape("..."), ".*")
    found = re.fullmatch(form, said)
    return found is not None and all(abs(x - float(y)) <= most for (x, most), y in zip(allowed, found.groups()))


def first_difference(shown, said, slack=1):
    """The first shown line that is not printed where the page has it; None if there is none."""
    at, anywhere = 0, True
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        places = range(at, len(said)) if anywhere else range(at, min(at + 1, len(said)))
        found = next((i for i in places if same_line(line, said[i], slack)), None)
        if found is None:
            return line
        at, anywhere = found + 1, False
    return None


def self_test():
    said = ["a", "b 1.00 MB x", "c", "lm loss value: 6.00E+00 | lm loss PPL: 4.03E+02 |",
            "5.8 nats, needs 2.4 % fewer bits"]
    right = [["a", "b 1.04 MB x"], ["..."], ["...", "c"], ["a", "...", "c"], ["b ... x"],
             ["lm loss value: 6.05E+00 | ..."], ["5.77 nats, needs 2.1 % fewer bits"]]
    wrong = [["a", "c"], ["b 1.06 MB x"], ["c", "a"], ["b 1.00 MB y"], ["d"],
             ["lm loss value: 6.00E+00 | lm loss PPL: 3.9E+02 |"], ["5.7 nats, ..."], ["... needs 1.8 % fewer bits"]]
    return (all(first_difference(x, said) is None for x in right)
            and all(first_difference(x, said) is not None for x in wrong))


def check_quickstart(output, page):
    block = re.search(r"<!-- quickstart.*?<!-- end -->", page.read_text(), re.DOTALL)[0]
    shown = [re.sub(r"tokens/s: \d+", "tokens/s: ...", x) for x in unindented(block)
             if any(y.lastgroup != "size" for y in NUMBER.finditer(x))]
    ordered = [x for line in shown for x in ("...", line)]
    line = first_difference(ordered, output.read_text(errors="replace").splitlines(), OTHER_MACHINE)
    wrong = f"the page shows '{line}', but quickstart.sh prints otherwise" if line else None
    if len(shown) < 3:
        wrong = "the page shows no losses"
    print(wrong or f"{len(shown)} lines with losses are what quickstart.sh prints")
    return wrong is not None


def check_shown(program, sources):
    if not self_test():
        print("readme_test.py does not find its planted differences")
        return 1
    wrong, marks = [], 0
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    for page in [sources / "README.md", *sorted((sources / "docs").rglob("*.md"))]:
        text = page.read_text()
        if len(MARK.findall(text)) != len(MARKED.findall(text)):
            wrong.append(f"{page}: a mark is not followed by a command and its output")
        with tempfile.TemporaryDirectory() as folder:
            for found in MARKED.finditer(text):
                variables = VARIABLE.findall(text[:found.start()])
                script = "\n".join([*variables, *unindented(found[2])])
                done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True, timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                if found[1]:
                    if done.returncode != 0:
                        wrong.append(f"{page}: this exits with {done.returncode}:\n{script}\n{done.stdout}")
                    continue
                marks += 1
                line = first_difference(unindented(found[3]), done.stdout.splitlines())
                if line is not None:
                    wrong.append(f"{page}: the page shows '{line}', but this prints otherwise:\n{script}\n{done.stdout}")
    if marks < MARKS_AT_LEAST:
        wrong.append(f"found only {marks} marked outputs, at least {MARKS_AT_LEAST} expected")
    print("\n".join(wrong) or f"all {marks} marked outputs are what the commands print")
    return len(wrong) != 0


if __name__ == "__main__":
    checks = {"--shown": check_shown, "--quickstart": check_quickstart}
    sys.exit(checks.get(sys.argv[2], main)(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[-1])))
