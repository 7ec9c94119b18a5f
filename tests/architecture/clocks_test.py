"""Checks which sources read which clock. Run by ctest.

The time of day can jump, so only sources that print dates may read it. Actors read only the clock of their
actor system, which can be simulated.
"""

import pathlib
import re
import sys
import tempfile

from sources import sources

TIME_OF_DAY = re.compile(r"system_clock|high_resolution_clock|CLOCK_REALTIME|gettimeofday|\bstd::time\(|[^_\w.>]::time\(|\btime\(nullptr\)")

# source -> its use of the date
DATES = {
    "actors/monitor/": "lines of the console",
    "runtime/telemetry/": "records of the logs",
    "runtime/process/run_folder": "printed start and end of a run",
    "runtime/checkpoint/listing": "printed date of a checkpoint",
    "actors/command/checkpoint_pages": "printed date of a checkpoint",
    "actors/command/monitor_view": "ages of records, which have dates",
    "actors/command/tokenizer_chat": "prompts with a date in their template",
    "actors/command/conversations": "conversations with a date in their template",
    "actors/command/generate_chat": "prompts with a date in their template",
    "actors/command/serve.": "dates of answers, and prompts with a date in their template",
}

STEADY = re.compile(r"steady_clock::now\b|\bnow_ns\(\)")
ACTORS = re.compile(r"actors/(supervisor|replica|stage|loader|checkpointer|node|host|support)/")
BEGINS = "actors/host/supervisor_resources.hpp"  # the start of a process; a simulation sets it itself


def complaints(root):
    for path, lines in sources(root):
        if ACTORS.match(path.as_posix()) and path.as_posix() != BEGINS:
            for number, line in enumerate(lines, 1):
                if STEADY.search(line):
                    yield f"{path}:{number}: an actor may read only the clock of its actor system"
        if any(path.as_posix().startswith(place) for place in DATES):
            continue
        for number, line in enumerate(lines, 1):
            if TIME_OF_DAY.search(line):
                yield f"{path}:{number}: reads the time of day; use a steady clock for durations"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/core/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("auto t = std::chrono::system_clock::now();\n")
        planted = pathlib.Path(tmp) / "actors/stage/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("auto t = std::chrono::steady_clock::now();\nauto u = self->home_system().clock().now();\n")
        if len(list(complaints(pathlib.Path(tmp)))) != 2:
            print("clocks_test.py does not find its own planted faults")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "only dates are read from the time of day")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
