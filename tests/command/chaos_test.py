"""`troupe chaos` with real processes: its reports, for runs that hold and runs that do not. Run by ctest.

    chaos_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import refuses, works, wrong
from process_runs import EXPERTS

JOB = ["train", "gpt", "--mock-data", "--num-layers", 2, "--hidden-size", 64, "--num-attention-heads", 4,
       "--seq-length", 32, "--max-position-embeddings", 32, "--micro-batch-size", 2, "--global-batch-size", 8,
       "--lr", 1e-3, "--vocab-size", 128, "--tokenizer-type", "NullTokenizer", "--threads-per-worker", 1,
       "--eval-iters", 0, "--world-size", 2, "--processes", 2, "--train-iters", 240]
PIPELINE = ["--pipeline-model-parallel-size", 2]
# Stages of other families than GPT; the second one of a T5 begins inside its decoder.
FAMILIES = {"bert": PIPELINE,
            "t5": ["--decoder-seq-length", 16, *PIPELINE, "--pipeline-model-parallel-layout", "EeenDt|tL"]}
PATIENCE = 150  # timeout in seconds; only a hang reaches it
OURS = "TROUPE_CHAOS="  # in the environment of every process of a run


def marked():
    """Processes of all runs that chaos started in this test."""
    out = []
    for at in pathlib.Path("/proc").iterdir():
        if at.name.isdigit():
            try:
                words = (at / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(x.startswith(OURS.encode()) for x in words) and MINE.encode() in words:
                out.append(int(at.name))
    return out


MINE = f"TROUPE_CHAOS_TEST={os.getpid()}"


def end_all():
    for pid in marked():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def chaos(folder, *words, job=JOB, more=PIPELINE, code=0):
    """Runs chaos. Returns its report and what it printed."""
    report = folder / "report.json"
    command = [cli_test.PROGRAM, "chaos", *map(str, [*words, "--report", report, "--", *job, *more])]
    name, value = MINE.split("=")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, name: value, "TMPDIR": str(folder)})
    except subprocess.TimeoutExpired as late:
        raise wrong(f"chaos did not end within {PATIENCE} s: {late.stdout}")
    if done.returncode != code:
        raise wrong(f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
                    + "".join(f"\n--- {x}\n{x.read_text(errors='replace')[-6000:]}"
                              for x in sorted(folder.glob("troupe-run-*/run-*/out.txt"))
                              + sorted(folder.glob("troupe-run-*/run-*/run/logs/*"))))
    if left := marked():
        raise wrong(f"chaos left the processes {left} behind")
    return json.loads(report.read_text()), done.stdout + done.stderr


def requires(report, names, wanted):
    """Checks that all oracles hold and that each of `wanted` occurred. The seeds are chosen for that."""
    came = {tuple(x[name] for name in names) for x in report["faults"]}
    if not report["holds"] or report["wrong"] or came != set(wanted):
        raise wrong(f"expected a run that holds, with {sorted(wanted)}; the report is {report}")


def check_nodes(folder):
    """Nodes are killed and crash. Others replace them, the other processes survive, and the report has all parts of
    the time."""
    report, text = chaos(folder, "--kills", 3, "--every-steps", 35, "--seed", 6, "--roles", "node",
                         "--kinds", "SIGKILL,SIGSEGV,abort", more=[*PIPELINE, "--train-iters", 320])
    requires(report, ["kind"], [("SIGKILL",), ("SIGSEGV",), ("abort",)])
    for x in report["faults"]:
        parts = [x[name] for name in ("detect", "release", "respawn", "transfer", "rebuild", "replay", "first_new_step")]
        if None in parts or min(parts) < 0 or x["respawn"] == 0 or x["transfer"] == 0:
            raise wrong(f"the parts of the time are {x}")
        whole = x["detect"] + max(x["release"], x["respawn"]) + x["transfer"] + x["rebuild"] + x["replay"]
        if abs(whole - x["first_new_step"]) > 0.01 + 0.1 * x["first_new_step"]:
            raise wrong(f"the parts add up to {whole}: {x}")
        if len(x["replaced"]) != 1 or x["replaced"] != [x["victim"]] or x["lost"] != 0 or x["computed_again"] > 2:
            raise wrong(f"a death has wrong figures: {x}")
        kept = x["survivors"]["processes"]
        if not {"front", "supervisor", *{"node-0", "node-1"} - {x["victim"]}} < set(kept) or x["victim"] in kept:
            raise wrong(f"the survivors are wrong: {x}")
        if x["survivors"]["count"] != len(kept) or f"replaced {x['victim']}, {len(kept)} kept ({', '.join(kept)})" not in text:
            raise wrong(f"the table does not name {kept}:\n{text}")
    if report["percentiles"]["detect"]["count"] != 3 or report["steps_lost"] != 0:
        raise wrong(f"the report is {report}")
    for x in report["runs"]:
        if x["state_digest"] != report["undisturbed"]["state_digest"] or x["exit_code"] != 0:
            raise wrong(f"a run is {x}")
    if left := list(folder.glob("troupe-run-*")):
        raise wrong(f"a campaign that holds left {left} behind")
    if any(x["folder"] for x in [*report["runs"], report["undisturbed"]]) or "--undisturbed" in report["replay"]:
        raise wrong(f"the report names removed folders: {report}")


def check_experts(folder):
    """Nodes are killed whose experts no other rank holds."""
    report, _ = chaos(folder, "--kills", 3, "--every-steps", 35, "--seed", 6, "--roles", "node", "--kinds", "SIGKILL",
                      more=[*EXPERTS, "--expert-model-parallel-size", 2, "--train-iters", 320])
    requires(report, ["kind"], [("SIGKILL",)])
    if any(x["replaced"] != [x["victim"]] or x["lost"] for x in report["faults"]) or report["steps_lost"] != 0:
        raise wrong(f"the report is {report}")


def check_families(folder):
    """Nodes of a BERT and of a T5 are killed."""
    for name, more in FAMILIES.items():
        report, _ = chaos(folder, "--kills", 2, "--every-steps", 35, "--seed", 6, "--roles", "node", "--kinds",
                          "SIGKILL", job=["train", name, *JOB[2:]], more=more)
        requires(report, ["kind"], [("SIGKILL",)])
        if any(x["replaced"] != [x["victim"]] or x["lost"] for x in report["faults"]) or report["steps_lost"] != 0:
            raise wrong(f"the report on {name} is {report}")


def check_front(folder):
    """The front process is killed, and stopped. No other process is replaced."""
    report, _ = chaos(folder, "--kills", 2, "--every-steps", 35, "--seed", 1, "--roles", "front", "--kinds",
                      "SIGKILL,pause", "--folder", folder / "given", more=[*PIPELINE, "--suspicion-seconds", 2])
    requires(report, ["kind"], [("SIGKILL",), ("pause",)])
    if any(x["computed_again"] or (x["replaced"] not in ([], ["front"])) for x in report["faults"]):
        raise wrong(f"the report is {report}")
    if not all(pathlib.Path(x["folder"], "log.jsonl").exists() for x in report["runs"]):
        raise wrong("a part of the given folder was removed")


def check_moments(folder):
    """A process kills itself at an exact moment, once, and does not repeat it when the step runs again."""
    kinds, moments = ["SIGKILL", "exit", "SIGSEGV", "abort"], ["weight-gradient", "updated", "restore", "acknowledged"]
    report, _ = chaos(folder, "--kills", 4, "--every-steps", 70, "--seed", 37, "--roles", "lane,stage",
                      "--kinds", ",".join(kinds), "--moments", ",".join(moments), more=[*PIPELINE, "--train-iters", 400])
    requires(report, ["kind"], [(x,) for x in kinds])
    requires(report, ["moment"], [(x,) for x in moments])
    requires(report, ["role"], [("lane",), ("stage",)])
    if not all(x["plants"] for x in report["faults"]):
        raise wrong(f"the report is {report}")
    if not all(len(x["replaced"]) == 1 and x["replaced"][0].startswith("node-") for x in report["faults"]):
        raise wrong(f"the report is {report}")


def struck_and_told(report):
    """Checks that each pause and slowdown had an effect, and that failed writes were logged by the run."""
    told = ("is not saved: ", "the run continues and will try again", "states are written to the local disk again")
    for x in report["faults"]:
        at = pathlib.Path(next(run["folder"] for run in report["runs"] if run["number"] == x["run"]))
        texts = [file.read_text(errors="replace") for file in [at / "out.txt", *(at / "run/logs").iterdir()]]
        if x["kind"] in ("pause", "slow") and not x["had_effect"]:
            raise wrong(f"the fault had no effect: {x}")
        if x["had_effect"] and x["kind"] in ("disk-full", "short-write") and not any(word in text for word in told for text in texts):
            raise wrong(f"the report claims an effect, but no log has a failed write: {x}")
    if report["without_effect"] != sum(not x["had_effect"] for x in report["faults"]):
        raise wrong(f"the report is {report}")


def check_gray(folder):
    """Pauses below the suspicion timeout, slowdowns and full disks do not replace live processes. Nodes write
    checkpoints and local snapshots, and the supervisor's process the ledger."""
    saves = ["--save-interval", 20, "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", folder / "local"]
    job = [*PIPELINE, "--suspicion-seconds", 3, "--train-iters", 800, *saves]
    report, _ = chaos(folder, "--kills", 3, "--every-steps", 150, "--seed", 6, "--roles", "node", "--kinds", "pause,slow,disk-full",
                      "--folder", folder / "of-nodes", more=job)
    requires(report, ["role", "kind"], [("node", "pause"), ("node", "slow"), ("node", "disk-full")])
    struck_and_told(report)
    report, _ = chaos(folder, "--kills", 2, "--every-steps", 150, "--seed", 1, "--roles", "supervisor", "--kinds", "slow,short-write",
                      "--undisturbed", folder / "of-nodes/undisturbed/log.jsonl", "--folder", folder / "of-supervisor", more=job)
    requires(report, ["role", "kind"], [("supervisor", "slow"), ("supervisor", "short-write")])
    struck_and_told(report)


def check_memory(folder):
    """A node cannot allocate more memory. If it needs some, it or its process is replaced. If not, the report says
    "no effect" and does not count the fault among those that hold."""
    table = folder / "table.txt"
    report, text = chaos(folder, "--kills", 1, "--every-steps", 35, "--seed", 1, "--roles", "node", "--kinds", "out-of-memory",
                         "--table", table, more=[*PIPELINE, "--suspicion-seconds", 3, "--train-iters", 500])
    requires(report, ["kind"], [("out-of-memory",)])
    x, = report["faults"]
    if x["had_effect"] != bool(x["told"] or x["replaced"]) or x["replaced"] not in ([], [x["victim"]]):
        raise wrong(f"a fault has wrong figures: {x}")
    cell = "ok" if x["had_effect"] else "no effect"
    if f"| node | {cell} |" not in table.read_text() or ("1 had no effect" in text) == x["had_effect"]:
        raise wrong(f"had_effect is {x['had_effect']}, but the table says\n{table.read_text()}{text}")
    if report["without_effect"] != int(not x["had_effect"]):
        raise wrong(f"the report is {report}")


def check_agent(folder):
    """The host's agent is killed. Another agent adopts the nodes, and no step is repeated."""
    report, _ = chaos(folder, "--kills", 3, "--every-steps", 35, "--seed", 6, "--roles", "agent", "--kinds", "SIGKILL",
                      more=[*PIPELINE, "--train-iters", 320])
    for x in report["faults"]:
        if any(name.startswith("node-") for name in x["replaced"]) or x["computed_again"]:
            raise wrong(f"a death has wrong figures: {x}")
        if x["replaced"] != [x["victim"]]:
            raise wrong(f"the agent was not replaced: {x}")


def check_supervisor(folder):
    """The supervisor's process is killed, and stopped beyond the suspicion timeout. A successor reaches the same
    digest."""
    report, _ = chaos(folder, "--kills", 2, "--every-steps", 35, "--seed", 1, "--roles", "supervisor", "--kinds", "SIGKILL,SIGSTOP",
                      more=[*PIPELINE, "--suspicion-seconds", 2])
    requires(report, ["kind"], [("SIGKILL",), ("SIGSTOP",)])
    for x in report["faults"]:
        if x["replaced"] != ["supervisor"] or x["lost"] or not 1 <= x["computed_again"] <= 3 or not x["told"].startswith("supervisor"):
            raise wrong(f"a death has wrong figures: {x}")
    for x in report["runs"]:
        if x["state_digest"] != report["undisturbed"]["state_digest"] or x["exit_code"] != 0:
            raise wrong(f"a run is {x}")


def check_flipped(folder):
    """A flipped bit in one of two replicas is detected. At most the process that had it is replaced."""
    report, _ = chaos(folder, "--kills", 2, "--every-steps", 70, "--seed", 1, "--roles", "lane", "--kinds", "flipped-bits",
                      more=["--recovery", "on"])
    wrongly = [x for x in report["faults"] if x["replaced"] not in ([], ["node-" + x["victim"][5:6]])]
    if not report["holds"] or wrongly:
        raise wrong(f"the report is {report}")


def check_violated(folder):
    """Compared with another job's log and checkpoint, chaos exits with 1. It names the oracle, the place and a
    command that reproduces it."""
    other = folder / "other"
    other.mkdir()
    works(*JOB, *PIPELINE, "--seed", 4321, "--save", other / "save", "--log-file", other / "log.jsonl")
    report, text = chaos(folder, "--kills", 1, "--every-steps", 35, "--seed", 3, "--roles", "node", "--kinds", "SIGKILL",
                         "--undisturbed", other / "log.jsonl", code=1)
    if report["holds"] or not report["runs"][0]["oracles"]["state"] or not report["runs"][0]["oracles"]["checkpoint"]:
        raise wrong(f"the report is {report}")
    for x in ("CHAOS-1, state", "after iteration 1 ", "CHAOS-1, checkpoint", "troupe chaos --only 1", "--seed 3",
              "--every-steps 35", f"--undisturbed {other / 'log.jsonl'}"):
        if x not in text:
            raise wrong(f"the output lacks '{x}':\n{text}")
    if not list(folder.glob("troupe-run-*/run-1/log.jsonl")):
        raise wrong("the folder of the failed run was removed")


def made_up_log(folder, steps):
    """The log of an invented undisturbed run."""
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps({"iteration": n, "state_digest": "0", "elapsed_ms": 10}) + "\n" for n in range(1, steps + 1)))
    return log


def check_never_came(folder):
    """A run that ends before its fault is not a success."""
    report, text = chaos(folder, "--kills", 1, "--every-steps", 600, "--roles", "node", "--kinds", "SIGKILL",
                         "--undisturbed", made_up_log(folder, 2000), more=[*PIPELINE, "--train-iters", 40], code=1)
    if "did not reach iteration" not in text or report["holds"]:
        raise wrong(f"chaos does not report the fault as missing: {text}")


def check_interrupted(folder):
    """Ctrl-C leaves no process of any run."""
    name, value = MINE.split("=")
    one = subprocess.Popen([cli_test.PROGRAM, "chaos", *map(str, ["--kills", 1, "--", *JOB, *PIPELINE])], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, env={**os.environ, name: value, "TMPDIR": str(folder)})
    end = time.monotonic() + PATIENCE
    while len(marked()) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    one.send_signal(signal.SIGINT)
    out = one.communicate(timeout=PATIENCE)[0]
    if one.returncode != 128 + signal.SIGINT or marked():
        raise wrong(f"exit code {one.returncode}; left behind: {marked()}:\n{out}")


def check_words(folder):
    base = ["chaos", "--kills", 1]
    refuses("after -- give the job", *base)
    refuses("leave out --save: troupe chaos", *base, "--", *JOB, "--save", folder)
    refuses("the job has one process", *base, "--", *JOB, "--processes", 1)
    refuses("with --recovery off", *base, "--", *JOB, "--recovery", "off")
    refuses("--num-lyers", *base, "--", *JOB, "--num-lyers", 2)
    over = ["--nodes", "127.0.0.1:1,127.0.0.1:2", "--insecure"]
    refuses("names 0 folders, but the job has 2 nodes", *base, "--", *JOB, *over)
    refuses("names 0 folders, but the job has 3 nodes", *base, "--", *JOB, *over, "--spare-nodes", "127.0.0.1:3")
    refuses(f"no `troupe node --run` with the folder '{folder}'", *base, "--node-folders", folder, "--", *JOB, *over)
    given = [*base, "--undisturbed", made_up_log(folder, 400)]
    refuses("give some of SIGKILL, SIGSTOP", *given, "--kinds", "kill", "--", *JOB)
    refuses("give some of node, front", *given, "--roles", "nodes", "--", *JOB)
    refuses("needs hosts with a link that can be cut", *given, "--kinds", "link-down", "--", *JOB)
    refuses("too few for a fault every", *given, "--every-steps", 1000, "--", *JOB)
    refuses("too few for a fault every", *given, "--every-steps", 1000, "--", *JOB, "--save-interval", 5)
    refuses("leave no possible fault", *given, "--roles", "lane", "--moments", "validate", "--", *JOB)
    refuses("give it --verify-fraction 1", *given, "--roles", "lane", "--kinds", "flipped-bits", "--moments", "forward",
            "--", *JOB)
    refuses("--only 3: the plan has runs 1 to 1", *given, "--every-steps", 70, "--only", 3, "--", *JOB)
    page = works("chaos", "--faults")
    for x in ("flipped-bits", "flipped-moment", "--verify-fraction 1", "shard_writer", "supervisor", "is replaced by a successor"):
        if x not in page:
            raise wrong(f"--faults lacks '{x}'")


if __name__ == "__main__":
    atexit.register(end_all)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
