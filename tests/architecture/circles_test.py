"""Checks that no folders of actors/ include each other in a circle. Run by ctest."""

import collections
import graphlib
import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*"actors/([^/"]+)/')


def inclusions(root):
    """Maps each folder to the folders that it includes, with one line that does."""
    out = collections.defaultdict(dict)
    for path in sorted((root / "actors").rglob("*.[ch]pp")):
        here = path.relative_to(root / "actors").parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if found and found[1] != here:
                out[here].setdefault(found[1], f"{path.relative_to(root)}:{number}")
    return out


def complaints(root):
    includes = inclusions(root)
    if not includes:
        yield f"{root}: no folder of actors/ includes another one, so nothing was checked"
    try:
        graphlib.TopologicalSorter(includes).prepare()
    except graphlib.CycleError as failure:
        circle = failure.args[1][::-1]
        for here, there in zip(circle, circle[1:]):
            yield (f"{includes[here][there]}: closes a circle: {here} includes {there}; "
                   "move what both need to actors/host")


def self_test():
    """True if the check finds its planted circle, and no other."""
    with tempfile.TemporaryDirectory() as tmp:
        for name, include in {"host/a.hpp": "support/a.hpp", "node/a.cpp": "stage/a.hpp", "stage/a.hpp": "keeper/b.hpp",
                              "keeper/b.hpp": "node/c.hpp", "loader/d.cpp": "host/a.hpp"}.items():
            path = pathlib.Path(tmp) / "actors" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'#include "actors/{include}"\n')
        found = sorted(line.split(":")[0] for line in complaints(pathlib.Path(tmp)))
        return found == ["actors/keeper/b.hpp", "actors/node/a.cpp", "actors/stage/a.hpp"]


def main(root):
    if not self_test():
        print("circles_test.py does not find its own planted circle")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "no circle between the folders of actors/")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
