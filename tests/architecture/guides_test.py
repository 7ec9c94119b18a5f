"""Checks the guides that walk an example: each lists all files that name its example, and few of them are needed for
another one. Run by ctest."""

import pathlib
import re
import sys
import tempfile

GUIDES = [  # page, name of its example, how files spell it, most files that another one takes
    ("docs/guides/new_activation.md", "squared ReLU", re.compile(r"squared[ _-]relu", re.I), 12),
    ("docs/guides/new_setting.md", "--exit-on-missing-checkpoint", re.compile(r"exit[_-]on[_-]missing"), 7),
    ("docs/guides/new_actor.md", "the shard writer", re.compile(r"shard_?writer|write_shards|shards_(written|refused)"),
     16),
    ("docs/guides/new_message.md", "records_wait", re.compile(r"\brecords_wait\b"), 3),
    ("docs/guides/new_family.md", "the family GPT", re.compile(r"\bgpt_(config|spec|family)\b|runtime/family/gpt/"), 3),
    ("docs/guides/new_layer.md", "norms of queries and keys",
     re.compile(r"(head|qk)_norm|qk-layernorm|\b[qk]_(layer)?norm", re.I), 14),
]
SUFFIXES = {".inc", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".md", ".txt", ".cmake", ".yaml", ".json"}
# Built, measured or generated files that may name an example.
NOT_WRITTEN = ("build", "runs/", ".git", "docs/benchmarks/", "docs/decisions/", "tests/architecture/")


def naming(root, guide, example):
    """Files that name the example, except the page itself."""
    for path in sorted(root.rglob("*")):
        here = path.relative_to(root).as_posix()
        if here == guide or here.startswith(NOT_WRITTEN) or path.suffix not in SUFFIXES or not path.is_file():
            continue
        if example.search(path.read_text(errors="replace")):
            yield here


def listed(page, heading):
    """Files and folders ("a/b/") in the list of the section with this heading."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    items = re.findall(r"^(?:\d+\.|\*) .*?(?=^\S|^$|\Z)", section[1], re.M | re.S) if section else []
    names = {name for item in items for name in re.findall(r"`([\w./-]+(?:\.[a-z]+|/))`", item)}
    return {name for name in names if "/" in name or name == "README.md"}


def covers(name, file):
    """True if the listed name is the file, or a folder with the file."""
    return file == name or (name.endswith("/") and file.startswith(name))


def complaints(root, guide, name, example, most):
    page = (root / guide).read_text()
    takes, others = listed(page, "What it takes"), listed(page, "Other files that name [a-z ]+")
    found = set(naming(root, guide, example))
    if not takes:
        yield f"{guide} lists no file that it takes"
    if len(takes) > most:
        yield f"{guide}: it takes {len(takes)} files, at most {most} allowed: {', '.join(sorted(takes))}"
    for file in sorted(found):
        if not any(covers(x, file) for x in takes | others):
            yield f"{file} names {name} and is not in {guide}"
    for x in sorted(takes | others):
        if not any(covers(x, file) for file in found):
            yield f"{guide} lists {x}, which does not name {name}"


def self_test():
    """True if the check finds its planted faults: an unlisted file, and a listed file and folder without the name."""
    guide, *rest = GUIDES[0]
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name, text in {guide: "## What it takes\n\n1. `a/a.cpp`: its code\n   and `a/b.cpp`\n\nSee `a/e.cpp`.\n\n"
                                  "## Other files that name this activation\n\n* `a/c.cpp`, `b/`, `c/`\n",
                           "a/a.cpp": "squared_relu", "a/b.cpp": "", "a/c.cpp": "Squared ReLU",
                           "a/d.cpp": "--squared-relu", "b/f.cpp": "squared relu", "c/g.cpp": "",
                           "runs/quickstart/checkpoints/iter_0000250/manifest.json": "squared_relu"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return [line.split(" ")[0] for line in complaints(root, guide, *rest)] == ["a/d.cpp", guide, guide]


def main(root):
    if not self_test():
        print("guides_test.py does not find its own planted faults")
        return 1
    wrong = [line for guide in GUIDES for line in complaints(root, *guide)]
    print("\n".join(wrong) or f"{len(GUIDES)} guides list the files of their examples")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
