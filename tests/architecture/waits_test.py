"""Checks that all code that a lane can reach waits through runtime/core/waiting.hpp, which can be simulated. Run by
ctest."""

import pathlib
import re
import sys
import tempfile

from sources import sources

WAITS = re.compile(r"\bcondition_variable(?:_any)?\b|\bthis_thread::sleep_|\.(?:get_)?future\(?\)?\.(?:get|wait)\(|\bstd::(?:counting_semaphore|binary_semaphore|latch|barrier)\b|\b(?:usleep|nanosleep)\(")

# source -> why a simulation does not need it
MAY = {
    "runtime/core/waiting.": "waiting.hpp itself",
    "runtime/core/log.": "the log's own thread",
    "runtime/refused_threads/": "waits before it retries a refused thread",
    "runtime/core/progress.": "a terminal",
    "runtime/telemetry/recorder.": "threads of recorders; the monitor's wait for them is bounded",
    "runtime/transport/wire_": "a simulation replaces wires by a virtual transport",
    "runtime/transport/ucx/": "a simulation replaces wires by a virtual transport",
    "runtime/collective/nccl": "NCCL is not simulated",
    "runtime/device/lane_reaper.": "the main thread, at the end of a run",
    "runtime/device/cuda/": "device queues are not simulated",
    "runtime/state/local_states.": "local disks are not simulated",
    "runtime/parameters/initial_values.": "helper threads that only large models use",
    "runtime/watch/": "threads of viewers; the end of a run waits for them for half a second",
    "runtime/object/": "objects are read before a run",
    "runtime/data/preprocess": "its own workers",
    "runtime/machine/": "measurements of the machine",
    "runtime/process/": "processes are not simulated",
    "runtime/launch/": "processes of a launch meet before the run",
    "actors/command/": "the program's own threads",
    "actors/job/run.cpp": "the main thread",
    "actors/job/ending.cpp": "the main thread, at the end of a process",
    "actors/stage/stage_context.cpp": "the last spans of a device",
}


def complaints(root):
    for path, lines in sources(root):
        if path.parts[0] == "kernels" or any(path.as_posix().startswith(place) for place in MAY):
            continue
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("#") or not WAITS.search(line):
                continue
            yield f"{path}:{number}: waits without runtime/core/waiting.hpp"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/collective/local/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("std::condition_variable a;\nstd::this_thread::sleep_for(b);\nc.get_future().get();\n"
                           "std::latch d(1);\nwait_condition e;\nruntime::sleep_for(f);\n")
        if len(found := list(complaints(pathlib.Path(tmp)))) != 4:
            print(f"waits_test.py does not find its own planted faults: {found}")
            return 1
    unused = [place for place in MAY if not any(path.as_posix().startswith(place) for path, _ in sources(root))]
    wrong = list(complaints(root)) + [f"{place} is excused, but does not exist" for place in unused]
    print("\n".join(wrong) or "all waits can be simulated")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
