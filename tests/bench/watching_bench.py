"""Cost of watching: step times of a run with and without a viewer, and of a program without a hub.

    watching_bench.py [--program FILE] [--before FILE] [--model 4/128/4] [--windows N] [--seconds S] [--json FILE]

*watched*: one run. Windows with `troupe monitor --json` and windows without alternate: A B B A A B B A ... Prints the
ratio of step times (watched / unwatched) with its 95 % interval by a bootstrap over pairs of windows, and the noise:
the same ratio between unwatched windows alone. Step times of shared machines swing by several percent, so it also
prints what watching adds to the CPU time of the run's threads that compute nothing (Linux counts it in nanoseconds),
as a share of the step time: the step grows by at most this share, if these threads delay it by all of their time.
The viewer's own CPU time is printed beside it.
*unwatched*: with --before, runs of that program and of this one alternate. Prints the ratio of whole runs, and what
this program adds to the CPU time of all threads but those that compute, which exist in both.

The time of a window or run is the median of its steps.

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
COMPUTES = "lane"  # first word of the name of each thread that computes
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


def drawn(of, pairs):
    """(value, low, high) of a statistic over pairs, 95 % by a bootstrap."""
    chance = random.Random(1)
    tried = sorted(of(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
    return of(pairs), tried[50], tried[-50]


def interval_of(pairs):
    """(change, low, high) from the first values to the second ones."""
    return drawn(lambda x: statistics.fmean(b for _, b in x) / statistics.fmean(a for a, _ in x) - 1, pairs)


def added_of(pairs, step_ms):
    """(share, low, high): how much more CPU time per step the second values are, as a share of a step."""
    return drawn(lambda x: statistics.fmean(b - a for a, b in x) / step_ms, pairs)


def cpu_ms(pid):
    """CPU time so far of the process's threads that do not compute."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if not (thread / "comm").read_text().startswith(COMPUTES):
                total += int((thread / "schedstat").read_text().split()[0])
        except FileNotFoundError:  # it has ended
            pass
    return total / 1e6


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

        def viewer_ms():
            return cpu_ms(viewer.pid) if viewer else 0

        def window():
            """Step time, and CPU times per step of the run and of the viewer, in milliseconds."""
            first, before, seen = len(step_times(log)), cpu_ms(train.pid), viewer_ms()
            time.sleep(o.seconds)
            after, shown, times = cpu_ms(train.pid), viewer_ms(), step_times(log)[first:]
            return statistics.median(times), (after - before) / len(times), (shown - seen) / len(times)

        pairs, viewer = [], None
        for i in range(o.windows):
            found = {}
            for watched in (False, True) if i % 2 == 0 else (True, False):
                if watched and not viewer:
                    viewer = subprocess.Popen([o.program, "monitor", run, "--json"], stdout=subprocess.DEVNULL)
                    time.sleep(3)
                elif viewer and not watched:
                    viewer.terminate()
                    viewer.wait()
                    viewer = None
                    time.sleep(SETTLES)
                found[watched] = window()
            pairs.append((found[False], found[True]))
            print("pair {}: {:.3f} ms, watched {:.3f} ms; CPU {:.3f} ms, watched {:.3f} ms, viewer {:.3f} ms".format(
                i + 1, found[False][0], found[True][0], found[False][1], *found[True][1:]), file=sys.stderr)
    finally:
        if viewer:
            viewer.kill()
        train.terminate()
        train.communicate()
    of = lambda n: [(a[n], b[n]) for a, b in pairs]
    quiet = [a for a, _ in of(0)]
    step_ms = statistics.fmean(quiet)
    return {"step_ms": step_ms, "watched": interval_of(of(0)), "noise": interval_of(list(zip(quiet[0::2], quiet[1::2]))),
            "added CPU time": added_of(of(1), step_ms), "viewer's CPU time": added_of(of(2), step_ms)}


def measure_before(o, folder):
    def whole(program, i):
        place = folder / f"{i}-{'before' if program == o.before else 'now'}"
        place.mkdir()
        train = subprocess.Popen([program, *words_of(o, place, o.steps)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        used = []  # steps and CPU time while it runs
        while train.poll() is None:
            time.sleep(0.2)
            if (place / "log.jsonl").exists():
                used.append((len(step_times(place / "log.jsonl")), cpu_ms(train.pid)))
        if train.returncode != 0:
            sys.exit(f"{program} failed with exit code {train.returncode}")
        used = [x for x in used if o.steps // 10 <= x[0] < o.steps]  # without start and end
        (first, before), (last, after) = used[0], used[-1]
        return statistics.median(step_times(place / "log.jsonl")[o.steps // 10:]), (after - before) / (last - first)

    pairs = []
    for i in range(o.windows):
        order = (o.before, o.program) if i % 2 == 0 else (o.program, o.before)
        times = {program: whole(program, i) for program in order}
        pairs.append((times[o.before], times[o.program]))
        print("pair {}: {:.3f} ms before, {:.3f} ms now; CPU {:.3f} ms before, {:.3f} ms now".format(
            i + 1, pairs[-1][0][0], pairs[-1][1][0], pairs[-1][0][1], pairs[-1][1][1]), file=sys.stderr)
    of = lambda n: [(a[n], b[n]) for a, b in pairs]
    step_ms = statistics.fmean(a for a, _ in of(0))
    return {"step_ms": step_ms, "unwatched": interval_of(of(0)), "added CPU time": added_of(of(1), step_ms)}


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
            print(f"{name}: {value[0] * 100:+.2f} % ({value[1] * 100:+.2f} to {value[2] * 100:+.2f})")
        else:
            print(f"{name}: {value:.3f}")
    if o.json:
        o.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
