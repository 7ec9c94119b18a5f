"""A worker that is slower than the others is named in its third slow step, with the cause. Run by ctest.

    stragglers_test.py PROGRAM NAME...   runs the named checks, or all

The injected delay is 100 ms. A step takes some milliseconds; times without a core are left out. On a busy machine
other workers may be named too, and random slow steps make the run wait for more of them. So one of three runs may name
the worker later. Each run must name it, and no run may name it before.
"""

import re
import sys

import cli_test
from process_runs import JOB, PIPELINE, job, judge, require_same, with_flags

FROM = 60  # the first slow step; by then the usual times are known
THIRD = (FROM + 2, FROM + 3)  # the first slow step may not stand out on a busy machine
WORDS = [*PIPELINE, "--train-iters", FROM + 20]
RUNS = 3


def named(one, who, cause):
    """The step in which the run first names that worker with that cause."""
    steps = [re.search(r" of step (\d+),", x["why"]) for x in one.records()
             if x.get("event") == "straggler" and x["verdict"] == cause and who in re.findall(r"stage:\d+\.\d+", x["who"])]
    return next((int(x[1]) for x in steps if x), None)


def finds(folder, planted, who, cause):
    """STRAGGLER-1: names the worker. The bits stay the same, and no process is replaced."""
    wanted = judge(folder, *WORDS)
    told = []
    for _ in range(RUNS):
        one = job(folder, *WORDS, "--plant-death", planted, processes=4, base=with_flags(JOB, "--straggler-ratio", 1.5)).ends()
        require_same(one, wanted, f"with {planted}")
        if one.restarts():
            raise one.fails(f"a slow process was replaced: {one.restarts()}")
        told.append(named(one, who, cause))
        if told[-1] is None or told[-1] < THIRD[0]:
            raise one.fails(f"{who}, slow from step {FROM} on, is named for {cause} in step {told[-1]}")
        if f" slow: {cause} (" not in one.out.read_text():
            raise one.fails("the command does not show the warning")
    if 2 * sum(x in THIRD for x in told) <= RUNS:
        raise one.fails(f"{who}, slow from step {FROM} on, is named for {cause} in the steps {told}, expected the third")


def check_compute(folder):
    finds(folder, f"lane:1.0@{FROM}:forward:slow", "stage:1.0", "compute")


def check_link(folder):
    finds(folder, f"lane:0.1@{FROM}:redeem:slow", "stage:0.1", "link")


def check_input(folder):
    finds(folder, f"loader@{FROM}:forward:slow", "stage:0.0", "input")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
