"""Checks the table of Megatron-LM's flags: it is complete, matches the program, and is in the documentation. Run by
ctest.

    megatron_test.py PROGRAM SOURCES
"""

import pathlib
import re
import subprocess
import sys

PROGRAM, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2])
ROW = re.compile(r"^\| (`--.*`) \| (works|accepted|coming|refused) \| (.*) \|$", re.MULTILINE)
SMALL = """--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2
    --train-iters 1 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 100""".split()


def run(*words):
    done = subprocess.run([PROGRAM, "train", "gpt", *words], capture_output=True, text=True,
                          timeout=120)
    return done.returncode, done.stdout, done.stderr


def rows(markdown):
    for names, standing, note in ROW.findall(markdown):
        for name in re.findall(r"`(--[\w-]+)`", names):
            yield name, standing, note


def check_names(table):
    """The table has each flag of Megatron-LM once, with a reason if it has no effect."""
    names = [name for name, _, _ in table]
    lines = (SOURCES / "tests/golden/megatron/flags.txt").read_text().split("\n")
    commit, theirs = lines[0].split()[-1], [x for x in lines[1:] if x]
    if len(theirs) < 800:
        yield f"flags.txt has {len(theirs)} names only"
    for name in sorted(set(theirs) - set(names)):
        yield f"{name} of Megatron-LM has no row"
    for name in sorted(x for x in set(names) if names.count(x) > 1):
        yield f"{name} has {names.count(name)} rows"
    for name, standing, note in table:
        if standing != "works" and not note:
            yield f"{name} is {standing} without a reason"
    if commit[:12] not in run("--help-megatron")[1]:
        yield f"--help-megatron is about another commit than flags.txt: {commit}"


def check_declared(table):
    """A flag is in --help exactly if the table says that it works."""
    declared = set(re.findall(r"^  (--[\w-]+)", run("--help")[1], re.MULTILINE))
    for name, standing, _ in table:
        if (standing == "works") != (name in declared):
            yield f"the table says that {name} is {standing}, but it is " + (
                "" if name in declared else "not ") + "in --help"


def check_refused(table):
    """Gives all refused flags at once; each error has the reason from the table."""
    refused = {name: note for name, what, note in table if what in ("coming", "refused")}
    code, _, err = run(*SMALL, *refused)
    if code != 2:
        yield f"refused flags end with exit code {code}"
    for name, note in refused.items():
        if not any(f"{name} is {what}: {note}" in err for what in ("refused", "not a flag of 'troupe train gpt'")):
            yield f"{name} is not refused as the table says"


def without_time(page):
    """A dry run without its time estimate, which varies."""
    return [x for x in page.splitlines() if not x.startswith("time ")]


def check_accepted(table):
    """All accepted flags together, with their arguments, change nothing."""
    words = re.findall(r"(--[\w-]+)( X)?(?=[,:])",
                       re.sub(r"\n +", " ", run("--help-megatron")[1]))
    accepted = {name for name, what, _ in table if what == "accepted"}
    given = [word for name, value in words if name in accepted
             for word in ([name, "1"] if value else [name])]
    code, page, err = run(*SMALL, "--dry-run", *given)
    if code != 0 or without_time(page) != without_time(run(*SMALL, "--dry-run")[1]):
        yield f"accepted flags change something: exit code {code}\n{err}"
    if len(accepted - set(given)):
        yield f"not tried: {accepted - set(given)}"


def check_pointer(_):
    """The command for the whole table, in the help of all that take flags of training, prints it."""
    for command in (("train", "gpt"), ("memory",)):
        page = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True,
                              timeout=120).stdout
        named = re.search(r"`troupe ([^`]*) --help-megatron` lists all", " ".join(page.split()))
        if not named or named[1] != "train gpt":
            yield f"the help of {' '.join(command)} names {named and named[0]}"


def check_document(table):
    page = (SOURCES / "docs/guides/from_megatron.md").read_text()
    begin, end = "<!-- troupe train gpt --help-megatron-markdown -->\n", "<!-- end -->"
    copy = page.split(begin)[-1].split(end)[0].strip()
    if copy != run("--help-megatron-markdown")[1].strip():
        yield ("docs/guides/from_megatron.md has another table than the program: replace the text "
               "between the two comments by the output of the first")


def main():
    table = list(rows(run("--help-megatron-markdown")[1]))
    wrong = [x for check in (check_names, check_declared, check_refused, check_accepted,
                             check_pointer, check_document) for x in check(table)]
    print("\n".join(wrong) or f"{len(table)} flags match the table")
    return len(wrong) != 0


sys.exit(main())
