"""Checks that only the program (actors/command) names flags. Run by ctest.

Strings and comments of the library name settings instead. Each setting in backticks in a string has a flag, and so has
each setting that the program asks for with given("model.layers"), or in a list of `for (const auto* setting : {...})`.
"""

import pathlib
import re
import sys

ROOMS = ["kernels", "runtime", "messages", "actors"]
PROGRAM = "actors/command/"
TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|.', re.S)
FLAG = re.compile(r"(?<![\w-])--[a-z]")
SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=\w+)?`")
FIELD = re.compile(r'\.field = "([^"]+)')
GIVEN = re.compile(r'\b(?:given(?:\.contains|\.insert)?\(|decide\(flags, )"([^"]+)"')
LIST = re.compile(r'const auto\* setting : \{([^}]*)\}')


def complaints(root):
    fields = {field for path in (root / PROGRAM).rglob("*.cpp") for field in FIELD.findall(path.read_text())}
    known = fields | {field.split("=")[0] for field in fields}
    for path in sorted((root / PROGRAM).rglob("*.cpp")):
        text = path.read_text()
        listed = [name for names in LIST.findall(text) for name in re.findall(r'"([^"]+)"', names)]
        for setting in GIVEN.findall(text) + listed:
            if setting not in known:
                yield f"{path.relative_to(root).as_posix()}: no command has the setting `{setting}`"
    seen = 0
    for room in ROOMS:
        for path in sorted(x for kind in ("*.cpp", "*.hpp", "*.cu", "*.cuh") for x in (root / room).rglob(kind)):
            here = path.relative_to(root).as_posix()
            if here.startswith(PROGRAM):
                continue
            seen += 1
            text = path.read_text()
            for found in TOKEN.finditer(text):
                if found[0][0] not in '/"' or len(found[0]) == 1:
                    continue
                line = text.count("\n", 0, found.start()) + 1
                if FLAG.search(found[0]):
                    yield f"{here}:{line}: names a flag; name the setting, such as `layout.tensor`"
                for setting in SETTING.findall(found[0]) if found[0][0] == '"' else []:
                    if setting not in known:
                        yield f"{here}:{line}: no command has the setting `{setting}`"
    if seen == 0:
        yield f"{root}: no sources found, so nothing was checked"


def finds_what_it_plants():
    import tempfile
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name, text in [("runtime/a.hpp", "int x;  ///< --num-layers\nint y = x--;\n"),
                           ("runtime/b.cpp", 'f("give `model.layers`, `model.nobody` or --lr");\n'),
                           (PROGRAM + "c.cpp", 'g({.name = "--num-layers", .field = "model.layers"});\n'
                            'given("model.layers") || given("model.nobody");\n'
                            'for (const auto* setting : {"model.layers", "model.nothing"})\n')]:
            (tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp / name).write_text(text)
        return len(list(complaints(tmp))) == 5


def main(root):
    if not finds_what_it_plants():
        print("settings_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "the library names settings, the program flags")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
