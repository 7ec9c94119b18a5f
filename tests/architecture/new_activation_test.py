"""Checks that docs/guides/new_activation.md lists all files that an activation touches, at most twelve. Run by
ctest."""

import pathlib
import re
import sys
import tempfile

PAGE = "docs/guides/new_activation.md"
EXAMPLE = re.compile(r"squared[ _-]relu", re.I)
MOST = 12
SUFFIXES = {".inc", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".md", ".txt", ".cmake", ".yaml", ".json"}
# Built, measured or generated files that may name the activation.
NOT_WRITTEN = ("build", ".git", "docs/benchmarks/", "docs/decisions/", "tests/architecture/")


def naming(root):
    """Files that name the example activation of the page."""
    for path in sorted(root.rglob("*")):
        here = path.relative_to(root).as_posix()
        if here == PAGE or here.startswith(NOT_WRITTEN) or path.suffix not in SUFFIXES or not path.is_file():
            continue
        if EXAMPLE.search(path.read_text(errors="replace")):
            yield here


def listed(page, heading):
    """Files in the list of the section with this heading."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    items = re.findall(r"^(?:\d+\.|\*) .*?(?=^\S|^$|\Z)", section[1], re.M | re.S) if section else []
    return {name for item in items for name in re.findall(r"`([\w./-]+\.[a-z]+)`", item) if "/" in name or name == "README.md"}


def complaints(root):
    page = (root / PAGE).read_text()
    takes, others = listed(page, "What it takes"), listed(page, "Other files that name this activation")
    found = set(naming(root))
    if not takes:
        yield f"{PAGE} lists no file that an activation takes"
    if len(takes) > MOST:
        yield f"{PAGE}: an activation takes {len(takes)} files, at most {MOST} allowed: {', '.join(sorted(takes))}"
    for name in sorted(found - takes - others):
        yield f"{name} names squared ReLU and is not in {PAGE}"
    for name in sorted((takes | others) - found):
        yield f"{PAGE} lists {name}, which does not name squared ReLU"


def self_test():
    """True if the check finds its planted faults: an unlisted file, and a listed file without the name."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name, text in {PAGE: "## What it takes\n\n1. `a/a.cpp`: its code\n   and `a/b.cpp`\n\nSee `a/e.cpp`.\n\n"
                                 "## Other files that name this activation\n\n* `a/c.cpp`\n",
                           "a/a.cpp": "squared_relu", "a/b.cpp": "", "a/c.cpp": "Squared ReLU",
                           "a/d.cpp": "--squared-relu"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return [line.split(" ")[0] for line in complaints(root)] == ["a/d.cpp", f"{PAGE}"]


def main(root):
    if not self_test():
        print("new_activation_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or f"an activation takes {len(listed((root / PAGE).read_text(), 'What it takes'))} files")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
