"""Tests examples/monitoring: the scripts with fake wandb and mlflow packages, and the metric names in the dashboard and
in README.md. Run by ctest:

    monitoring_test.py SOURCE_DIR
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RECORDS = [
    {"kind": "run", "at": 1, "id": "ab12", "name": "small", "steps": 3, "layout": {"pipeline": 2}, "commands": []},
    {"kind": "state", "at": 1, "state": "training", "iteration": 0},
    {"kind": "step", "at": 2, "iteration": 1, "lm_loss": 4.5, "grad_norm": 1.25, "state_digest": "00ff"},
    None,  # an empty line, which the hub sends to keep the connection alive
    {"kind": "step", "at": 3, "iteration": 2, "lm_loss": None, "grad_norm": 2},
    {"kind": "event", "at": 4, "iteration": 2, "event": "restart", "who": "stage:0.1", "seconds": 0.5},
    {"kind": "run", "at": 5, "id": "ab12", "name": "small", "steps": 3},  # another process has taken over
    {"kind": "event", "at": 6, "iteration": 2, "event": "restart", "who": "stage:0.1", "seconds": 0.5},
    {"kind": "event", "at": 6, "iteration": 2, "event": "wrong bits", "verdict": "transient"},
    {"kind": "step", "at": 7, "iteration": 3, "lm_loss": 4.25, "grad_norm": 1},
    {"kind": "validation", "at": 8, "iteration": 3, "validation_loss": 4.75},
    {"kind": "a kind of another version"},
]
END = {"kind": "end", "at": 9, "exit_code": 0, "reason": "done"}
LOGGED = [[1, {"lm_loss": 4.5, "grad_norm": 1.25}], [2, {"grad_norm": 2}], [2, {"events/restart": 1}],
          [2, {"events/restart": 2}], [2, {"events/wrong bits": 1}], [3, {"lm_loss": 4.25, "grad_norm": 1}],
          [3, {"validation_loss": 4.75}]]

STUB = """
import atexit, json, os
calls = []
atexit.register(lambda: open(os.environ["CALLS"], "w").write(json.dumps(calls)))
"""
WANDB = STUB + """
class Run:
    def log(self, values, step): calls.append(["log", step, values])
    def finish(self, exit_code): calls.append(["finish", exit_code])
def init(project, id, name, config, resume):
    calls.append(["init", project, id, name, config["steps"], resume])
    return Run()
"""
MLFLOW = STUB + """
def set_experiment(name): calls.append(["experiment", name])
def start_run(run_name, tags): calls.append(["start", run_name, tags]); return object()
def log_params(values): calls.append(["params", values])
def log_metrics(values, step): calls.append(["log", step, values])
def end_run(status): calls.append(["end", status])
"""


def lines_of(records):
    return "".join((json.dumps(x) if x else "") + "\n" for x in records)


def script_complaints(source):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(script, module, text, *words):
            (folder / f"{script[3:-3]}.py").write_text(module)
            done = subprocess.run([sys.executable, "-B", source / "examples/monitoring" / script, *words], input=text,
                                  capture_output=True, text=True, timeout=60, check=False,
                                  env={**os.environ, "PYTHONPATH": str(folder), "CALLS": str(folder / "calls")})
            calls = folder / "calls"
            found = json.loads(calls.read_text()) if calls.exists() else []
            calls.unlink(missing_ok=True)
            return done.returncode, done.stderr, found

        logged = [["log", *x] for x in LOGGED]
        for script, module, begin, ends in (
                ("to_wandb.py", WANDB, [["init", "mine", "ab12", "small", 3, "allow"]],
                 {0: ["finish", 0], 3: ["finish", 3], None: ["finish", 1]}),
                ("to_mlflow.py", MLFLOW,
                 [["experiment", "mine"], ["start", "small", {"troupe.run": "ab12"}],
                  ["params", {"kind": "run", "at": 1, "id": "ab12", "name": "small", "steps": 3}]],
                 {0: ["end", "FINISHED"], 3: ["end", "FAILED"], None: ["end", "FAILED"]})):
            for exit_code, end in ends.items():
                text = lines_of(RECORDS + ([{**END, "exit_code": exit_code}] if exit_code is not None else []))
                code, said, calls = run(script, module, text, "mine")
                if code != 0 or calls != begin + logged + [end]:
                    yield f"{script}, a run that ends with {exit_code}: exit code {code}, {calls}\n{said}"
            for what, given in {"no run": (module, "\n", "mine"), "no argument": (module, lines_of(RECORDS)),
                                "no package": ("raise ImportError", lines_of(RECORDS), "mine")}.items():
                code, said, calls = run(script, *given)
                if code != 1 or not said.startswith(f"{script}: ") or said.count("\n") != 1 or calls:
                    yield f"{script}, {what}: exit code {code}, {calls}\n{said}"
                if what == "no package" and "pip install" not in said:
                    yield f"{script} does not say how to install the package:\n{said}"


def dashboard_complaints(dashboard, known):
    """The dashboard's texts use known metrics, and its panels do not overlap."""
    variables = {x["name"] for x in dashboard["templating"]["list"]}
    if not {"datasource", "instance"} <= variables or dashboard["schemaVersion"] < 36:
        yield f"the dashboard has the variables {variables} and the schema {dashboard['schemaVersion']}"
    ids, cells = set(), set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if panel["id"] in ids or mine & cells or max(x for x, _ in mine) > 23:
            yield f"the panel '{panel['title']}' has the id or the place of another, or is too wide"
        ids.add(panel["id"])
        cells |= mine
        if panel["type"] == "row":
            continue
        if not panel["targets"]:
            yield f"the panel '{panel['title']}' shows nothing"
        for target in panel["targets"]:
            if target["datasource"]["uid"] != "${datasource}" or 'instance="$instance"' not in target["expr"]:
                yield f"the panel '{panel['title']}' ignores a variable: {target}"
            if not re.findall(r"\btroupe_\w+", target["expr"]):
                yield f"the panel '{panel['title']}' shows no metric: {target['expr']}"
    used = set(re.findall(r"\btroupe_\w+", json.dumps(dashboard)))
    for name in sorted(used - known):
        yield f"the dashboard uses {name}, which is not a metric"
    for name in ("troupe_loss", "troupe_tokens_per_second", "troupe_bubble_ratio", "troupe_process_memory_bytes",
                 "troupe_restarts_total", "troupe_device_power_watts"):
        if name not in used:
            yield f"the dashboard does not show {name}"


def complaints(source):
    folder = source / "examples/monitoring"
    known = set(re.findall(r'"(troupe_\w+)"', (source / "runtime/watch/metrics.cpp").read_text()))
    if len(known) < 30:
        yield f"metrics.cpp has only {len(known)} metrics: {sorted(known)}"
    yield from dashboard_complaints(json.loads((folder / "grafana_dashboard.json").read_text()), known)
    page = (folder / "README.md").read_text()
    for name in sorted(set(re.findall(r"\btroupe_\w+", page)) - known):
        yield f"README.md names {name}, which is not a metric"
    for path in folder.iterdir():
        if path.name not in page and path.name != "README.md":
            yield f"README.md does not name {path.name}"
    yield from script_complaints(source)


def main(source):
    wrong = list(complaints(source))
    print("\n".join(wrong) or "the scripts log what they read, and the dashboard shows metrics that exist")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
