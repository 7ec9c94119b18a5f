"""Threads of ours are asked for by start_thread, which says what the system said when it refuses; what
starts one by itself ends the process instead. Run by ctest."""

import pathlib
import re
import sys
import tempfile

ROOMS = ["kernels", "runtime", "messages", "actors"]
STARTS = re.compile(r"\bstd::thread\b(?!::)|\bstd::jthread\b(?: \w+)?[({](?!\)|const )|\bstd::async\b|\bpthread_create\b")
MAY = {"runtime/core/thread.cpp": "start_thread itself",
       "actors/command/refused_threads.cpp": "stands between libraries and the system"}


def complaints(root):
    seen = 0
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.[ch]pp")):
            seen += 1
            here = path.relative_to(root).as_posix()
            if here in MAY:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if found := STARTS.search(line.split("//")[0]):
                    yield f"{here}:{number}: {found[0].rstrip('({')} without start_thread"
    if seen == 0:
        yield f"{root}: no sources found, so nothing was checked"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/core/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("std::thread a(f);\nstd::jthread b{f};\nauto c = std::async(f);\nstd::jthread(f).join();\n"
                           "std::vector<std::thread> d;\nstd::jthread e;\nint n = std::thread::hardware_concurrency();\n"
                           "std::jthread start_thread(const std::string& name);\nstd::jthread g = start_thread(name, f);\n")
        if len(found := list(complaints(pathlib.Path(tmp)))) != 5:
            print(f"threads_test.py does not find what it plants itself: {found}")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "every thread of ours is asked for by start_thread")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
