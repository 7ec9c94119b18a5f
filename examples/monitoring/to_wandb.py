#!/usr/bin/env python3
"""Logs a live run to Weights & Biases: the numbers of each step and validation, and a count of each kind of event.

    pip install wandb && wandb login
    troupe monitor --run DIR --json | python3 examples/monitoring/to_wandb.py PROJECT
"""
import json
import sys

try:
    import wandb
except ImportError:
    sys.exit("to_wandb.py: cannot load the Python package wandb: run `pip install wandb && wandb login`")
if len(sys.argv) != 2:
    sys.exit("to_wandb.py: give one argument, the project: troupe monitor --run DIR --json | to_wandb.py PROJECT")

run, events, exit_code = None, {}, 1  # 1: no end was read
for line in filter(str.strip, sys.stdin):
    record = json.loads(line)
    kind, step = record.get("kind"), record.get("iteration")
    if kind == "run" and run is None:  # repeats when another process takes over the run
        run = wandb.init(project=sys.argv[1], id=record["id"], name=record["name"], config=record, resume="allow")
    elif kind in ("step", "validation"):
        run.log({name: value for name, value in record.items()
                 if isinstance(value, (int, float)) and name not in ("at", "iteration")}, step=step)
    elif kind == "event":
        events[record["event"]] = events.get(record["event"], 0) + 1
        run.log({f"events/{record['event']}": events[record["event"]]}, step=step)
    elif kind == "end":
        exit_code = record["exit_code"]
if run is None:
    sys.exit("to_wandb.py: standard input has no run: check the output of `troupe monitor --run DIR --json`")
run.finish(exit_code=exit_code)
