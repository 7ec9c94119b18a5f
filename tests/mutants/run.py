"""Plants one fault after the other in a copy of the tree, and says which check finds it.

    run.py                 all of mutants.py and kernels.py; a table on standard output
    run.py --set NAME      composition: mutants.py alone; kernels: kernels.py alone
    run.py --only TEXT     those whose description contains TEXT
    run.py --texts         only looks whether what they replace is there: at once
    run.py --folder DIR    where the copy and its build lie (default: build/mutants); kept for
                           the next time

Exits with 1 if a fault is not found, 2 if the tree as it is does not pass. Some minutes: each fault
costs the compilation of one file. Standard library only.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

import kernels
import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANGS = 240  # seconds; a test that waits for ever is found, too
# In this order: most faults are found by the first, and then the others are not built.
COMPOSITION = [("matrix", ["--stop"]), ("test_runtime_trainer", ["--abort"]),
               ("test_scenario", ["--abort", "[scenario]"])]
KERNELS = "test_kernels_cuda"
SETS = {"composition": mutants.MUTANTS, "kernels": kernels.MUTANTS}


def checks_of(which, files):
    """Who is to find faults of a set in these files."""
    if which == "composition":
        return COMPOSITION
    tests = ",".join(sorted({f"[#{kernels.TESTS[file]}]" for file in files}))
    return [(KERNELS, ["--abort", "--filenames-as-tags", tests])]


def copy_tree(to):
    """What git knows, without what it ignores; only what has changed, so that little is rebuilt."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        here, there = ROOT / name, to / name
        if not here.is_file():
            continue
        content = here.read_bytes()
        if there.is_file() and there.read_bytes() == content:
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content)
        there.chmod(here.stat().st_mode)


def build(tree, target):
    """Empty, or what the compiler says."""
    done = subprocess.run(["ninja", "-j2", "-C", tree / "build/release", target], capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    errors = [x for x in done.stdout.splitlines() if "error" in x]
    return errors[0] if errors else done.stdout[-500:]


def first_complaint(text):
    """The row of the matrix, or the name of the test and the first of what it expected."""
    for line in text.splitlines():
        if "FAILED: " in line:  # a row of the matrix that ended early
            return line.split("FAILED: ")[1]
        if line.endswith("FAILED") and "TEST" not in line and ".cpp" not in line:
            return " ".join(line.split())
    found = re.search(r"^-{70,}\n(.+?)\n-{70,}$", text, re.M | re.S)
    return " ".join(found[1].split()) if found else text[-200:].strip()


def verdict(tree, program, options):
    """Empty, or how the program finds the fault."""
    try:
        done = subprocess.run([tree / "build/release/bin" / program, *options], capture_output=True, text=True,
                              timeout=HANGS, cwd=tree)
    except subprocess.TimeoutExpired:
        return f"{program}: somebody waits for ever"
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"{program}: ended by signal {-done.returncode}"
    return f"{program}: {first_complaint(done.stdout + done.stderr)}"


def judge(tree, checks):
    """Empty, or who finds what is planted in the tree."""
    for program, options in checks:
        wrong = build(tree, program)
        if wrong:
            return f"does not build: {wrong}"
        found = verdict(tree, program, options)
        if found:
            return found
    return ""


def misplaced(tree, mutant):
    """Empty, or why the fault cannot be planted."""
    what, file, text, _ = mutant
    times = (tree / file).read_text().count(text) if (tree / file).is_file() else 0
    return "" if times == 1 else f"the text to replace is {times} times in {file}: {what}"


def plant(tree, which, mutant):
    _, file, text, other = mutant
    path = tree / file
    sound = path.read_text()
    if sound.count(text) != 1:
        return misplaced(tree, mutant)
    path.write_text(sound.replace(text, other))
    try:
        return judge(tree, checks_of(which, [file]))
    finally:
        path.write_text(sound)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutants", metavar="DIR")
    parser.add_argument("--texts", action="store_true")
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
    chosen = [(which, x) for which in args.sets or SETS for x in SETS[which] if args.only in x[0]]
    for which in dict.fromkeys(which for which, _ in chosen):
        wrong = judge(tree, checks_of(which, [x[1] for w, x in chosen if w == which]))
        if wrong:
            print(f"the tree as it is does not pass: {wrong}", file=sys.stderr)
            return 2
    print("| fault | file | found by | s |\n|---|---|---|---|")
    missed = 0
    for which, mutant in chosen:
        began = time.monotonic()
        found = plant(tree, which, mutant)
        # What the compiler refuses was never tried.
        untried = found.startswith(("does not build", "the text to replace"))
        missed += not found or untried
        print(f"| {mutant[0]} | `{mutant[1]}` | {found or 'NOBODY'} | {time.monotonic() - began:.0f} |", flush=True)
    print(f"\n{len(chosen)} faults, {len(chosen) - missed} found")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
