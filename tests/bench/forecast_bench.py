"""Forecasts of ten layouts on this machine beside measured steps; the goal is 5 %.

    forecast_bench.py [--program FILE] [--steps N] [--json FILE]

It measures the machine's rates by `troupe doctor --measure`, and describes a cluster of one host whose devices are its
cores. Steps of a model that is not among the ten give the share of the peak rate that products and attention reach
here, in each precision, and with one worker and two: two cores may share a memory bus, or be threads of one core. Then
it runs ten layouts with one thread a worker, and prints a table with the median step and the forecast. About 6 minutes.
Needs only Python's standard library, an idle machine, and two cores.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PATIENCE = 120  # timeout of a run in seconds; 13 runs, of half a minute each on a core with AVX-512
WARM_UP = 2
GOAL = 0.05
COMMON = ["--seq-length", 256, "--vocab-size", 4096, "--global-batch-size", 8, "--hidden-dropout", 0,
          "--attention-dropout", 0]
CALIBRATION = ["--num-layers", 4, "--hidden-size", 512, "--num-attention-heads", 8, "--micro-batch-size", 4]
MODEL = ["--num-layers", 8, "--hidden-size", 384, "--num-attention-heads", 6]
PIPELINE = ["--world-size", 2, "--pipeline-model-parallel-size", 2]
LAYOUTS = {
    "1 worker": ["--micro-batch-size", 4],
    "1 worker, micro-batch 1": ["--micro-batch-size", 1],
    "1 worker, every layer recomputed": ["--micro-batch-size", 4, "--recompute-granularity", "full",
                                         "--recompute-method", "uniform", "--recompute-num-layers", 1],
    "1 worker, bf16": ["--micro-batch-size", 4, "--bf16"],
    "2 data ranks": ["--micro-batch-size", 4, "--world-size", 2],
    "2 data ranks, distributed optimizer": ["--micro-batch-size", 4, "--world-size", 2, "--use-distributed-optimizer"],
    "2 stages": ["--micro-batch-size", 2, *PIPELINE],
    "2 stages, interleaved": ["--micro-batch-size", 2, *PIPELINE, "--num-virtual-stages-per-pipeline-rank", 2],
    "2 stages, zb-h1": ["--micro-batch-size", 2, *PIPELINE, "--pipeline-schedule", "zb-h1"],
    "2 tensor ranks": ["--micro-batch-size", 4, "--world-size", 2, "--tensor-model-parallel-size", 2,
                       "--sequence-parallel"],
}


class failed(Exception):
    pass


def run(program, *words):
    command = [str(program), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def step_of(program, steps, words, folder):
    """Median seconds of a step."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    run(program, "train", "gpt", *COMMON, *words, "--mock-data", "--tokenizer-type", "NullTokenizer",
        "--threads-per-worker", 1, "--data-cache-path", folder / "index", "--train-iters", steps + WARM_UP,
        "--lr", 1e-4, "--eval-interval", 0, "--log-interval", 1, "--log-file", log)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    times = [x["elapsed_ms"] for x in rows if "elapsed_ms" in x][WARM_UP:]
    if len(times) < steps:
        raise failed(f"{log} has {len(times)} steps after the warm-up, not {steps}")
    return statistics.median(times) / 1000


def description(machine, share):
    cores = machine["processor"]["usable"]
    rates = machine["rates"]
    copy = rates["copy"] / cores / 1e9
    return f"""name: this machine
device: {{name: a core, memory: {machine["memory"]["usable"] / cores / 1e9:.3f} GB, bandwidth: {copy:.3f} GB/s,
         f32: {rates["f32"] / cores / 1e9:.3f} GFLOP/s, bf16: {rates["bf16"] / cores / 1e9:.3f} GFLOP/s}}
hosts: 1
devices-per-host: {cores}
inside: {{bandwidth: {copy:.3f} GB/s, latency: 20 us}}
between: {{bandwidth: {copy:.3f} GB/s, latency: 20 us, rails: 1}}
measured: {{products: {share:.4f}, attention: {share:.4f}, memory: 1, links: 1, handoff: 0 ms, step: 0 ms,
           kernel: 0 us}}
"""


def forecast(program, cluster, words):
    found = json.loads(run(program, "forecast", "--cluster", cluster, *COMMON, *words, "--json"))
    return found["seconds"]


def calibrated(program, machine, seconds, words, cluster):
    """Writes the description with the share for which the forecast of `words` takes `seconds`."""
    low, high = 0.01, 1.5
    for _ in range(20):
        middle = (low + high) / 2
        cluster.write_text(description(machine, middle))
        if forecast(program, cluster, words) > seconds:
            low = middle
        else:
            high = middle
    return middle


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/troupe", type=pathlib.Path)
    parser.add_argument("--steps", default=8, type=int)
    parser.add_argument("--json", type=pathlib.Path)
    flags = parser.parse_args()
    machine = json.loads(run(flags.program, "doctor", "--measure", "--json"))
    if machine["processor"]["usable"] < 2:
        raise failed("this machine runs fewer than two threads at once: layouts with two workers would share a core")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clusters = {}
        for workers, precision in ((1, []), (1, ["--bf16"]), (2, [])):
            words = [*CALIBRATION, "--world-size", workers, *precision]
            seconds = step_of(flags.program, flags.steps, words, folder)
            kind = (workers, bool(precision))
            clusters[kind] = folder / f"cluster{len(clusters)}.yaml"
            share = calibrated(flags.program, machine, seconds, words, clusters[kind])
            print(f"{workers} worker(s), {'bf16' if precision else 'fp32'}: {100 * share:.0f} % of the peak rate, "
                  "from another model", flush=True)
        for title, layout in LAYOUTS.items():
            words = [*MODEL, *layout]
            seconds = step_of(flags.program, flags.steps, words, folder)
            told = forecast(flags.program, clusters[2 if "--world-size" in layout else 1, "--bf16" in layout], words)
            rows.append({"layout": title, "measured": seconds, "forecast": told, "error": told / seconds - 1})
    print("\n| layout | measured ms | forecast ms | error |\n|---|---|---|---|")
    for x in rows:
        measured, told = 1000 * x["measured"], 1000 * x["forecast"]
        print(f"| {x['layout']} | {measured:.1f} | {told:.1f} | {100 * x['error']:+.1f} % |")
    close = sum(abs(x["error"]) <= GOAL for x in rows)
    print(f"\n{close} of {len(rows)} layouts within {100 * GOAL:.0f} %")
    if flags.json:
        flags.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (failed, subprocess.TimeoutExpired) as failure:
        print(f"forecast_bench.py: {failure}", file=sys.stderr)
        sys.exit(1)
