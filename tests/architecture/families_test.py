"""Checks that a model family is named in its folder and in one line of the registry. Run by ctest.

A file of the product names a family if it includes a header of its folder, or uses a type of its settings.
"""

import pathlib
import re
import sys
import tempfile

ROOMS = ["kernels", "runtime", "messages", "actors"]
FAMILIES = "runtime/family/"
REGISTRY = "runtime/family/families.cpp"
TYPE = re.compile(r"^struct (\w+)", re.M)


def complaints(root):
    families = sorted(path.name for path in (root / FAMILIES).iterdir() if path.is_dir())
    if not families:
        yield f"{FAMILIES} has no folder, so nothing was checked"
    sources = [path for room in ROOMS for kind in ("*.cpp", "*.hpp", "*.cu") for path in (root / room).rglob(kind)]
    registry = (root / REGISTRY).read_text()
    for family in families:
        folder = f"{FAMILIES}{family}/"
        types = {name for path in sorted((root / folder).glob("*.hpp")) for name in TYPE.findall(path.read_text())}
        named = re.compile("|".join([f'#include "{folder}'] + [rf"\b{name}\b" for name in sorted(types)]))
        for path in sorted(sources):
            here = path.relative_to(root).as_posix()
            if here.startswith(folder) or here == REGISTRY:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if named.search(line.split("//")[0]):
                    yield f"{here}:{number}: names the family {family}; ask model_family or model_description"
        if registry.count(f"&{family}_family()") != 1:
            yield f"{REGISTRY}: the family {family} is not registered in one line, &{family}_family()"


def self_test():
    """True if the check finds what it plants, and no more."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name, text in {"runtime/family/toy/toy.hpp": "struct toy_settings {};\n",
                           "runtime/family/toy/toy.cpp": "toy_settings x;\n",
                           REGISTRY: '#include "runtime/family/toy/toy.hpp"\n&toy_family(),\n',
                           "runtime/job/a.cpp": '#include "runtime/family/toy/toy.hpp"\n',
                           "actors/b.hpp": "// toy_settings\ntoy_settings y;\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = [line.split(": ")[0] for line in complaints(root)]
        (root / REGISTRY).write_text("")
        return sorted(found) == ["actors/b.hpp:2", "runtime/job/a.cpp:1"] and len(list(complaints(root))) == 3


def main(root):
    if not self_test():
        print("families_test.py does not find what it plants")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "a family is named in its folder and in the registry")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
