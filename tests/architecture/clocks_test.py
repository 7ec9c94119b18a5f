"""Nothing is decided by the time of day: it jumps. Only what dates lines and pages may ask for it. Actors
ask the clock of their actor system and no other, so that it can be simulated. Run by ctest."""

import pathlib
import re
import sys
import tempfile

from sources import sources

TIME_OF_DAY = re.compile(r"system_clock|high_resolution_clock|CLOCK_REALTIME|gettimeofday|\bstd::time\(|[^_\w.>]::time\(|\btime\(nullptr\)")

# source -> what it dates
DATES = {
    "actors/monitor/": "lines of the console",
    "runtime/telemetry/": "records of the logs",
    "runtime/process/run_folder": "when a run began and ended, for people",
    "runtime/checkpoint/listing": "when a checkpoint was written, for people",
    "actors/command/checkpoint_pages": "when a checkpoint was written, for people",
    "actors/command/tokenizer_chat": "prompts whose template tells the date",
    "actors/command/conversations": "conversations whose template tells the date",
    "actors/command/generate_chat": "prompts whose template tells the date",
}

STEADY = re.compile(r"steady_clock::now\b|\bnow_ns\(\)")
ACTORS = re.compile(r"actors/(supervisor|replica|stage|loader|checkpointer|node|support)/")
BEGINS = "actors/node/context.hpp"  # when a process began; a simulation says so itself


def complaints(root):
    for path, lines in sources(root):
        if ACTORS.match(path.as_posix()) and path.as_posix() != BEGINS:
            for number, line in enumerate(lines, 1):
                if STEADY.search(line):
                    yield f"{path}:{number}: an actor asks the clock of its actor system"
        if any(path.as_posix().startswith(place) for place in DATES):
            continue
        for number, line in enumerate(lines, 1):
            if TIME_OF_DAY.search(line):
                yield f"{path}:{number}: asks for the time of day; durations are of a steady clock"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/core/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("auto t = std::chrono::system_clock::now();\n")
        planted = pathlib.Path(tmp) / "actors/stage/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("auto t = std::chrono::steady_clock::now();\nauto u = self->home_system().clock().now();\n")
        if len(list(complaints(pathlib.Path(tmp)))) != 2:
            print("clocks_test.py does not find what it plants itself")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "nobody decides by the time of day")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
