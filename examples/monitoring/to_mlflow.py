#!/usr/bin/env python3
"""Logs a live run to MLflow: the numbers of each step and validation, and a count of each kind of event.

    pip install mlflow && export MLFLOW_TRACKING_URI=http://HOST:5000
    troupe monitor --run DIR --json | python3 examples/monitoring/to_mlflow.py EXPERIMENT
"""
import json
import sys

try:
    import mlflow
except ImportError:
    sys.exit("to_mlflow.py: cannot load the Python package mlflow: run `pip install mlflow`")
if len(sys.argv) != 2:
    sys.exit("to_mlflow.py: give one argument, the experiment: troupe monitor --run DIR --json | to_mlflow.py NAME")

run, events, exit_code = None, {}, 1  # 1: no end was read
for line in filter(str.strip, sys.stdin):
    record = json.loads(line)
    kind, step = record.get("kind"), record.get("iteration")
    if kind == "run" and run is None:  # repeats when another process takes over the run
        mlflow.set_experiment(sys.argv[1])
        run = mlflow.start_run(run_name=record["name"], tags={"troupe.run": record["id"]})
        mlflow.log_params({name: value for name, value in record.items() if isinstance(value, (int, float, str))})
    elif kind in ("step", "validation"):
        mlflow.log_metrics({name: value for name, value in record.items()
                            if isinstance(value, (int, float)) and name not in ("at", "iteration")}, step=step)
    elif kind == "event":
        events[record["event"]] = events.get(record["event"], 0) + 1
        mlflow.log_metrics({f"events/{record['event']}": events[record["event"]]}, step=step)
    elif kind == "end":
        exit_code = record["exit_code"]
if run is None:
    sys.exit("to_mlflow.py: standard input has no run: check the output of `troupe monitor --run DIR --json`")
mlflow.end_run("FINISHED" if exit_code == 0 else "FAILED")
