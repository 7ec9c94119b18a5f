"""Whatever a lane can come to waits in runtime/core/waiting.hpp, so that it can be simulated. Run by ctest."""

import pathlib
import re
import sys
import tempfile

from sources import sources

WAITS = re.compile(r"\bcondition_variable(?:_any)?\b|\bthis_thread::sleep_|\.(?:get_)?future\(?\)?\.(?:get|wait)\(|\bstd::(?:counting_semaphore|binary_semaphore|latch|barrier)\b|\b(?:usleep|nanosleep)\(")

# source -> why no simulation needs to come there
MAY = {
    "runtime/core/waiting.": "the seam itself",
    "runtime/core/log.": "the log's own thread",
    "runtime/refused_threads/": "a thread that the system refuses is asked for again",
    "runtime/core/progress.": "a terminal",
    "runtime/telemetry/recorder.": "threads of recorders; the monitor's wait for them is bounded",
    "runtime/transport/wire_": "wires are not simulated: a virtual transport is",
    "runtime/transport/ucx/": "wires are not simulated: a virtual transport is",
    "runtime/collective/nccl": "NCCL is not simulated",
    "runtime/device/lane_reaper.": "the main thread, at the end of a run",
    "runtime/device/cuda/": "queues of devices are not simulated",
    "runtime/trainer/local_states.": "local disks are not simulated: nobody waits for them",
    "runtime/parameters/initial_values.": "threads that help to draw; large models alone have them",
    "runtime/object/": "objects are read before a run",
    "runtime/data/preprocess": "its own workers",
    "runtime/machine/": "measures",
    "runtime/process/": "processes are not simulated",
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
            yield f"{path}:{number}: waits elsewhere than in runtime/core/waiting.hpp"


def main(root):
    with tempfile.TemporaryDirectory() as tmp:
        planted = pathlib.Path(tmp) / "runtime/collective/local/a.cpp"
        planted.parent.mkdir(parents=True)
        planted.write_text("std::condition_variable a;\nstd::this_thread::sleep_for(b);\nc.get_future().get();\n"
                           "std::latch d(1);\nwait_condition e;\nruntime::sleep_for(f);\n")
        if len(found := list(complaints(pathlib.Path(tmp)))) != 4:
            print(f"waits_test.py does not find what it plants itself: {found}")
            return 1
    unused = [place for place in MAY if not any(path.as_posix().startswith(place) for path, _ in sources(root))]
    wrong = list(complaints(root)) + [f"{place} is excused and is not there" for place in unused]
    print("\n".join(wrong) or "whatever a lane can come to waits where it can be simulated")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
