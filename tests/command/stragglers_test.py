"""A worker that is slow among others, each in a process of its own, is named in the third slow step, and why. Run by ctest.

    stragglers_test.py PROGRAM NAME...   runs the named checks, or all

What is planted takes 100 ms longer each time. A step takes some milliseconds, and seconds in which a worker has no core are
left out. On a busy machine others may be named, too, and several slow steps by chance have the run wait for more of them: so
of three runs one may name the worker later. None may name it for that reason before, and none may not name it.
"""

import atexit
import re
import sys

import cli_test
from process_runs import JOB, JOBS, PIPELINE, job, judge, require_same, with_flags

FROM = 60  # the first slow step: what is usual is known by then
THIRD = (FROM + 2, FROM + 3)  # the first may not stand out on a busy machine
WORDS = [*PIPELINE, "--train-iters", FROM + 20]
RUNS = 3


def named(one, who, cause):
    """The step in which it is first said of that one, for that reason."""
    steps = [re.search(r" of step (\d+),", x["why"]) for x in one.records()
             if x.get("event") == "straggler" and x["verdict"] == cause and who in re.findall(r"stage:\d+\.\d+", x["who"])]
    return next((int(x[1]) for x in steps if x), None)


def finds(folder, planted, who, cause):
    """STRAGGLER-1, and no bit is changed, nobody replaced."""
    wanted = judge(folder, *WORDS)
    told = []
    for _ in range(RUNS):
        one = job(folder, *WORDS, "--plant-death", planted, processes=4, base=with_flags(JOB, "--straggler-ratio", 1.5)).ends()
        require_same(one, wanted, f"with {planted}")
        if one.restarts():
            raise one.fails(f"somebody was replaced for being slow: {one.restarts()}")
        told.append(named(one, who, cause))
        if told[-1] is None or told[-1] < THIRD[0]:
            raise one.fails(f"{who}, slow from step {FROM} on, is named for {cause} in step {told[-1]}")
        if f" slow: {cause} (" not in one.out.read_text():
            raise one.fails("the command does not show it")
    if 2 * sum(x in THIRD for x in told) <= RUNS:
        raise one.fails(f"{who}, slow from step {FROM} on, is named for {cause} in the steps {told}, not in the third")


def check_compute(folder):
    finds(folder, f"lane:1.0@{FROM}:forward:slow", "stage:1.0", "compute")


def check_link(folder):
    finds(folder, f"lane:0.1@{FROM}:redeem:slow", "stage:0.1", "link")


def check_input(folder):
    finds(folder, f"loader@{FROM}:forward:slow", "stage:0.0", "input")


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
