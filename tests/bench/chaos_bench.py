"""Cost of process deaths: many kills in a row, one kill per minute, and a shell loop for comparison.

    chaos_bench.py [--program FILE] [--model small|6/384/6] [--kills N] [--every-steps N] [--minutes M]
                   [--roles LIST] [--kinds LIST] [--suspicion S] [--loop-kills N] [--only kills,minute,loop] [--json FILE]

*kills*: `troupe chaos` kills N processes of these roles in runs of 4 processes. Prints p50 and p99 of detect, release,
respawn, transfer, rebuild and replay; the time to the first new step; repeated steps; lost steps.
*minute*: a run of M minutes with a kill every 60 s, and an undisturbed one. Prints the share of effective training.
*loop*: the alternative: --recovery off, a checkpoint after each step, and a shell loop that restarts the job from the
newest one. Nodes are killed at the same steps as in a run of the same length by `troupe chaos`. Prints the same share,
and the time from a kill to the next new step.

Needs only Python's standard library. Run it on an idle machine.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--lr", 1e-4, "--eval-iters", 0, "--log-interval", 10,
        "--threads-per-worker", 1, "--world-size", 4, "--pipeline-model-parallel-size", 2, "--processes", 4]
MODELS = {
    "small": ["--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 32,
              "--max-position-embeddings", 32, "--vocab-size", 128, "--micro-batch-size", 2, "--global-batch-size", 8],
    "6/384/6": ["--num-layers", 6, "--hidden-size", 384, "--num-attention-heads", 6, "--seq-length", 256,
                "--max-position-embeddings", 256, "--vocab-size", 64, "--micro-batch-size", 6, "--global-batch-size", 24],
}
PARTS = ("detect", "release", "respawn", "transfer", "rebuild", "replay", "first_new_step")
PATIENCE = 600  # timeout in seconds without a new step
LOOP = 'while true; do "$@" && exit 0; done'


def job(o, steps, *more):
    return [str(x) for x in ["train", "gpt", *MOCK, *MODELS[o.model], "--train-iters", steps, *more]]


def chaos(o, folder, name, steps, *words, roles="node", kinds="SIGKILL"):
    """Runs chaos and returns its report; prints an exit code other than 0."""
    report = folder / f"{name}.json"
    command = [o.program, "chaos", "--report", report, "--seed", o.seed, "--roles", roles, "--kinds", kinds,
               "--folder", folder / name, *words, "--", *job(o, steps, "--suspicion-seconds", o.suspicion)]
    code = subprocess.run([str(x) for x in command]).returncode
    if code != 0:
        print(f"{name}: troupe chaos ended with {code}", file=sys.stderr)
    return json.loads(report.read_text())


def share_of(report):
    """Share of effective training: undisturbed time of all steps, divided by the time from the first to the last
    commit."""
    useful = sum((x["steps"] - 1) * report["step_seconds"] for x in report["runs"])
    return useful / sum(x["seconds"] for x in report["runs"])


def row(name, values):
    if not values:
        return f"| {name} | 0 | - | - | - |"
    ordered = sorted(values)
    at = lambda p: ordered[max(0, -(-len(ordered) * p // 100) - 1)]  # noqa: E731
    return f"| {name} | {len(ordered)} | {at(50):.3f} | {at(99):.3f} | {ordered[-1]:.3f} |"


def kills(o, folder):
    steps = o.every_steps * 10 + 20  # length of a run, which gets several faults
    report = chaos(o, folder, "kills", steps, "--kills", o.kills, "--every-steps", o.every_steps, roles=o.roles, kinds=o.kinds)
    faults = report["faults"]
    whom = ", ".join(f"{n} of {role}" for role, n in sorted(collections.Counter(x["role"] for x in faults).items()))
    print(f"\n{len(faults)} kills ({whom}) in {len(report['runs'])} runs; a step takes {report['step_seconds'] * 1e3:.1f} ms; "
          f"{'all oracles hold' if report['holds'] else 'NOT all oracles hold'}\n\n| seconds | kills | p50 | p99 | most |\n|---|---|---|---|---|")
    for part in PARTS:
        print(row(part, [x[part] for x in faults if x[part] is not None]))
    print(f"\nsteps computed again: {max(x['computed_again'] for x in faults)} at most, "
          f"{statistics.mean(x['computed_again'] for x in faults):.2f} in the mean; lost: {sum(x['lost'] for x in faults)}\n"
          f"share of its time, if one strikes every 60 s: {report['effective_share_every_60_s']:.4f}", flush=True)
    return report


def minute(o, folder, step_seconds):
    every = max(2, round(60 / step_seconds))
    steps = max(round(o.minutes * 60 / step_seconds), every * 2)
    report = chaos(o, folder, "minute", steps, "--kills", max(1, (steps - 4) * 2 // (every * 3)), "--every-steps", every,
                   roles=o.roles, kinds=o.kinds)
    print(f"\na kill every {every} steps (about 60 s undisturbed), {len(report['faults'])} in {sum(x['seconds'] for x in report['runs']):.0f} s: "
          f"share of effective training {share_of(report):.4f}", flush=True)
    return report


class looped:
    """The job in a shell loop; its log is read while it is written."""

    def __init__(self, o, folder, steps):
        self.folder, self.seen = folder, []  # (iteration, time when it was seen) of each new iteration
        folder.mkdir()
        self.log = folder / "log.jsonl"
        words = job(o, steps, "--recovery", "off", "--save", folder / "save", "--load", folder / "save", "--save-interval", 1,
                    "--keep-last", 2, "--run", folder / "run", "--log-file", self.log)
        with open(folder / "out.txt", "w") as out:
            self.process = subprocess.Popen(["/bin/sh", "-c", LOOP, "loop", str(o.program), *words], stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def newest(self):
        text = self.log.read_text() if self.log.exists() else ""
        steps = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
        reached = max((x["iteration"] for x in steps if "state_digest" in x), default=0)
        if reached > (self.seen[-1][0] if self.seen else 0):
            self.seen.append((reached, time.monotonic()))
        return self.seen[-1][0] if self.seen else 0

    def reaches(self, step):
        last = time.monotonic()
        before = self.newest()
        while (now := self.newest()) < step and self.process.poll() is None:
            if now != before:
                before, last = now, time.monotonic()
            if time.monotonic() - last > PATIENCE:
                sys.exit(f"the loop makes no progress:\n{(self.folder / 'out.txt').read_text()[-3000:]}")
            time.sleep(0.005)
        return now >= step

    def kill_a_node(self, number):
        nodes = sorted((self.folder / "run/processes").glob("node-*.json"))
        os.kill(json.loads(nodes[number % len(nodes)].read_text())["pid"], signal.SIGKILL)
        return time.monotonic()

    def ends(self):
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.returncode != 0:
            sys.exit((self.folder / "out.txt").read_text()[-3000:])


def loop(o, folder, step_seconds):
    every = o.every_steps
    steps = every * o.loop_kills * 2 + 20
    beside = chaos(o, folder, "beside", steps, "--kills", o.loop_kills, "--every-steps", every)
    one = looped(o, folder / "loop", steps)
    back = []
    for x in beside["faults"]:
        if not one.reaches(x["step"]):
            break
        before = one.newest()
        struck = one.kill_a_node(x["number"])
        one.reaches(before + 2)  # the running step may have been committed
        back.append(next(at for n, at in one.seen if n > before + 1) - struck)
    one.ends()
    one.newest()
    whole = one.seen[-1][1] - one.seen[0][1]
    share = (one.seen[-1][0] - one.seen[0][0]) * beside["step_seconds"] / whole
    print(f"\nthe same job, {len(back)} kills, every {every} to {every * 3 // 2} steps\n\n"
          f"| | by chaos | a shell's loop, a checkpoint each step |\n|---|---|---|\n"
          f"| from a kill to the next new step, middle | {statistics.median(x['first_new_step'] for x in beside['faults']):.3f} s | {statistics.median(back):.3f} s |\n"
          f"| share of effective training | {share_of(beside):.4f} | {share:.4f} |", flush=True)
    return {"beside": beside, "loop": {"back": back, "share": share, "seconds": whole}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda x: pathlib.Path(x).resolve(), default=pathlib.Path("build/release/bin/troupe").resolve())
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every-steps", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--loop-kills", type=int, default=10)
    parser.add_argument("--roles", default="node")
    parser.add_argument("--kinds", default="SIGKILL")
    parser.add_argument("--suspicion", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="kills,minute,loop")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    out, wanted = {}, o.only.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "kills" in wanted:
            out["kills"] = kills(o, folder)
        known = out["kills"]["step_seconds"] if out else None
        if known is None and "minute" in wanted:
            known = chaos(o, folder, "short", 100, "--kills", 1, "--every-steps", 20)["step_seconds"]
        if "minute" in wanted:
            out["minute"] = minute(o, folder, known)
        if "loop" in wanted:
            out["loop"] = loop(o, folder, known)
        if o.json:
            o.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
