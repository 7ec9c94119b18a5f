"""Checks that only the program (actors/command) and the columns of flags name flags. Run by ctest.

The columns, `.flag({...})` and `.own_flag({...})`, are in the rows of settings. Other strings and comments of the
library name settings instead. Each setting in backticks in a string has a flag, and so has each setting that the
program or a model family asks for with given("model.layers"), or in a list of `for (const auto* setting : {...})`.
Settings of a family are in the rows of its *_asked.hpp, or without one in those of FAMILY_config.hpp.
"""

import pathlib
import re
import sys

ROOMS = ["kernels", "runtime", "messages", "actors"]
PROGRAM = "actors/command/"
FAMILIES = "runtime/family/"
TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|.', re.S)
FLAG = re.compile(r"(?<![\w-])--[a-z]")
SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=\w+)?`")
FIELD = re.compile(r'\.field = "([^"]+)')
GIVEN = re.compile(r'\b(?:given(?:\.contains|\.insert)?\(|decide\((?:flags|given), )"([^"]+)"')
LIST = re.compile(r'const auto\* setting : \{([^}]*)\}')
STRUCT = re.compile(r"^struct (\w+)[^;{]*\{\n(.*?)^\};", re.M | re.S)
ROW = re.compile(r'\brow\("([\w.]+)",\s*&x::(\w+)\)')
NAMED = re.compile(r'\.named\("([^"]*)"\)')
VALUE = re.compile(r'\.value = "([^"]*)"')
ROOTS = {"training_job": "", "asked_settings": "", "tokenizer_flags": "", "host_flags": "hosts."}


def columns(text):
    """Begin and end of the argument of each `.flag(...)` and `setting_flag(...)`."""
    for found in re.finditer(r"(?:\.(?:own_)?flag|\bsetting_flag)\(", text):
        depth, at = 1, found.end()
        while depth > 0 and (token := TOKEN.match(text, at)):
            depth += (token[0] == "(") - (token[0] == ")")
            at = token.end()
        yield found.end(), at


def settings_of_rows(root):
    """The names of all settings with a flag in their row."""
    structs = {name: body for path in root.rglob("*.hpp") if path.relative_to(root).parts[0] in ROOMS
               for name, body in STRUCT.findall(path.read_text()) if "static constexpr auto fields()" in body}

    def of(struct, above):
        body = structs[struct]
        rows = list(ROW.finditer(body))
        for row, after in zip(rows, rows[1:] + [None]):
            chain = body[row.end():after.start() if after else len(body)]
            named = NAMED.search(chain)
            name = named[1] if named else row[1]
            for begin, end in columns(chain):
                value = VALUE.search(chain, begin, end)
                yield above + name + (f"={value[1]}" if value else "")
            kind = re.search(rf"^  (\w+) {row[2]}\b", body, re.M)
            if kind and kind[1] in structs:
                yield from of(kind[1], above + name + "." if name else above)

    families = [(name, "model.") for folder in (root / FAMILIES).glob("*/")
                for path in list(folder.glob("*_asked.hpp")) or folder.glob(f"{folder.name}_config.hpp")
                for name, _ in STRUCT.findall(path.read_text())]
    roots = [(struct, above) for struct, above in ROOTS.items() if struct in structs]
    return {name for struct, above in roots + families for name in of(struct, above)}


def complaints(root):
    fields = {field for path in (root / PROGRAM).rglob("*.cpp") for field in FIELD.findall(path.read_text())}
    fields |= settings_of_rows(root)
    known = fields | {field.split("=")[0] for field in fields}
    for path in sorted(path for room in (PROGRAM, FAMILIES) for path in (root / room).rglob("*.cpp")):
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
            allowed = list(columns(text))
            for found in TOKEN.finditer(text):
                if found[0][0] not in '/"' or len(found[0]) == 1 or any(a <= found.start() < b for a, b in allowed):
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
        rows = ('struct training_job {\n  inner model;\n  int b;\n  static constexpr auto fields() {\n'
                '    return std::tuple(row("model", &x::model), row("b", &x::b).named("n").flag({.name = "--b",\n'
                '        .help = "(as --c)", .value = "1"}), "--d");\n  }\n};\n'
                'struct inner {\n  int a;\n  static constexpr auto fields() {\n'
                '    return std::tuple(row("a", &x::a).flag({.name = "--a"}));\n  }\n};\n')
        for name, text in [("runtime/a.hpp", "int x;  ///< --num-layers\nint y = x--;\n"), ("runtime/d.hpp", rows),
                           ("runtime/e.cpp", 'f("give `model.a`");\n'),
                           ("runtime/b.cpp", 'f("give `model.layers`, `model.unknown` or --lr");\n'),
                           (PROGRAM + "c.cpp", 'g({.name = "--num-layers", .field = "model.layers"});\n'
                            'given("model.layers") || given("model.unknown") || given("n=1");\n'
                            'for (const auto* setting : {"model.layers", "model.nothing"})\n')]:
            (tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp / name).write_text(text)
        return len(list(complaints(tmp))) == 6


def main(root):
    if not finds_what_it_plants():
        print("settings_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "the library names settings, the program and the rows name flags")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
