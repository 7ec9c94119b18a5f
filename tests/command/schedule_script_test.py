"""Schedules as scripts: those of the guide, the shipped ones, and wrong ones. Run by ctest.

    schedule_script_test.py PROGRAM SOURCES
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from cli_test import MOCK, SMALL

PROGRAM = None
SHOWN = re.compile(r"^\$ (troupe .*)$")


def run(folder, *words):
    return subprocess.run([PROGRAM, *map(str, words)], cwd=folder, capture_output=True, text=True,
                          timeout=60)


def split(command):
    return [x.strip('"') for x in re.findall(r'"[^"]*"|\S+', command)]


def alike(wanted, seen):
    """Whether the lines match; '...' is any number of lines, or at the end of a line any rest."""
    if not wanted:
        return not seen
    first, rest = wanted[0], wanted[1:]
    if first == "...":
        return any(alike(rest, seen[i:]) for i in range(len(seen) + 1))
    if not seen:
        return False
    same = seen[0].startswith(first[:-3].rstrip()) if first.endswith("...") else seen[0] == first
    return same and alike(rest, seen[1:])


def scripts_of(text):
    """Yields the scripts of a page that start with their name."""
    for code in re.findall(r"^```lua\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if found := re.match(r"-- (\S+\.lua)\n", code):
            yield found[1], code


def commands_of(text):
    """Yields (command, expected lines) of a page's indented blocks."""
    command, lines = None, []
    for line in [*text.replace("\\\n", " ").split("\n"), ""]:
        inside = line.startswith("    ")
        found = SHOWN.match(line[4:]) if inside else None
        if command and (found or not inside):
            yield command, lines
            command = None
        if found:
            command, lines = found[1], []
        elif command:
            lines.append(line[4:])


def page_complaints(folder, text):
    for name, code in scripts_of(text):
        (folder / name).write_text(code)
    count = 0
    for command, wanted in commands_of(text):
        count += 1
        done = run(folder, *split(command)[1:])
        fails = bool(wanted) and wanted[0].startswith("troupe: error")
        seen = (done.stderr if fails else done.stdout).rstrip("\n").split("\n")
        if done.returncode != (2 if fails else 0):
            yield f"{command}: exit code {done.returncode}: {done.stderr}"
        elif not alike([x.rstrip() for x in wanted], [x.rstrip() for x in seen]):
            yield f"{command}: the page shows\n{chr(10).join(wanted)}\nbut it printed\n{chr(10).join(seen)}"
    if count < 6:
        yield f"only {count} commands were found in the page"


# script, part of the error
WRONG = [
    ("function plan(\n", "x.lua:2: <name> or '...' expected near <eof>"),
    ("function plan()\n  local x\n  return x.y\nend", "x.lua:3: attempt to index a nil value (local 'x')"),
    ("function plan() while true do end end", "x.lua:1: plan() for rank 0 was stopped after the 50000000"),
    ("t = {} for i = 1, 1e9 do t[i] = i end", "x.lua:1: the script itself needs more than the 65536 KiB"),
    ("function plan() return 7 end", "x.lua: plan() for rank 0 of 2: it returned 7; expected a text"),
    ("function plan() return {'0F0', 'F1'} end", "plan() for rank 0 of 2: action 2: \"F1\" is not an action"),
    ("function plan() return '0F0' end", "PLAN-1"),
    ("function plan() return io.open('/etc/passwd') end", "x.lua:1: io.open is not for a schedule script"),
    ("function plan() return {} end chunks_per_rank = 'two'", "chunks_per_rank is \"two\""),
    ("x = 1", "x.lua: defines neither of plan(rank, ranks, chunks, microbatches) and next(state)"),
    ("function next(state) return 3 end", "x.lua: next() on rank 0 of 2 answered 3; expected one of"),
    ("function next(state) return '0W0' end", "x.lua: rank 0 of 2 chose 0W0, which cannot run now"),
    ("function next(state) end", "x.lua: all ranks wait, after 0 of 12 actions"),
    ("", "x.lua: defines neither"),
    ("\x1bLua\x54", "x.lua: attempt to load a binary chunk"),
]


def refusals(folder):
    at = ["--ranks", 2, "--microbatches", 2]
    for text, said in WRONG:
        (folder / "x.lua").write_text(text)
        for command in ("check", "plan", "simulate"):
            done = run(folder, "schedule", command, "x.lua", *at)
            if done.returncode != 2 or said not in done.stderr or done.stdout:
                yield f"{command} of {text!r}: ended with {done.returncode}: {done.stderr}{done.stdout}"
    (folder / "x.lua").write_text("function plan() return {} end")
    for words, said in [(["gone.lua", *at], "gone.lua"), (["x.lua"], "is missing")]:
        done = run(folder, "schedule", "check", *words)
        if done.returncode != 2 or said not in done.stderr:
            yield f"check {words}: ended with {done.returncode}: {done.stderr}"


def shipped(folder, sources):
    """The scripts of examples/ equal the schedules of the same name, and the reactive one is valid."""
    at = ["--ranks", 4, "--microbatches", 8]
    for script, name in [("1f1b.lua", "1f1b"), ("zb_h1.lua", "zb-h1")]:
        path = sources / "examples/schedules" / script
        ours, theirs = (run(folder, "schedule", "plan", x, *at).stdout for x in (path, name))
        if not ours or ours != theirs:
            yield f"{script} differs from {name}:\n{ours}{theirs}"
    path = sources / "examples/schedules/reactive.lua"
    for times in ("1,1,1", "1,2,0.5", "0.3,0.4,3"):
        record = run(folder, "schedule", "plan", path, *at, "--times", times, "--output", "r.csv")
        done = run(folder, "schedule", "check", "r.csv")
        if record.returncode or done.returncode:
            yield f"the record of reactive.lua at {times}: {record.stderr}{done.stderr}{done.stdout}"
    page = run(folder, "train", "gpt", *SMALL, *MOCK, "--world-size", 4, "--pipeline-model-parallel-size", 2,
               "--pipeline-schedule", path, "--dry-run").stdout
    if not re.search(r"a simulation of .* one row per stage\n0.*\n1.*\n$", page):
        yield f"4 workers of 2 stages: the dry run does not show a row for each stage:\n{page}"


def main(program, sources):
    global PROGRAM
    PROGRAM = program
    if alike(["a", "...", "b"], ["a", "x"]) or not alike(["a...", "..."], ["ab", "c", "d"]):
        print("schedule_script_test.py compares wrongly")
        return 1
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        guide = (sources / "docs/guides/write_a_schedule.md").read_text()
        wrong = [*page_complaints(folder, guide), *refusals(folder), *shipped(folder, sources)]
    print("\n".join(wrong) or "scripts match the guide")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
