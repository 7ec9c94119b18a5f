"""For tests: nodes started by hand, as on several hosts, and runs over them."""

import atexit
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import works, wrong
from process_runs import PATIENCE, PIPELINE, job, require_same

ENDLESS = [*PIPELINE, "--train-iters", 100000, "--lr-decay-style", "constant"]
# Slows runs with long waits down, so that fewer steps are compared and other tests get the processors.
SLOW = ["--plant-delays", "7,20000,0"]
NODES = []
atexit.register(lambda: [one.stop() for one in NODES])


class node:
    """A node started by hand."""

    def __init__(self, folder, *words, listen="127.0.0.1:0", credentials=None, within=()):
        self.folder = folder / f"node-{len(NODES)}"
        self.folder.mkdir()
        self.run, self.out = self.folder / "run", self.folder / "out.txt"
        keys = ["--credentials", credentials] if credentials else []
        command = [*within, cli_test.PROGRAM, "node", "--listen", listen, "--run", self.run, *keys, *words]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen([str(x) for x in command], stdout=out, stderr=subprocess.STDOUT)
        NODES.append(self)
        self.until("the node waits for jobs", lambda: "waits for jobs at" in self.text())
        self.at, = re.findall(r"waits for jobs at (\S+),", self.text())

    def text(self):
        return self.out.read_text()

    def port(self):
        return int(self.at.rsplit(":")[-1])

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := holds():
                return found
            if self.process.poll() is not None and not holds():
                raise wrong(f"the node ended with {self.process.returncode} before: {what}\n{self.text()}")
            time.sleep(0.02)
        raise wrong(f"not within {PATIENCE} s: {what}\n{self.text()}")

    def left(self):
        """Processes that it started, and itself."""
        return job.left(self)

    def ends(self, code=0, by=signal.SIGTERM):
        if by:
            self.process.send_signal(by)
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise wrong(f"the node does not end\n{self.text()}")
        if self.process.returncode != code:
            raise wrong(f"the node ended with {self.process.returncode}, expected {code}\n{self.text()}")
        self.leaves_nothing()

    def leaves_nothing(self):
        end = time.monotonic() + PATIENCE
        while self.left():
            if time.monotonic() > end:
                raise wrong(f"the node left {self.left()} behind\n{self.text()}")
            time.sleep(0.05)

    def stop(self):
        end_host(self)


def keys(folder, name="keys"):
    works("credentials", folder / name)
    return folder / name


def hosts(folder, count=2, credentials=None, *words):
    credentials = credentials or keys(folder)
    return [node(folder, *words, credentials=credentials) for _ in range(count)], credentials


def over(nodes, credentials, spares=()):
    return ["--nodes", ",".join(x.at for x in nodes), "--credentials", credentials,
            *(["--spare-nodes", ",".join(x.at for x in spares)] if spares else [])]


def hosted(one, nodes, number, but=None):
    """The process that hosts that place's ranks: a child of its node's agent."""
    def find():
        from json import loads
        found = [x for x in loads(works("status", "--run", nodes[number].run, "--json"))["processes"]
                 if x["role"] == "node" and x["running"] and x["pid"] != but]
        return found and found[0]
    return one.until(f"process {number} runs", find)


def hosted_there(at):
    """Number of processes with ranks on that node: children of its agent."""
    return len([x for x in at.left() if b"\0troupe:node\0" in cmdline(x)])


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def end_host(at):
    """Kills all processes of a host at once: node, agent, and those that compute."""
    for pid in at.left():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    at.process.wait()


def goes_on(one, steps=5):
    """Waits until the run has committed that many more steps."""
    done = one.steps()[-1]["iteration"]
    one.reaches(done + steps)


def says(one, *texts):
    one.until(f"it prints {texts}", lambda: all(x in one.out.read_text() for x in texts))


def require_undisturbed(folder, one, what):
    """Ends an endless run and compares its bits with a run in one process."""
    one.process.terminate()
    one.ends()
    newest = one.steps()[-1]["iteration"]
    require_same(one, job(folder, *ENDLESS, "--exit-interval", newest, processes=1).ends(), what)


class network:
    """Two hosts as network namespaces of this machine, joined by a switch, so that each keeps its link when the other
    loses its own. The second also has its own process namespace: hosts share no memory, so collectives use the wire."""
    addresses = ["10.213.7.1", "10.213.7.2"]

    def __init__(self):
        *self.names, self.between = (f"troupe-{os.getpid()}-{x}" for x in ("a", "b", "switch"))
        atexit.register(self.remove)
        switch = ["ip", "-n", self.between, "link"]
        for tried in [*(("ip", "netns", "add", x) for x in (*self.names, self.between)),
                      (*switch, "add", "switch", "type", "bridge"),
                      *(("ip", "link", "add", "host0", "netns", name, "type", "veth", "peer", "name", f"port{n}", "netns",
                         self.between) for n, name in enumerate(self.names)),
                      *((*switch, "set", f"port{n}", "master", "switch") for n in (0, 1)),
                      *((*switch, "set", dev, "up") for dev in ("switch", "port0", "port1")),
                      *(("ip", "-n", name, "addr", "add", at + "/24", "dev", "host0")
                        for name, at in zip(self.names, self.addresses)),
                      *(("ip", "-n", name, "link", "set", dev, "up") for name in self.names for dev in ("lo", "host0")),
                      ("ip", "netns", "exec", self.names[1], "unshare", "--pid", "--fork", "--mount-proc", "true")]:
            self.require(*tried)

    def require(self, *words):
        done = self.system(*words)
        if done.returncode != 0:
            print(f"skipped: no such network here: `{' '.join(map(str, words))}`: {done.stderr.strip()}")
            self.remove()
            sys.exit(77)

    @staticmethod
    def system(*words):
        return subprocess.run([str(x) for x in words], capture_output=True, text=True)

    def remove(self):
        for name in (*self.names, self.between):
            self.system("ip", "netns", "del", name)

    def within(self, host):
        return ["ip", "netns", "exec", self.names[host]]

    def nodes(self, folder, credentials, *words):
        apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        return [node(folder, *words, credentials=credentials, listen=f"{self.addresses[host]}:7000",
                     within=[*self.within(host), *(apart if host else [])]) for host in (0, 1)]

    def job(self, folder, *words):
        """A job with its command on the first host."""
        outside = cli_test.PROGRAM
        there = folder / "there"
        there.write_text(f'#!/bin/sh\nexec {" ".join(self.within(0))} {outside} "$@"\n')
        there.chmod(0o755)
        cli_test.PROGRAM = str(there)
        try:
            return job(folder, *words)
        finally:
            cli_test.PROGRAM = outside

    def deafen(self, host):
        """The host receives nothing from the other one, but still sends: the other sends to an unused MAC address."""
        self.neighbour(1 - host, "replace", self.addresses[host], "lladdr", "02:00:00:00:00:99", "nud", "permanent")

    def heal(self, host):
        self.neighbour(1 - host, "del", self.addresses[host])

    def drop_large_packets(self):
        """Packets above 700 bytes are lost from now on, in both directions. No ICMP message reports it."""
        for name in self.names:
            self.require("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "host0", "root", "tbf", "rate", "1gbit",
                         "burst", 700, "limit", 1000000)

    def neighbour(self, host, what, *words):
        done = self.system("ip", "-n", self.names[host], "neigh", what, *words, "dev", "host0")
        if done.returncode != 0:
            raise wrong(f"ip neigh {what} {words}: {done.stderr}")
