#!/usr/bin/env python3
"""Resets established TCP connections of a run over two hosts, again and again.

    resets.py PROGRAM [--rounds 100] [--seed 1] [--kinds one,side,pair,...] [--layout pipeline|replicas]
                      [--suspicion 2] [--keep DIR]

The hosts are two network namespaces of this machine. Each round picks a kind of reset and its connections from the
seed, resets them with `ss -K` within a second, and waits until the run commits new steps. A process that its peer cannot
reach moves to the peer's host. A new run over both hosts then takes the next rounds.

    one      one connection
    side     one connection; the other end gets no RST
    pair     two connections
    control  the control connection between the two computing processes, and one between the supervisor's process
             and the other host
    sides    all connections of one process
    all      all connections

Fails when the run ends, when it commits no step for --patience seconds, when all rounds pass without a restart, or when
a step has other bits than those of one process. Prints one line per round. Exit code 77: no network namespaces, or no
`ss -K`.
"""

import argparse
import contextlib
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "command"))
import cli_test  # noqa: E402
import process_runs  # noqa: E402
from cli_test import wrong  # noqa: E402
from host_runs import ENDLESS, NODES, cmdline, keys, network, over  # noqa: E402
from process_runs import JOBS, PIPELINE, require_same  # noqa: E402

KINDS = ["one", "side", "pair", "control", "sides", "all"]
LAYOUTS = {"pipeline": ENDLESS, "replicas": ["--world-size", 4, *ENDLESS[len(PIPELINE):]]}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class connection:
    """An established connection between the two hosts; `ends`: (address, port, pid) on the first and on the second."""

    def __init__(self, ends, ports_of_control):
        self.ends = ends
        self.is_control = bool(ports_of_control & {port for _, port, _ in ends})

    def text(self, names):
        kind = "control" if self.is_control else "data"
        return f"{names.get(self.ends[0][2], '?')}-{names.get(self.ends[1][2], '?')} ({kind})"


class hosts(network):
    def established(self, host):
        """(own address, port), (other address, port) -> pid."""
        found = self.system(*self.within(host), "ss", "-tnpH", "state", "established")
        out = {}
        for line in found.stdout.splitlines():
            words = line.split()
            pid = re.search(r"pid=(\d+)", line)
            ends = [tuple(x.rsplit(":", 1)) for x in words[2:4]]
            if pid and all(address in self.addresses for address, _ in ends):
                out[tuple((address, int(port)) for address, port in ends)] = int(pid[1])
        return out

    def connections(self, ports_of_control):
        first, second = (self.established(host) for host in (0, 1))
        out = []
        for (own, other), pid in first.items():
            there = second.get((other, own))
            if there is not None:
                out.append(connection([(*own, pid), (*other, there)], ports_of_control))
        return out

    def reset(self, x, host=0):
        own, other = x.ends[host], x.ends[1 - host]
        self.system(*self.within(host), "ss", "-K", "-tnH", "state", "established", "src", f"{own[0]}:{own[1]}",
                    "dst", f"{other[0]}:{other[1]}")

    def reset_one_side(self, x, host):
        """Sends the RST to a hardware address that does not exist."""
        self.neighbour(host, "replace", self.addresses[1 - host], "lladdr", "02:00:00:00:00:99", "nud", "permanent")
        try:
            self.reset(x, host)
        finally:
            self.neighbour(host, "del", self.addresses[1 - host])


class campaign:
    def __init__(self, folder, given):
        self.given = given
        self.folder = folder
        self.draw = random.Random(given.seed)
        self.few = ["--suspicion-seconds", given.suspicion]
        if not shutil.which("ss"):
            skip("no `ss` here")
        self.between = hosts()
        self.credentials = keys(folder)
        self.nodes = self.between.nodes(folder, self.credentials, *self.few)
        self.words = LAYOUTS[given.layout]
        self.runs = self.restarts = 0

    def begin(self):
        self.runs += 1
        saves = ["--save", self.folder / f"save-{self.runs}", "--save-interval", self.given.save_interval, "--keep-last", 2]
        self.run = self.between.job(self.folder, *self.words, "--plant-delays", f"7,{self.given.delay},0", *self.few,
                                    "--max-restarts", 1000000, *over(self.nodes, self.credentials),
                                    *(saves if self.given.save_interval else []))
        self.run.reaches(10)
        if not self.is_over_both_hosts():
            raise self.run.fails("the run is not over both hosts at its beginning")

    def end(self):
        """Ends the run, and compares its steps with those of one process without delays."""
        self.run.process.terminate()
        self.run.ends()
        self.restarts += len(self.run.restarts())
        undisturbed = process_runs.job(self.folder, *self.words, "--exit-interval", self.steps(), processes=1).ends()
        require_same(self.run, undisturbed, "after resets")

    def is_over_both_hosts(self):
        """Waits a little for a process that is being replaced."""
        until = time.monotonic() + 2
        while not {"node@0", "node@1"} <= set(self.names().values()):
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def names(self):
        out = {}
        for number, at in enumerate(self.nodes):
            out[at.process.pid] = f"standing-{number}"
            for pid in at.left():
                if b"\0troupe:node\0" in cmdline(pid):
                    out[pid] = f"node@{number}"
                elif b"\0node\0" in cmdline(pid):
                    out[pid] = f"standing-{number}"
        for pid in self.run.left():
            if b"\0supervisor\0" in cmdline(pid):
                out[pid] = "supervisor"
        return out

    def ports_of_control(self):
        texts = [log.read_text(errors="replace") for at in [*self.nodes, self.run] for log in (at.run / "logs").glob("*")]
        ports = {int(x) for text in texts for x in re.findall(r"listens at [\d.]+:(\d+)", text)}
        for at in [*self.nodes, self.run]:
            for place in at.run.glob("rendezvous*"):
                ports |= {int(x) for x in re.findall(r"\"port\": ?(\d+)", place.read_text())}
        return ports | {7000}

    def chosen(self, kind, found, names):
        draw = self.draw
        if kind in ("one", "side"):
            return draw.sample(found, 1)
        if kind == "pair":
            return draw.sample(found, min(2, len(found)))
        if kind == "control":
            ends = [[names.get(pid, "?") for _, _, pid in x.ends] for x in found]
            computing = [x for x, y in zip(found, ends) if x.is_control and y == ["node@0", "node@1"]]
            leading = [x for x, y in zip(found, ends) if x.is_control and y[0] == "supervisor" and y[1] in self.given.other]
            out = [draw.choice(x) for x in (computing, leading) if x]
            draw.shuffle(out)
            return out
        if kind == "sides":
            whose = draw.choice([pid for x in found for _, _, pid in x.ends])
            return [x for x in found if whose in [pid for _, _, pid in x.ends]]
        return found

    def steps(self):
        steps = self.run.steps()
        return steps[-1]["iteration"] if steps else 0

    def drawn(self):
        """A kind of reset, and connections to reset. Waits for connections that are made again."""
        kind = self.draw.choice(self.given.kinds)
        until = time.monotonic() + self.given.patience
        while time.monotonic() < until:
            names = self.names()
            found = self.between.connections(self.ports_of_control())
            whom = self.chosen(kind, sorted(found, key=lambda x: x.ends), names) if found else []
            if whom:
                return kind, whom, found, names
            time.sleep(0.05)
        raise self.run.fails(f"no connection for a reset of kind {kind} in {self.given.patience} s")

    def round(self, number):
        kind, whom, found, names = self.drawn()
        told = ", ".join(x.text(names) for x in whom)
        began = time.monotonic()
        for x in whom:
            if kind == "side":
                self.between.reset_one_side(x, self.draw.randrange(2))
            else:
                self.between.reset(x)
            if len(whom) < 4:
                time.sleep(self.draw.choice([0, 0, 0.01, 0.1, 0.3, 0.7]))
        if number == 1 and len(self.between.connections(set())) == len(found) and not self.run.restarts():
            time.sleep(1)
            if {tuple(x.ends) for x in whom} <= {tuple(x.ends) for x in self.between.connections(set())}:
                skip("`ss -K` resets nothing: the kernel is without CONFIG_INET_DIAG_DESTROY")
        done = self.steps()
        while self.steps() < done + self.given.steps:
            if self.run.process.poll() is not None:
                raise self.run.fails(f"round {number} ({kind}: {told}): the run has ended with {self.run.process.returncode}")
            if time.monotonic() > began + self.given.patience:
                raise self.run.fails(f"round {number} ({kind}: {told}): no step after {done} in {self.given.patience} s")
            time.sleep(0.05)
        took = time.monotonic() - began
        print(f"round {number}: {kind}: {told}: {self.given.steps} steps after {took:.1f} s", flush=True)
        time.sleep(self.draw.random())
        return took

    def play(self):
        took = []
        while len(took) < self.given.rounds:
            self.begin()
            took.append(self.round(len(took) + 1))
            while len(took) < self.given.rounds and self.is_over_both_hosts():
                took.append(self.round(len(took) + 1))
            self.end()
        print(f"{len(took)} rounds in {self.runs} runs: {sum(took) / len(took):.1f} s on average, {max(took):.1f} s at most, "
              f"{self.restarts} restarts")
        if not self.restarts:
            raise self.run.fails(f"no restart in {len(took)} rounds: the resets had no effect")


def main():
    words = argparse.ArgumentParser()
    words.add_argument("program")
    words.add_argument("--rounds", type=int, default=100)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--kinds", type=lambda x: x.split(","), default=KINDS)
    words.add_argument("--suspicion", type=float, default=2)
    words.add_argument("--patience", type=float, default=60, help="seconds without a step")
    words.add_argument("--steps", type=int, default=3, help="after each reset")
    words.add_argument("--delay", type=int, default=20000, help="microseconds, for messages")
    words.add_argument("--other", type=lambda x: x.split(","), default=["node@1", "standing-1"])
    words.add_argument("--save-interval", type=int, default=20, help="steps; 0: nothing is saved")
    words.add_argument("--layout", choices=LAYOUTS, default="pipeline")
    words.add_argument("--keep", type=pathlib.Path, help="folder for the logs of a failure")
    given = words.parse_args()
    cli_test.PROGRAM = str(pathlib.Path(given.program).resolve())
    process_runs.PATIENCE = max(process_runs.PATIENCE, given.patience)
    with tempfile.TemporaryDirectory() as folder:
        try:
            campaign(pathlib.Path(folder), given).play()
        except wrong as failure:
            print(f"FAILED\n{failure}")
            if given.keep:
                shutil.copytree(folder, given.keep, dirs_exist_ok=True, ignore_dangling_symlinks=True,
                                ignore=lambda at, names: [x for x in names if (pathlib.Path(at) / x).is_socket()])
            return 1
        finally:
            with contextlib.suppress(Exception):
                for one in [*JOBS, *NODES]:
                    one.stop()
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
