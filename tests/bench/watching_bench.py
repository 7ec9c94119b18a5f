"""Cost of watching: step times of a run with and without a viewer, and of a program without a hub.

    watching_bench.py [--program FILE] [--before FILE] [--model 4/128/4] [--windows N] [--seconds S] [--json FILE]

*watched*: one run. Windows with `troupe monitor --json` and windows without alternate: A B B A A B B A ... Prints the
ratio of step times (watched / unwatched) with its 95 % interval by a bootstrap over pairs of windows, and the noise:
the same ratio between unwatched windows alone.
*unwatched*: with --before, runs of that program and of this one alternate. Prints the same ratio for whole runs.

Samples of processes come once a second until 30 s after a viewer's last request, so a window without one begins later.
Needs only Python's standard library. Run it on an idle machine.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 1000, "--lr", 1e-4, "--eval-iters", 0,
        "--log-interval", 1000, "--threads-per-worker", 1]
LAYOUT = ["--world-size", 2, "--pipeline-model-parallel-size", 2]
SETTLES = 33  # seconds after the last look until a run counts as unwatched
PATIENCE = 120


def words_of(o, folder, steps, *more):
    layers, hidden, heads = o.model.split("/")
    return [str(x) for x in ["train", "gpt", *MOCK, *LAYOUT, "--num-layers", layers, "--hidden-size", hidden,
                             "--num-attention-heads", heads, "--seq-length", 64, "--max-position-embeddings", 64,
                             "--micro-batch-size", 2, "--global-batch-size", 8, "--train-iters", steps,
                             "--log-file", folder / "log.jsonl", *more]]


def step_times(file):
    """Milliseconds of all steps so far."""
    out = []
    for line in file.read_text().splitlines():
        try:
            out.append(json.loads(line)["elapsed_ms"])
        except (ValueError, KeyError):
            pass
    return out


def interval_of(pairs):
    """(ratio, low, high): mean of the second values over mean of the first ones, 95 % by a bootstrap."""
    ratio = lambda x: statistics.fmean(b for _, b in x) / statistics.fmean(a for a, _ in x)
    chance = random.Random(1)
    drawn = sorted(ratio(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
    return ratio(pairs), drawn[50], drawn[-50]


def measure_watched(o, folder):
    run, log = folder / "run", folder / "log.jsonl"
    train = subprocess.Popen([o.program, *words_of(o, folder, 10**7, "--run", run)], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + PATIENCE
        while not (log.exists() and len(step_times(log)) > 100):
            if train.poll() is not None or time.monotonic() > end:
                sys.exit(f"the run did not start: {train.stderr.read() if train.poll() is not None else ''}")
            time.sleep(0.5)

        def window(watched):
            viewer = None
            if watched:
                viewer = subprocess.Popen([o.program, "monitor", run, "--json"], stdout=subprocess.DEVNULL)
                time.sleep(2)
            first = len(step_times(log))
            time.sleep(o.seconds)
            times = step_times(log)[first:]
            if viewer:
                viewer.terminate()
                viewer.wait()
                time.sleep(SETTLES)
            return statistics.fmean(times)

        pairs, quiet = [], []
        for i in range(o.windows):
            order = (False, True) if i % 2 == 0 else (True, False)
            times = {watched: window(watched) for watched in order}
            pairs.append((times[False], times[True]))
            quiet.append(times[False])
            print(f"window {i + 1}: {times[False]:.3f} ms, watched {times[True]:.3f} ms", file=sys.stderr)
    finally:
        train.terminate()
        train.communicate()
    noise = list(zip(quiet[0::2], quiet[1::2]))
    return {"step_ms": statistics.fmean(quiet), "watched": interval_of(pairs), "noise": interval_of(noise)}


def measure_before(o, folder):
    def whole(program, i):
        place = folder / f"{i}-{'before' if program == o.before else 'now'}"
        place.mkdir()
        subprocess.run([program, *words_of(o, place, o.steps)], check=True, capture_output=True)
        return statistics.fmean(step_times(place / "log.jsonl")[o.steps // 10:])

    pairs = []
    for i in range(o.windows):
        order = (o.before, o.program) if i % 2 == 0 else (o.program, o.before)
        times = {program: whole(program, i) for program in order}
        pairs.append((times[o.before], times[o.program]))
        print(f"pair {i + 1}: {pairs[-1][0]:.3f} ms before, {pairs[-1][1]:.3f} ms now", file=sys.stderr)
    return {"step_ms": statistics.fmean(a for a, _ in pairs), "unwatched": interval_of(pairs)}


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    by = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    by.add_argument("--program", default=here / "build/release/bin/troupe", type=pathlib.Path)
    by.add_argument("--before", type=pathlib.Path, help="the program of an earlier commit")
    by.add_argument("--model", default="4/128/4", help="layers/hidden size/heads")
    by.add_argument("--windows", default=8, type=int, help="pairs of windows, or of runs")
    by.add_argument("--seconds", default=15, type=float, help="of a window")
    by.add_argument("--steps", default=1000, type=int, help="of a run with --before")
    by.add_argument("--json", type=pathlib.Path)
    o = by.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = measure_before(o, folder) if o.before else measure_watched(o, folder)
    for name, value in found.items():
        if isinstance(value, tuple):
            print(f"{name}: {(value[0] - 1) * 100:+.2f} % ({(value[1] - 1) * 100:+.2f} to {(value[2] - 1) * 100:+.2f})")
        else:
            print(f"{name}: {value:.3f}")
    if o.json:
        o.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
