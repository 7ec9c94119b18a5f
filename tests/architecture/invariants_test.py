"""Compares docs/invariants.md with the code: each named promise has a check and a test. Run by ctest.

Each ensure() in the code has a name, and each name has exactly one row in the table. Each row names existing
sources and tests that contain the name.
"""

import collections
import pathlib
import re
import sys
import tempfile

TABLE = "docs/invariants.md"
ROOMS = ["kernels", "runtime", "messages", "actors"]
SOURCES = (".hpp", ".cpp", ".cu", ".cuh")
CHECKED = re.compile(r'"([A-Z]+-\d+)(?::|, told)')  # ensure(kept, "STEP-1: ..."), "STEP-2, told ..."
ENSURE = re.compile(r"(?<!void )\bensure\(")
NAME = re.compile(r"([A-Z]+(?:-[A-Z]+)+)|([A-Z]+)-(\d+)|-(\d+)")
FILE = re.compile(r"`([\w/]+\.\w+)`")


def names_in(cell):
    """Expands 'A-1, -2, B-1 to -3, A-WORD' to A-1, A-2, B-1, B-2, B-3, A-WORD."""
    out, stem, last = [], None, 0
    for found in NAME.finditer(cell):
        if found[1]:
            out.append(found[1])
            continue
        stem = found[2] or stem
        number = int(found[3] or found[4])
        first = last + 1 if found[4] and cell[:found.start()].endswith("to ") else number
        out += [f"{stem}-{i}" for i in range(first, number + 1)]
        last = number
    return out


def table_of(root):
    """Yields (names, files of the check, files of the tests) for each row; None instead of files for "no test yet"."""
    for line in (root / TABLE).read_text().splitlines():
        cells = [x.strip() for x in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and names_in(cells[0]):
            tests = None if cells[3] == "no test yet" else FILE.findall(cells[3])
            yield names_in(cells[0]), FILE.findall(cells[2]), tests


def checked_in(root):
    """Maps each name that the code checks to its file."""
    out = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in SOURCES:
                for name in CHECKED.findall(path.read_text()):
                    out.setdefault(name, path.relative_to(root).as_posix())
    return out


def unnamed_in(root):
    """Yields the places of ensure() calls with a literal without a name. Other arguments are literals elsewhere."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            text = path.read_text()
            for found in ENSURE.finditer(text):
                call = text[found.start():text.find(";", found.end())]
                if '"' in call and not CHECKED.search(call):
                    yield path.relative_to(root).as_posix(), text.count("\n", 0, found.start()) + 1


def mentions(text, name):
    return re.search(rf"\b{name}\b(?!-)", text) is not None


def complaints(root):
    table = list(table_of(root))
    listed = collections.Counter(name for names, _, _ in table for name in names)
    yield from (f"{name} has {count} rows in {TABLE}" for name, count in listed.items() if count > 1)
    for name, file in sorted(checked_in(root).items()):
        if name not in listed:
            yield f"{name}, checked in {file}, is not in {TABLE}"
    for file, line in unnamed_in(root):
        yield f"{file}:{line}: the promise of this ensure() has no name"
    for names, checks, tests in table:
        for what, files in (("check", checks), ("test", tests)):
            if files is None:
                continue
            if not files:
                yield f"{names[0]}: {TABLE} names no {what}"
            gone = [file for file in files if not (root / file).is_file()]
            yield from (f"{names[0]}: {TABLE} names {file}, which does not exist" for file in gone)
            texts = [(root / file).read_text() for file in files if file not in gone]
            for name in names:
                if texts and not any(mentions(text, name) for text in texts):
                    yield f"{name}: its {what} in {', '.join(files)} does not name it"


def planted(root):
    """Returns the findings for a small tree with one mistake of each kind."""
    for file, text in {
            "actors/a.cpp": 'ensure(x, "A-1: right"); ensure(y, "A-2: no row");',
            "actors/e.cpp": 'ensure(x.empty(),\n "of no name: here"); ensure(y, promise); ensure(z, "A-1: again");',
            "tests/a_test.cpp": "A-1",
            TABLE: "| name | promise | checked in | test |\n|---|---|---|---|\n"
                   "| A-1 | right | `actors/a.cpp` | `tests/a_test.cpp` |\n"
                   "| B-1, -2 | unchecked | `actors/a.cpp` | `tests/a_test.cpp` |\n"
                   "| C-1 | no such files | `actors/c.cpp` | `tests/c_test.cpp` |\n"
                   "| A-1 | again | `actors/a.cpp` | `tests/a_test.cpp` |\n"
                   "| D-WORD | no files | by construction | exercised |\n"}.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(x.split(":")[0].split(",")[0].split(" ")[0] for x in complaints(root))


def main(root):
    if names_in("A-1, -2, BC-1 to -3, D-WORD") != ["A-1", "A-2", "BC-1", "BC-2", "BC-3", "D-WORD"]:
        print("invariants_test.py cannot read its own example")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        found = planted(pathlib.Path(folder))
    if found != ["A-1", "A-2", "B-1", "B-1", "B-2", "B-2", "C-1", "C-1", "D-WORD", "D-WORD", "actors/e.cpp"]:
        print(f"invariants_test.py does not find its own planted mistakes: {found}")
        return 1
    wrong = list(complaints(root))
    count = sum(len(names) for names, _, _ in table_of(root))
    print("\n".join(wrong) or f"{count} invariants: each has a check and a test")
    return len(wrong) != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
