"""Cost of several processes: training steps, recovery, waiting, and start time and memory.

    processes_bench.py [--program FILE] [--only step,snapshots,idle,growth] [--model NAME] [--layout NAME] [--batch N]
                       [--rounds N] [--steps N] [--warm-up N] [--numbers 8,16,32,64] [--replicas N] [--json FILE]

*step*: the same job in one and in two processes, in turn. Prints the median step time of each round and the median
ratio.
*snapshots*: the same job in two processes, without and with recovery. With recovery each process pulls, verifies and
acknowledges the states of the other's ranks in each step; the bytes do not depend on the batch. Prints the ratios, the
share of a memcpy of these bytes in a step, and the keepers' share of all CPU time, which other load affects less.
*idle*: a lane hangs, so that all processes wait. Prints the CPU time of each process meanwhile.
*growth*: a small job of N ranks in N processes: N replicas, or --replicas of them with N / replicas stages each.
Prints the seconds until all processes run, until the first step, and for the end; memory from /proc/PID/smaps_rollup,
which divides shared pages among processes (PSS); open TCP connections of a process, median and maximum; and, for each
step, packets and bytes on the loopback interface, from all programs of this network namespace. Between two numbers it
prints how each figure grows: as processes^x.

Needs only Python's standard library. Run it on an idle machine.
"""

import argparse
import json
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--lr", 1e-4, "--eval-iters", 0, "--log-interval", 1,
        "--threads-per-worker", 1]
MODELS = {
    "6/384/6": ["--num-layers", 6, "--hidden-size", 384, "--num-attention-heads", 6, "--seq-length", 256,
                "--max-position-embeddings", 256, "--vocab-size", 64, "--micro-batch-size", 6],
    "GPT-2 124M": ["--num-layers", 12, "--hidden-size", 768, "--num-attention-heads", 12, "--seq-length", 256,
                   "--max-position-embeddings", 1024, "--vocab-size", 50304, "--micro-batch-size", 2],
}
LAYOUTS = {
    "2 replicas": ["--world-size", 2, "--global-batch-size", 24],
    "2 stages": ["--world-size", 2, "--pipeline-model-parallel-size", 2, "--global-batch-size", 24],
    "2 tensor ranks": ["--world-size", 2, "--tensor-model-parallel-size", 2, "--sequence-parallel",
                       "--global-batch-size", 12],
}
SMALL = ["--hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 32,
         "--max-position-embeddings", 32, "--vocab-size", 128, "--micro-batch-size", 1]
PATIENCE = 300  # timeout in seconds


class training:
    """A run of the program; its log is read while it is written."""

    def __init__(self, o, folder, *words):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.run, self.log = self.folder / "run", self.folder / "log.jsonl"
        self.begin = time.monotonic()
        with open(self.folder / "out.txt", "w") as out:
            command = [o.program, "train", "gpt", *MOCK, "--log-file", self.log, "--run", self.run, *words]
            self.process = subprocess.Popen([str(x) for x in command], stdout=out, stderr=subprocess.STDOUT)

    def steps(self):
        text = self.log.read_text() if self.log.exists() else ""
        records = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
        return [x for x in records if "state_digest" in x]

    def until(self, holds):
        while not (found := holds()):
            if self.process.poll() is not None or time.monotonic() - self.begin > PATIENCE:
                self.process.kill()
                sys.exit((self.folder / "out.txt").read_text()[-3000:])
            time.sleep(0.01)
        return found

    def ends(self):
        self.process.wait(PATIENCE)
        if self.process.returncode != 0:
            sys.exit((self.folder / "out.txt").read_text()[-3000:])

    def entries(self):
        """Live processes of the run's folder: pid by name."""
        out = {}
        for path in sorted((self.run / "processes").glob("*.json")):
            try:
                entry = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            if pathlib.Path(f"/proc/{entry['pid']}").exists():
                out[path.stem] = entry["pid"]
        return out


def step(o, folder, rows):
    for model, shape in MODELS.items():
        for layout, ranks in LAYOUTS.items():
            if o.model not in (None, model) or o.layout not in (None, layout):
                continue
            ratios, times = [], {1: [], 2: []}
            for _ in range(o.rounds):
                for processes in (1, 2):
                    one = training(o, folder, *shape, *ranks, "--recovery", "off", "--train-iters", o.steps + o.warm_up,
                                   "--processes", processes)
                    one.ends()
                    times[processes].append(statistics.median(x["elapsed_ms"] for x in one.steps()[o.warm_up:]))
                ratios.append(times[2][-1] / times[1][-1])
            rows.append({"part": "step", "model": model, "layout": layout,
                         "one_ms": statistics.median(times[1]), "two_ms": statistics.median(times[2]),
                         "ratio": statistics.median(ratios), "ratios": ratios})
            print(f"{model}, {layout}: one process {rows[-1]['one_ms']:.1f} ms, two {rows[-1]['two_ms']:.1f} ms, "
                  f"ratio {rows[-1]['ratio']:.3f} ({', '.join(f'{x:.3f}' for x in ratios)})", flush=True)


def copied_per_second():
    """Bytes per second of a memcpy by one thread, with blocks that exceed all caches."""
    size, rates = 1 << 28, []
    here, there = bytearray(size), bytearray(size)
    for _ in range(5):
        begin = time.perf_counter()
        memoryview(there)[:] = here
        rates.append(size / (time.perf_counter() - begin))
    return statistics.median(rates)


def actor_seconds(one):
    """CPU time of the threads of detached actors, of which only keepers work during steps, and of all threads."""
    out = [0.0, 0.0]
    for name, pid in one.entries().items():
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir() if name.startswith("node-") else ():
            try:
                name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:  # a thread that has ended
                continue
            seconds = sum(int(x) for x in rest.split()[11:13]) / TICKS
            out[0] += seconds if name == "caf.actor" else 0
            out[1] += seconds
    return out


def snapshots(o, folder, rows):
    for model, shape in MODELS.items():
        for layout, ranks in LAYOUTS.items():
            if o.model not in (None, model) or o.layout not in (None, layout):
                continue
            ratios, times, kept, shares = [], {"off": [], "on": []}, 0, []
            for turn in range(o.rounds):
                for recovery in ("off", "on") if turn % 2 == 0 else ("on", "off"):
                    batch = ["--global-batch-size", o.batch] if o.batch else []
                    one = training(o, folder, *shape, *ranks, *batch, "--recovery", recovery, "--train-iters", o.steps + o.warm_up,
                                   "--processes", 2)
                    if recovery == "on":
                        one.until(lambda: len(one.steps()) >= o.warm_up)
                        before = actor_seconds(one)
                        one.until(lambda: len(one.steps()) >= o.steps + o.warm_up - 1)
                        after = actor_seconds(one)
                        shares.append((after[0] - before[0]) / (after[1] - before[1]))
                    one.ends()
                    times[recovery].append(statistics.median(x["elapsed_ms"] for x in one.steps()[o.warm_up:]))
                    if recovery == "on":
                        said = re.findall(r"keeps the two newest states of another one's ranks: ([\d.]+) (\w+)",
                                          (one.folder / "out.txt").read_text())
                        kept = sum(float(x) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit] for x, unit in said) / 2
                ratios.append(times["on"][-1] / times["off"][-1])
            off = statistics.median(times["off"])
            copy = kept / copied_per_second() * 1e3 / off
            rows.append({"part": "snapshots", "model": model, "layout": layout, "off_ms": off,
                         "on_ms": statistics.median(times["on"]), "ratio": statistics.median(ratios), "ratios": ratios,
                         "bytes_a_step": kept, "memcpy_over_step": copy, "keepers_share": statistics.median(shares)})
            print(f"{model}, {layout}: without recovery {off:.1f} ms, with {rows[-1]['on_ms']:.1f} ms, ratio "
                  f"{rows[-1]['ratio']:.4f} ({', '.join(f'{x:.4f}' for x in ratios)}); {kept / 1e6:.1f} MB are kept in each "
                  f"step, memcpy of which takes {copy:.4f} of it; keepers take {rows[-1]['keepers_share']:.4f} of the processor time",
                  flush=True)


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def idle(o, folder, rows):
    watched = 20  # seconds
    one = training(o, folder, *SMALL, "--num-layers", 2, "--world-size", 2, "--global-batch-size", 4, "--train-iters",
                   100000, "--processes", 2, "--plant-death", "lane:0.0@20:forward:hang", "--suspicion-seconds", 600)
    one.until(lambda: one.steps() and one.steps()[-1]["iteration"] >= 19)
    time.sleep(2)
    pids = one.entries()
    before = {name: processor_seconds(pid) for name, pid in pids.items()}
    time.sleep(watched)
    for name, pid in pids.items():
        share = (processor_seconds(pid) - before[name]) / watched
        rows.append({"part": "idle", "process": name, "share_of_a_core": share})
        print(f"{name} while it waits: {share:.4f} of a core", flush=True)
    for pid in [one.process.pid, *pids.values()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    one.process.wait()


def proportional_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(pid)


def connections(pid):
    """Established TCP connections of a process; each end on this machine counts."""
    sockets = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(fd))
        except OSError:  # closed meanwhile
            continue
    established = 0
    for table in ("tcp", "tcp6"):
        path = pathlib.Path(f"/proc/{pid}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            established += fields[3] == "01" and f"socket:[{fields[9]}]" in sockets
    return established


def loopback():
    """Packets and bytes that the loopback interface has received."""
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            received = counts.split()
            return int(received[1]), int(received[0])
    sys.exit("processes_bench: /proc/net/dev has no loopback interface 'lo'")


def print_growth(rows):
    figures = ["stand_s", "first_step_s", "step_ms", "node_bytes", "supervisor_bytes", "node_connections",
               "most_connections", "supervisor_connections", "packets_a_step", "bytes_a_step"]
    for before, now in zip(rows, rows[1:]):
        if before["processes"] == now["processes"]:
            continue
        size = math.log(now["processes"] / before["processes"])
        exponents = [f"{x} {math.log(now[x] / before[x]) / size:.2f}" for x in figures if before[x] > 0 and now[x] > 0]
        print(f"{before['processes']} to {now['processes']} processes, exponents: {', '.join(exponents)}", flush=True)


def growth(o, folder, rows):
    begin = len(rows)
    for number in o.numbers:
        replicas = o.replicas or number
        stages = number // replicas
        shape = [*SMALL, "--num-layers", max(2, stages), "--pipeline-model-parallel-size", stages]
        one = training(o, folder, *shape, "--world-size", number, "--global-batch-size", replicas, "--train-iters",
                       100000, "--processes", number, "--suspicion-seconds", 60)
        one.until(lambda: sum(x.startswith("node-") for x in one.entries()) == number)
        stand = time.monotonic() - one.begin
        one.until(one.steps)
        first = time.monotonic() - one.begin
        one.until(lambda: len(one.steps()) >= 5)
        since, before = len(one.steps()), loopback()
        one.until(lambda: len(one.steps()) >= since + 15)
        steps, after = len(one.steps()) - since, loopback()
        memory = {name: proportional_bytes(pid) for name, pid in one.entries().items()}
        open_to = {name: connections(pid) for name, pid in one.entries().items()}
        of_steps = statistics.median(x["elapsed_ms"] for x in one.steps()[5:])
        ends = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        one.ends()
        nodes = [x for name, x in memory.items() if name.startswith("node-")]
        open_in_nodes = [x for name, x in open_to.items() if name.startswith("node-")]
        rows.append({"part": "growth", "processes": number, "stand_s": stand, "first_step_s": first,
                     "end_s": time.monotonic() - ends, "step_ms": of_steps, "node_bytes": statistics.median(nodes),
                     "supervisor_bytes": memory["supervisor"], "all_bytes": sum(memory.values()),
                     "replicas": replicas, "node_connections": statistics.median(open_in_nodes),
                     "most_connections": max(open_in_nodes),
                     "supervisor_connections": open_to["supervisor"],
                     "packets_a_step": (after[0] - before[0]) / steps, "bytes_a_step": (after[1] - before[1]) / steps})
        print(f"{number} processes: all have an entry after {stand:.2f} s, the first step after {first:.2f} s, a step "
              f"{of_steps:.1f} ms, the end {rows[-1]['end_s']:.2f} s; memory (PSS) of a node "
              f"{rows[-1]['node_bytes'] / 2**20:.1f} MiB, of the supervisor {memory['supervisor'] / 2**20:.1f} MiB, "
              f"of all {sum(memory.values()) / 2**20:.0f} MiB; TCP connections of a node "
              f"{rows[-1]['node_connections']:.0f}, at most {rows[-1]['most_connections']}, of the supervisor {rows[-1]['supervisor_connections']}; a step "
              f"{rows[-1]['packets_a_step']:.0f} packets and {rows[-1]['bytes_a_step'] / 1e3:.1f} kB on the loopback "
              f"interface", flush=True)
    print_growth(rows[begin:])


def main():
    parts = {"step": step, "snapshots": snapshots, "idle": idle, "growth": growth}
    line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    line.add_argument("--program", default="build/release/bin/troupe")
    line.add_argument("--only", default=",".join(parts))
    line.add_argument("--model", choices=MODELS)
    line.add_argument("--layout", choices=LAYOUTS)
    line.add_argument("--batch", type=int, help="samples a step, for snapshots")
    line.add_argument("--rounds", type=int, default=5)
    line.add_argument("--steps", type=int, default=30)
    line.add_argument("--warm-up", type=int, default=5, help="steps that are not counted")
    line.add_argument("--numbers", default="8,16,32,64")
    line.add_argument("--replicas", type=int, help="for growth; default: one a process")
    line.add_argument("--json")
    o = line.parse_args()
    o.numbers = [int(x) for x in o.numbers.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for part in o.only.split(","):
            parts[part](o, folder, rows)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
