"""Checks that start_thread starts all of the project's threads. Run by ctest.

start_thread reports the system's error if the system refuses a thread; std::thread would end the process.
"""

import pathlib
import re
import sys
import tempfile

from sources import sources

STARTS = re.compile(r"\bstd::thread\b(?!::)|\bstd::jthread\b(?: \w+)?[({](?!\)|const )|\bstd::async\b"
                    r"|\bpthread_create\b|\bmake_(?:unique|shared)<std::j?thread>")
# Thread variables and containers: their threads come from start_thread or std::move.
NAMED = re.compile(r"\bstd::jthread>?\s+(\w+)\s*(?:;|=|\{\})")
MAY = {"runtime/core/thread.cpp": "start_thread itself",
       "runtime/refused_threads/refused_threads.cpp": "intercepts the thread starts of libraries"}


def complaints(root):
    all_lines = dict(sources(root))
    for path, lines in all_lines.items():
        if path.as_posix() in MAY:
            continue
        header = all_lines.get(path.with_suffix(".hpp"), [])
        names = {name for line in lines + header for name in NAMED.findall(line)}
        held = "|".join(map(re.escape, sorted(names))) or "(?!)"
        given = re.compile(rf"\b({held})(?:\.(?:emplace_back|push_back)\(|\(| = )(?!(?:[\w:]+[.:])?start_thread|std::move|\))")
        for number, line in enumerate(lines, 1):
            if found := STARTS.search(line) or given.search(line):
                yield f"{path}:{number}: {found[0].rstrip('({ ')} without start_thread"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/core/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("std::thread a(f);\nstd::jthread b{f};\nauto c = std::async(f);\nstd::jthread(f).join();\n"
                           "std::vector<std::thread> d;\nstd::jthread e;\nint n = std::thread::hardware_concurrency();\n"
                           "std::jthread start_thread(const std::string& name);\nstd::jthread g = start_thread(name, f);\n"
                           "std::vector<std::jthread> h;\nh.emplace_back([] {});\nh.push_back(start_thread(name, f));\n"
                           "e = std::move(g);\ntype::type() : e([] {}) {}\nauto i = std::make_unique<std::jthread>(f);\n")
        if len(found := list(complaints(pathlib.Path(tmp)))) != 8:
            print(f"threads_test.py does not find its own planted faults: {found}")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "start_thread starts all threads")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
