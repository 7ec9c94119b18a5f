"""Checks that scripts remove only folders that they made. Run by ctest.

A shell script removes recursively only a variable that `mktemp -d` sets in it. A Python script that removes folders
works in a folder of tempfile: its own, or that of a module that it imports.
"""

import pathlib
import re
import sys
import tempfile

REMOVED = re.compile(r"""\brm\s+(?:-\S+\s+)*?-\w*[rR]\w*\s+(?:-\S+\s+)*([^;&|'\n]+)|\bfind\b[^\n]*-delete"""
                     r"""|\bgit\s+clean\b""")
TREES = re.compile(r"\brmtree\(")
MADE = r'\b{}=\$\(mktemp -d\b'

# script -> removed name: how the script knows that the folder is its own
KNOWN = {
    ("tests/package/run.sh", "packages"): "a folder of the build, which only this script fills",
    ("tests/package/install_test.py", "rmtree"): "a folder of the build, which only this test fills",
    ("tests/bench/gpu.sh", "bin"): "refused unless it is empty or has the mark of an earlier call",
}


def scripts(root):
    places = [root / ".ci", *(root / x for x in ("examples", "tests", "cmake"))]
    for path in sorted(x for place in places if place.exists() for x in place.rglob("*")):
        if path.suffix in (".sh", ".py") or path.parent.name == ".ci":
            yield path


def uses_tempfile(path):
    """True if the script or a module beside it that it imports makes temporary folders."""
    text = path.read_text()
    names = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    beside = [path.parent / f"{x}.py" for x in names]
    return any("tempfile." in x.read_text() for x in [path, *beside] if x.exists())


def removed_by(path):
    """Yields (line number, name) for each recursive removal of a folder that the script does not make."""
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        line = re.split(r"(?:^|\s)#", line)[0]
        if path.suffix == ".py":
            if TREES.search(line) and not uses_tempfile(path):
                yield number, "rmtree"
            continue
        for found in REMOVED.finditer(line):
            for word in (found[1] or found[0]).split():
                name = re.fullmatch(r'"?\$\{?(\w+)\}?"?', word)
                if not name or not re.search(MADE.format(name[1]), text):
                    yield number, name[1] if name else word


def complaints(root, known=KNOWN):
    for path in scripts(root):
        place = path.relative_to(root).as_posix()
        for number, name in removed_by(path):
            if (place, name) not in known:
                yield f"{place}:{number}: removes '{name}', which it has not made by mktemp -d or tempfile"


def self_test():
    """Checks that the planted removals are found, and no others."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"examples/a.sh": 'rm -rf "$run"\ncp "$1" "$run"\n',
                           "examples/b.sh": 'own=$(mktemp -d)\ntrap \'rm -rf "$own"\' EXIT\nrm -f x\n',
                           "examples/c.sh": "rm -fr runs/quickstart\nfind . -name x -delete\n",
                           "tests/d.py": "shutil.rmtree(out)\n",
                           "tests/e.py": "import runs\nshutil.rmtree(out)\n",
                           "tests/runs.py": "tempfile.TemporaryDirectory()\n"}.items():
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        found = {x.split(": ")[0] for x in complaints(root)}
    return found == {"examples/a.sh:1", "examples/c.sh:1", "examples/c.sh:2", "tests/d.py:1"}


def main(root):
    if not self_test():
        print("removals_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    wrong += [f"{place} no longer removes '{name}': delete its row" for place, name in KNOWN
              if name not in {x for _, x in removed_by(root / place)}]
    if not any(REMOVED.search(x.read_text()) for x in scripts(root) if x.suffix == ".sh"):
        wrong.append("no script removes anything, so nothing was checked")
    print("\n".join(wrong) or "scripts remove only what they made")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
