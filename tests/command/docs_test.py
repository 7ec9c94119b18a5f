"""Checks that commands and flags in the documentation exist: in command lines and in running text. Run by ctest.

    docs_test.py PROGRAM SOURCES
"""

import pathlib
import re
import subprocess
import sys

PROGRAM = None
OTHERS = {"--all", "--preset", "--texts", "--only", "--stop", "--nproc_per_node",
          "--nnodes", "--patience"}  # flags of other programs
FLAG = re.compile(r"--[A-Za-z][\w-]*")
CODE = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def page(*command, flag="--help"):
    done = subprocess.run([PROGRAM, *command, flag], capture_output=True, text=True, timeout=60)
    return done.stdout


def flags_of(text):
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))


def commands(path=()):
    """Yields each command with the flags of its help page."""
    text = page(*path)
    flags = flags_of(text)
    yield path, flags | flags_of(page(*path, flag="--help-faults")) if "--help-faults" in flags else flags
    first = text.split("\n\n")[1]
    for name in re.findall(r"^  ([a-z][a-z0-9-]*)(?: |$)", first, re.MULTILINE):
        yield from commands((*path, name))


def table():
    """Megatron-LM's flags that troupe does not declare, with their status."""
    text = subprocess.run([PROGRAM, "train", "gpt", "--help-megatron-markdown"],
                          capture_output=True, text=True, timeout=60).stdout
    return {name: standing
            for names, standing in re.findall(r"^\| (`--.*`) \| (\w+) \|", text, re.MULTILINE)
            for name in FLAG.findall(names)}


def blocks(text):
    """Lines of code blocks, indented or fenced. Joins lines that end in a backslash."""
    text = re.sub(r"^```.*\n", "", re.sub(FENCE, lambda m: re.sub("^", "    ", m[0], flags=re.M),
                                          text), flags=re.M)
    lines = [x[4:] for x in text.split("\n") if x.startswith("    ") and "```" not in x]
    return "\n".join(lines).replace("\\\n", " ").split("\n")


def words_of(line):
    """Words of the command, without redirections and pipes of the shell."""
    return re.split(r"\s(?:\||>|;|&&|#)|;", line)[0].split()


def wrong_command(known, megatron, line, text):
    words = words_of(line)[1:]
    path = ()
    while words and (*path, words[0]) in known:
        path = (*path, words.pop(0))
    if words and not path and words[0][0] not in "-.[CN":
        return f"troupe has no command '{words[0]}'"
    for word in words:
        flag = FLAG.match(word)
        if flag and flag[0] not in known[path] and (
                path != ("train", "gpt") or megatron.get(flag[0]) != "accepted") and (
                    f"{flag[0]} is refused" not in text):  # the page shows this error
            return f"'troupe {' '.join(path)}' does not take {flag[0]}"


def complaints(known, megatron, text, scripts=frozenset()):
    shown = []
    for line in blocks(text):
        line = re.sub(r"^(\$ )?(nice -n -?\d+ |timeout \w+ )?", "", line.strip())
        if re.match(r"troupe(?=\s|$)(?!:)", line) and not re.match(r"troupe \d", line):
            shown.append(line)
    everywhere = set.union(*known.values()) | set(megatron) | OTHERS | scripts
    for code in CODE.findall(re.sub(r"^    .*$", "", FENCE.sub("", text), flags=re.MULTILINE)):
        code = " ".join(code.split())
        if re.match(r"troupe [a-z]", code) and not re.match(r"troupe: |troupe \d", code):
            shown.append(code)
        elif code.startswith("--"):
            for flag in FLAG.findall(code):
                if flag not in everywhere and not (flag.endswith("-") or code.endswith("...")):
                    yield f"`{code}`: no command takes {flag}"
    for line in [part for line in shown for part in line.replace(" -- ", "\ntroupe ").split("\n")]:
        wrong = wrong_command(known, megatron, line, text)
        if wrong:
            yield f"{wrong}: {line[:100]}"


def self_test(known, megatron):
    """Checks that the planted mistakes are found, and no others."""
    text = ("`troupe trian gpt` `troupe plot` `--no-such-flag` `--lr 3`\n\n"
            "    troupe train gpt --lr 3 \\\n      --wrong 4 | tee --not-ours\n"
            "    troupe train gpt --fp8-format hybrid\n    troupe: error: --x\n\n```\ntroupe evil\n```\n")
    return len(list(complaints(known, megatron, text))) == 5


def main(program, sources):
    global PROGRAM
    PROGRAM = program
    known, megatron = dict(commands()), table()
    if len(known) < 10 or not self_test(known, megatron):
        print("docs_test.py does not find its planted mistakes")
        return 1
    pages = [sources / "README.md", *sorted((sources / "docs").rglob("*.md"))]
    benches = set()  # pages of benchmarks also name flags of their scripts
    for path in sorted((sources / "tests/bench").rglob("*")):
        if path.suffix in (".py", ".sh"):
            benches |= set(FLAG.findall(path.read_text()))
    wrong = [f"{path.relative_to(sources)}: {x}" for path in pages
             for x in complaints(known, megatron, path.read_text(), benches if path.parent.name == "benchmarks" else set())]
    print("\n".join(wrong) or f"{len(pages)} pages name existing commands and flags")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
