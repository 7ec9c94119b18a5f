"""Plants faults one by one in a copy of the tree and reports which check finds each.

    run.py                 all faults of mutants.py, experts.py, kernels.py, protocol.py and watching.py; prints a table
    run.py --set NAME      only mutants.py (composition), experts.py, kernels.py, protocol.py or watching.py
    run.py --only TEXT     only faults with TEXT in their description
    run.py --texts         only checks that each text to replace exists; takes no time
    run.py --folder DIR    folder of the copy and its build, kept for the next run. Default: build/mutants
    run.py --again         also faults that were found before

A found fault is not planted again until the program that finds it has other sources, headers, libraries or options
of the compiler: build/mutants_found keeps the digest of all of them. So a run that was ended goes on where it was.
Files that a program reads while it runs are not in the digest.

Exits with 1 if a fault is not found, with 2 if the unchanged tree fails. Takes some minutes: each fault
compiles one file. Needs only the standard library.
"""

import argparse
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import experts
import kernels
import mutants
import protocol
import watching

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A check that takes this much longer than on the unchanged tree hangs, which also finds the fault.
HANG_FACTOR, HANG_LEAST, UNKNOWN = 3, 60, 900  # UNKNOWN: of a check on the unchanged tree, in seconds
UNTRIED = "not tried"
FOUND = ROOT / "build/mutants_found"  # a line for each fault: its digest, the number of the check that found it, how
# The first check finds most faults; the others are then not built.
COMPOSITION = [("matrix", ["--stop"]), ("test_runtime_trainer", ["--abort"]),
               ("test_scenario", ["--abort", "[scenario]"])]
KERNELS = "test_kernels_cuda"


class Mutant:
    """A fault: what it is, its places (file, exact text, replacement), and the checks that must find it."""

    def __init__(self, what, places, checks):
        self.what, self.places, self.checks = what, places, checks


def emulated(file):
    """Checks for a kernel's faults: the emulated tests of .ci/run, then the cases that only .ci/full runs."""
    tests = f"[#{kernels.TESTS[file]}]".split(",")
    return [(KERNELS, ["--abort", "--filenames-as-tags", ",".join(x + tier for x in tests)])
            for tier in ("~[full]", "[full]")]


def tests_of(file):
    program, tests = watching.TESTS[file]
    return [(program, ["--abort", "--filenames-as-tags", f"[#{tests}]"])]


def simulation(first):
    return [("troupe", ["simulate", "--seeds", f"{first}-{first + protocol.SEEDS}", "--jobs", "2"])]


SETS = {
    "composition": [Mutant(what, [place], COMPOSITION) for what, *place in mutants.MUTANTS],
    "experts": [Mutant(what, places, [check]) for what, check, places in experts.MUTANTS],
    "kernels": [Mutant(what, [place], emulated(place[0])) for what, *place in kernels.MUTANTS],
    "protocol": [Mutant(what, places, simulation(first)) for what, first, places in protocol.MUTANTS],
    "watching": [Mutant(what, [place], tests_of(place[0])) for what, *place in watching.MUTANTS],
}


def checks_of_sound(which, chosen):
    """The checks that must pass before any fault of the set is planted."""
    if which in ("experts", "kernels", "watching"):
        return list({str(check): check for x in chosen for check in x.checks}.values())
    if which == "composition":
        return COMPOSITION
    return [check for first in sorted({first for _, first, _ in protocol.MUTANTS}) for check in simulation(first)]


def copy_tree(to):
    """Copies the files that git does not ignore and removes others. Writes only changed ones: little is rebuilt."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    present = {x for x in listed if (ROOT / x).is_file()}
    for old in list(to.rglob("*")):
        name = old.relative_to(to)
        if name.parts[0] != "build" and old.is_file() and str(name) not in present:
            old.unlink()
    for name in sorted(present):
        here, there = ROOT / name, to / name
        content = here.read_bytes()
        if there.is_file() and there.read_bytes() == content:
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content)
        there.chmod(here.stat().st_mode)


def build(tree, target):
    """Returns the compiler's first error, or an empty string."""
    done = subprocess.run(["ninja", "-j2", "-C", tree / "build/release", target], capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    errors = [x for x in done.stdout.splitlines() if "error: " in x or "undefined reference" in x]
    return errors[0] if errors else done.stdout[-500:]


def first_complaint(text):
    """The failed row of the matrix, or the name of the failed test."""
    for line in text.splitlines():
        if "FAILED: " in line:  # a row of the matrix that ended early
            return line.split("FAILED: ")[1]
        if line.endswith("FAILED") and "TEST" not in line and ".cpp" not in line:
            return " ".join(line.split())
    seed = re.match(r"seed \d+ fails:\n(.*)", text)
    if seed:
        return seed[0].replace("\n", "").replace(" fails: ", ": ")
    found = re.search(r"^-{70,}\n(.+?)\n-{70,}$", text, re.M | re.S)
    return " ".join(found[1].split()) if found else text[-200:].strip()


def verdict(tree, check, sound):
    """Returns how the check finds the fault, or an empty string. `sound`: seconds that each check took when it first
    passed, which is on the unchanged tree."""
    program, options = check
    key = (program, *options)
    limit = max(HANG_LEAST, HANG_FACTOR * sound[key]) if key in sound else UNKNOWN
    for _ in range(2):  # a timeout counts when it repeats: the machine may have been busy
        began = time.monotonic()
        try:
            done = subprocess.run([tree / "build/release/bin" / program, *options], capture_output=True, text=True,
                                  timeout=limit, cwd=tree)
            break
        except subprocess.TimeoutExpired:
            pass
    else:
        return f"{program}: timeout"
    if done.returncode == 0:
        sound.setdefault(key, time.monotonic() - began)
        return ""
    if -done.returncode in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        return f"{UNTRIED}: {program} was killed from outside, or memory ran out"
    if done.returncode < 0:
        return f"{program}: ended by signal {-done.returncode}"
    return f"{program}: {first_complaint(done.stdout + done.stderr)}"


def judge(tree, checks, sound):
    """Returns how the first check that finds the planted fault does so, or an empty string, and that check's number."""
    for number, check in enumerate(checks):
        wrong = build(tree, check[0])
        if wrong:
            return f"{UNTRIED}: it does not build: {wrong}", number
        found = verdict(tree, check, sound)
        if found:
            return found, number
    return "", len(checks)


def ninja_says(tree, *words):
    return subprocess.run(["ninja", "-C", tree / "build/release", "-t", *words], capture_output=True, text=True,
                          check=True).stdout


def digest_of_sources(tree, program):
    """Digest of all that a built program is made from: commands, sources, headers, libraries."""
    inputs = set(ninja_says(tree, "inputs", program).split("\n"))
    headers = set()
    for block in ninja_says(tree, "deps").split("\n\n"):
        first, *rest = block.split("\n")
        if first.split(": #deps")[0] in inputs:
            headers.update(x.strip() for x in rest)
    commands = ninja_says(tree, "commands", program).replace(str(tree), ".")
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=tree, capture_output=True, text=True,
                            check=True).stdout.strip()
    digest = hashlib.sha256(commands.replace(commit, "").encode())  # commands name it: CMakeLists.txt
    for name in sorted(inputs | headers):
        file = tree / "build/release" / name
        if name and not name.endswith((".o", ".a")) and file.is_file():
            digest.update(name.replace(str(tree), ".").encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def digest_of(mutant, sources):
    text = repr((mutant.what, mutant.places, mutant.checks, [sources[program] for program, _ in mutant.checks]))
    return hashlib.sha256(text.encode()).hexdigest()


def misplaced(tree, mutant):
    """Returns why the fault cannot be planted, or an empty string."""
    for file, text, _ in mutant.places:
        times = (tree / file).read_text().count(text) if (tree / file).is_file() else 0
        if times != 1:
            return f"{UNTRIED}: the text to replace is {times} times in {file}: {mutant.what}"
    return ""


def plant(tree, mutant, sound):
    wrong = misplaced(tree, mutant)
    if wrong:
        return wrong, 0
    before = {file: (tree / file).read_text() for file, _, _ in mutant.places}
    for file, text, other in mutant.places:
        (tree / file).write_text((tree / file).read_text().replace(text, other))
    try:
        return judge(tree, mutant.checks, sound)
    finally:
        for file, text in before.items():
            (tree / file).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutants", metavar="DIR")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    if args.texts:
        every = [x for group in SETS.values() for x in group]
        wrong = list(filter(None, (misplaced(ROOT, x) for x in every)))
        print("\n".join(wrong) or f"{len(every)} faults can be planted")
        return 1 if wrong or not every else 0
    tree = args.folder.resolve() / "tree"
    os.environ.setdefault("CCACHE_BASEDIR", str(ROOT.parent))
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    copy_tree(tree)
    done = subprocess.run(["cmake", "--preset", "release", "-DTROUPE_UNITY=OFF"], cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 2
    chosen = [(which, x) for which in args.sets or SETS for x in SETS[which] if args.only in x.what]
    sources = {}
    for program in {program for _, x in chosen for program, _ in x.checks}:
        wrong = build(tree, program)
        if wrong:
            print(f"the unchanged tree does not build: {wrong}", file=sys.stderr)
            return 2
        sources[program] = digest_of_sources(tree, program)
    before = {}
    if not args.again and FOUND.is_file():
        lines = (x.split("\t") for x in FOUND.read_text().splitlines())
        before = {digest: (found, int(by)) for digest, by, found in lines}
    new = [(which, x) for which, x in chosen if digest_of(x, sources) not in before]
    sound = {}
    for which in dict.fromkeys(which for which, _ in new):
        wrong, _ = judge(tree, checks_of_sound(which, [x for w, x in new if w == which]), sound)
        if wrong:
            print(f"the unchanged tree fails: {wrong}", file=sys.stderr)
            return 2
    print("| fault | file | found by | s |\n|---|---|---|---|")
    missed = late = 0
    for which, mutant in chosen:
        began = time.monotonic()
        digest = digest_of(mutant, sources)
        if digest in before:
            (found, by), taken = before[digest], "before"
        else:
            found, by = plant(tree, mutant, sound)
            found = " ".join(found.split())
            taken = f"{time.monotonic() - began:.0f}"
        if not found or found.startswith(UNTRIED):
            missed += 1
        elif digest not in before:
            FOUND.parent.mkdir(exist_ok=True)
            with FOUND.open("a") as record:
                record.write(f"{digest}\t{by}\t{found}\n")
        late += which == "kernels" and bool(found) and by > 0
        print(f"| {mutant.what} | `{mutant.places[0][0]}` | {found or 'NOT FOUND'} | {taken} |", flush=True)
    print(f"\n{len(chosen)} faults, {len(chosen) - missed} found")
    if "kernels" in {which for which, _ in chosen}:
        print(f"{late} faults in kernels are found only by .ci/full")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
