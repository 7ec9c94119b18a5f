"""Compares runs in one and in several processes: same state after each step, same checkpoints, bit for bit.

    equality_test.py PROGRAM                  compares all arrangements in 2, 4 and 8 processes, over shared memory
                                              and TCP, with and without delays; prints a table, takes minutes
    equality_test.py PROGRAM --only WORD [COLUMN]
                                              only arrangements with WORD in their name, and columns
                                              with COLUMN, such as "8 processes, TCP"
    equality_test.py PROGRAM NAME...          runs the named checks, a selection; run by ctest

A cell of the table is the number of runs that equal the run in one process. Each step is compared, and each checkpoint
with `troupe checkpoint diff`.
"""

import pathlib
import sys
import tempfile
import time

import cli_test
import process_runs
from cli_test import works, wrong
from process_runs import EXPERTS, job, require_same

# Eight workers each, so that eight processes have one worker each.
SIZES = ["--world-size", 8, "--num-layers", 8, "--micro-batch-size", 1, "--global-batch-size", 16,
         "--train-iters", 4, "--save-interval", 2]
STEPS = ("iter_0000002", "iter_0000004")
SCHEDULES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "schedules"
ARRANGEMENTS = {
    "data parallel 8": [],
    "pipeline 4, data 2": ["--pipeline-model-parallel-size", 4],
    "tensor 4 with sequence parallel, data 2": ["--tensor-model-parallel-size", 4, "--sequence-parallel"],
    "distributed optimizer with overlap, pipeline 2, data 4":
        ["--pipeline-model-parallel-size", 2, "--use-distributed-optimizer", "--overlap-grad-reduce",
         "--overlap-param-gather"],
    "bf16, tensor 2, pipeline 2, data 2": ["--bf16", "--tensor-model-parallel-size", 2,
                                           "--pipeline-model-parallel-size", 2],
    "zero-bubble (zb-h1), pipeline 4, data 2": ["--pipeline-model-parallel-size", 4, "--pipeline-schedule", "zb-h1"],
    "Lua behaviour (reactive.lua), pipeline 4, data 2":
        ["--pipeline-model-parallel-size", 4, "--pipeline-schedule", SCHEDULES / "reactive.lua"],
    "experts on 2 x 2 ranks, tensor 2, data 4":
        ["--tensor-model-parallel-size", 2, "--sequence-parallel", *EXPERTS, "--expert-model-parallel-size", 2,
         "--expert-tensor-parallel-size", 2],
    "experts on 4 ranks, allgather, pipeline 2, data 4":
        ["--pipeline-model-parallel-size", 2, *EXPERTS, "--expert-model-parallel-size", 4,
         "--moe-token-dispatcher-type", "allgather"],
    "one credit for each hand-off, pipeline 4, data 2":
        ["--pipeline-model-parallel-size", 4, "--pipeline-credits", 1, "--eval-interval", 2, "--eval-iters", 8],
}
DELAYS = ["--plant-delays", "7,300,300"]
# Transports that UCX may use. Without shared memory, collectives also use messages.
WIRES = {"shared memory": {}, "TCP": {"UCX_TLS": "tcp"}}


def environments(one):
    """UCX_TLS of each live node of the run, by name, read from /proc."""
    out = {}
    for at in one.processes():
        try:
            words = (pathlib.Path("/proc") / str(at["pid"]) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        out[at["name"]] = next((x[8:].decode() for x in words if x.startswith(b"UCX_TLS=")), None)
    return out


def require_wire(one, processes, wire):
    """Checks that all nodes of the run were started with this transport."""
    wanted = WIRES[wire].get("UCX_TLS")
    seen = {}

    def all_seen():
        seen.update(environments(one))
        return len(seen) == processes

    one.until("the processes listen", lambda: one.look() or one.steps())
    one.until(f"{processes} nodes are visible", all_seen)
    if set(seen.values()) != {wanted}:
        raise one.fails(f"the nodes have UCX_TLS {seen}, expected {wanted}")


class compared:
    """An arrangement in one process, the reference for runs in several."""

    def __init__(self, folder, name):
        self.folder, self.words = folder, [*SIZES, *ARRANGEMENTS[name]]
        self.count = 0
        self.one, self.saved = self.ended(1, "shared memory", [])

    def ended(self, processes, wire, more):
        self.count += 1
        save = self.folder / f"save-{self.count}"
        ran = job(self.folder, *self.words, "--save", save, *more, processes=processes, environment=WIRES[wire])
        if processes > 1:
            require_wire(ran, processes, wire)
        return ran.ends(), save

    def with_many(self, processes, wire, more):
        ran, saved = self.ended(processes, wire, more)
        require_same(ran, self.one, f"in {processes} processes by {wire} {more}")
        for step in STEPS:
            works("checkpoint", "diff", self.saved / step, saved / step)


def check_shared_memory(folder):
    """Eight processes with one replica each."""
    compared(folder, "data parallel 8").with_many(8, "shared memory", DELAYS)


def check_tcp(folder):
    """All tensors between processes go over TCP, in hand-offs and in all-reduces."""
    compared(folder, "bf16, tensor 2, pipeline 2, data 2").with_many(4, "TCP", [])


def check_experts(folder):
    """Rows travel to experts of other processes over TCP."""
    compared(folder, "experts on 2 x 2 ranks, tensor 2, data 4").with_many(4, "TCP", DELAYS)


def check_behaviour(folder):
    """A schedule that decides at run time by the arrival of tensors: the order varies, the bits do not."""
    compared(folder, "Lua behaviour (reactive.lua), pipeline 4, data 2").with_many(2, "shared memory", DELAYS)


def check_one_credit(folder):
    compared(folder, "one credit for each hand-off, pipeline 4, data 2").with_many(4, "TCP", DELAYS)


def table(word="", of_columns=""):
    process_runs.PATIENCE = 600  # many small collectives in eight processes take long on two cores
    columns = [(n, wire) for wire in WIRES for n in (2, 4, 8) if of_columns in f"{n} processes, {wire}"]
    print("| arrangement | " + " | ".join(f"{n} processes, {wire}" for n, wire in columns) + " | seconds |")
    print("|---" * (len(columns) + 2) + "|")
    failed, runs = 0, 0
    for name in ARRANGEMENTS:
        if word not in name:
            continue
        began, cells, told = time.monotonic(), [], []
        with tempfile.TemporaryDirectory() as folder:
            of = compared(pathlib.Path(folder), name)
            for n, wire in columns:
                equal = 0
                for more in ([], DELAYS):
                    try:
                        of.with_many(n, wire, more)
                        equal += 1
                    except wrong as failure:
                        told.append(str(failure))
                failed, runs = failed + 2 - equal, runs + 2
                cells.append(f"{equal} equal" if equal == 2 else f"**{equal} of 2 equal**")
        print(f"| {name} | " + " | ".join(cells) + f" | {time.monotonic() - began:.0f} |", flush=True)
        for one in told:
            print(one, file=sys.stderr)
    print(f"\n{runs} runs in several processes were compared, {runs - failed} are equal.")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[2] != "--only":
        sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
    cli_test.PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    sys.exit(table(*sys.argv[3:5]))
