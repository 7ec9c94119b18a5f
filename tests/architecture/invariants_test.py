"""Every invariant that the code names is in the table of docs/invariants.md, and the other way
round; a test that is said to break one is there, and breaks some. Run by ctest."""

import pathlib
import re
import sys

ROOMS = ["kernels", "runtime", "messages", "actors"]
CHECKED = re.compile(r'"([A-Z]+-\d+)(?::|, told)')
NAME = re.compile(r"([A-Z]+)-(\d+)|-(\d+)")


def names_in(cell):
    """'A-1, -2, B-1 to -3' is A-1, A-2, B-1, B-2, B-3."""
    out, stem, last = [], None, 0
    for found in NAME.finditer(cell):
        stem = found[1] or stem
        number = int(found[2] or found[3])
        before = cell[:found.start()]
        first = last + 1 if found[3] and before.endswith("to ") else number
        out += [f"{stem}-{i}" for i in range(first, number + 1)]
        last = number
    return out


def table_of(text):
    """(names, what is said of their tests) of each row."""
    section = text.split("# Named invariants")[1].split("\n## ")[0]
    for line in section.splitlines():
        cells = [x.strip() for x in line.strip("|").split("|")]
        if len(cells) == 4 and NAME.search(cells[0]):
            yield names_in(cells[0]), cells[3]


def complaints(root):
    table = list(table_of((root / "docs/invariants.md").read_text()))
    listed = {name for names, _ in table for name in names}
    checked = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.[ch]pp")):
            for name in CHECKED.findall(path.read_text()):
                checked.setdefault(name, path.relative_to(root).as_posix())
    for name in sorted(set(checked) - listed):
        yield f"{name}, checked in {checked[name]}, is not in the table of docs/invariants.md"
    tests = {x.relative_to(root).as_posix(): x.read_text() for x in (root / "tests").rglob("*_test.cpp")}
    for names, said in table:
        files = re.findall(r"`([\w/]+_test\.cpp)`", said)
        texts = []
        for file in files:
            found = [text for path, text in tests.items() if path == file or path.endswith("/" + file)]
            if not found:
                yield f"{names[0]}: the table names {file}, which is not there"
            texts += found
        if "broken on purpose" not in said:
            continue
        if not files:
            yield f"{names[0]}: the table says that a test breaks it, but not which"
        for name in names:
            if texts and not any(name in text or "broken_promise" in text for text in texts):
                yield f"{name}: none of {', '.join(files)} breaks a promise"


def main(root):
    if names_in("A-1, -2, BC-1 to -3") != ["A-1", "A-2", "BC-1", "BC-2", "BC-3"]:
        print("invariants_test.py cannot read its own example")
        return 1
    wrong = list(complaints(root))
    count = sum(len(names) for names, _ in table_of((root / "docs/invariants.md").read_text()))
    print("\n".join(wrong) or f"{count} invariants are listed")
    return len(wrong) != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
