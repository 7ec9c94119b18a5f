"""Names of tests that ctest cannot carry are refused: it would merge or lose them. Run by ctest."""

import pathlib
import re
import sys

CASE = re.compile(r'(?:TEST_CASE|TEST_CASE_METHOD)\((?:\s*\w+\s*,)?\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', re.S)
BROKEN = set("[];\\")


def complaints(text, where):
    for found in CASE.finditer(text):
        name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[1]))
        if BROKEN & set(name):
            yield f"{where}: the name '{name}' has one of [ ] ; \\, which CMake's lists cannot hold"
        if name.startswith("-"):
            yield f"{where}: the name '{name}' begins as an option does, and Catch2 takes it for one"


def main(root):
    for planted in ("a [0, 1) b", "--a is b"):
        if not list(complaints(f'TEST_CASE("{planted}", "[x]") {{', "planted")):
            print("names_test.py does not find the name that it plants itself")
            return 1
    wrong, seen = [], 0
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        text = path.read_text()
        seen += len(CASE.findall(text))
        wrong += complaints(text, path.relative_to(root).as_posix())
    print("\n".join(wrong) or f"{seen} test names are sound")
    return len(wrong) != 0 or seen == 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
