"""Checks that one source writes standard output for all commands. Run by ctest.

That source escapes control characters in pages, so that no printed name can control the terminal. The other
sources pass it a page, JSON or data.
"""

import pathlib
import re
import sys
import tempfile

from sources import sources

WRITES = re.compile(r"\bfmt::print\(|\bstd::(cout|puts|putchar|v?printf|print(ln)?)\b|"
                    r"\bwrite\(\s*(1|STDOUT_FILENO)\b|\bstdout\b")
ASKS = re.compile(r"std::(fflush|ferror|clearerr)\(stdout\)")

# source -> its use of standard output
WRITERS = {
    "actors/command/print.cpp": "the output of commands",
    "actors/command/program.cpp": "one byte, to get the reason of a failed write",
}


def complaints(root):
    for path, lines in sources(root):
        if path.parts[0] != "actors" or path.as_posix() in WRITERS:
            continue
        for number, line in enumerate(lines, 1):
            if WRITES.search(ASKS.sub("", line)):
                yield f"{path}:{number}: writes standard output; use actors/command/print.hpp"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "actors/command/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text('fmt::print("{}", x);\nstd::fputs(x, stdout);\nstd::cout << x;\nstd::puts(x);\n'
                           "std::fflush(stdout);\nprint_page(x);\n")
        if len(list(complaints(pathlib.Path(tmp)))) != 4:
            print("output_test.py does not find its own planted faults")
            return 1
        if [x for x in WRITERS if not (root / x).is_file()]:
            print(f"one of these files does not exist: {list(WRITERS)}")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "commands print through one source")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
