"""Checks that a model family is named in its folder and in one line of the registry. Run by ctest.

A file of the product names a family if it includes a header of its folder, uses a type or a function of these
headers, or has the name as a text. A family that only tests have is a namespace, and no other file of the product, the
examples and the tests names that.
"""

import pathlib
import re
import sys
import tempfile

ROOMS = ["kernels", "runtime", "messages", "actors"]
TYPE = re.compile(r"^(?:struct|class|enum class|enum) (\w+)\b(?!;)", re.M)
# Where a name may stand as a text.
TEXTS = ("actors/command/",  # pages and examples name `troupe train gpt`
         "runtime/data/conversation",  # the role of a model in files of conversations
         "examples/", "tests/")

# (folder of the families, the only file that registers them, what it has of each, rooms whose files are checked)
FAMILIES = ("runtime/family/", "runtime/family/families.cpp", "&{}_family()", ROOMS)
OF_TESTS = ("tests/family/", "tests/support/families.hpp", "add_family({}::family())", ROOMS + ["examples", "tests"])


def names_of(root, folder, family):
    """Patterns that name a family."""
    yield f'#include "{folder}'
    if folder.startswith("tests/"):
        yield rf"\b{family}::"
        return
    for path in sorted((root / folder).glob("*.hpp")):
        text = path.read_text()
        for name in TYPE.findall(text) + re.findall(rf"\b({family}_\w+)\(", text):
            yield rf"\b{name}\b"


def complaints_of(root, families, registry, entry, rooms):
    found = sorted(path.name for path in (root / families).iterdir() if path.is_dir())
    if not found:
        yield f"{families} has no folder, so nothing was checked"
    sources = [path for room in rooms for kind in ("*.cpp", "*.hpp", "*.cu") for path in (root / room).rglob(kind)]
    registered = (root / registry).read_text()
    for family in found:
        folder = f"{families}{family}/"
        named = re.compile("|".join(names_of(root, folder, family)))
        text = re.compile(f'"{family}"')
        for path in sorted(sources):
            here = path.relative_to(root).as_posix()
            if here.startswith(folder) or here == registry:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("//")[0]
                if named.search(code) or (text.search(code) and not here.startswith(TEXTS)):
                    yield f"{here}:{number}: names the family {family}; ask model_family or model_description"
        if registered.count(entry.format(family)) != 1:
            yield f"{registry}: the family {family} is not registered in one line, {entry.format(family)}"


def complaints(root):
    yield from complaints_of(root, *FAMILIES)
    yield from complaints_of(root, *OF_TESTS)


def self_test():
    """True if the check finds what it plants, and no more."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name, text in {"runtime/family/big/big.hpp": "struct big_settings {};\nenum class bulk { a };\n"
                                                         "int big_layers();\n",
                           "runtime/family/big/big.cpp": "big_settings x;\n",
                           FAMILIES[1]: '#include "runtime/family/big/big.hpp"\n&big_family(),\n',
                           "runtime/job/a.cpp": '#include "runtime/family/big/big.hpp"\n',
                           "actors/b.hpp": "// big_settings\nbig_settings y;\n",
                           "actors/c.hpp": "bulk z;\n// bulk\nint n = big_layers();\n",
                           "messages/d.hpp": 'find("big");\n',
                           "actors/command/e.cpp": 'print("big");\n',
                           "tests/family/small/small.hpp": "struct small_settings {};\n",
                           OF_TESTS[1]: '#include "tests/family/small/small.hpp"\nadd_family(small::family())\n',
                           "tests/a_test.cpp": "big_settings z;\nsmall::small_settings z;\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = [line.split(": ")[0] for line in complaints(root)]
        for registry in (FAMILIES[1], OF_TESTS[1]):
            (root / registry).write_text("")
        return (sorted(found) == ["actors/b.hpp:2", "actors/c.hpp:1", "actors/c.hpp:3", "messages/d.hpp:1",
                                   "runtime/job/a.cpp:1", "tests/a_test.cpp:2"]
                and len(list(complaints(root))) == 8)


def main(root):
    if not self_test():
        print("families_test.py does not find what it plants")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "a family is named in its folder and in the registry")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
