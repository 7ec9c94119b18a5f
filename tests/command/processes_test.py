"""Runs over several processes, as their user has them: the same bits, deaths, and nothing left behind. Run by ctest.

    processes_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import cli_test
from cli_test import refuses, works, wrong

JOB = ["train", "gpt", "--mock-data", "--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4,
       "--seq-length", 32, "--max-position-embeddings", 32, "--micro-batch-size", 2, "--global-batch-size", 8,
       "--lr", 1e-3, "--log-interval", 1, "--vocab-size", 128, "--tokenizer-type", "NullTokenizer",
       "--threads-per-worker", 1, "--eval-iters", 0]
PIPELINE = ["--world-size", 4, "--pipeline-model-parallel-size", 2]
LONG = [*PIPELINE, "--train-iters", 60]
PATIENCE = 50  # seconds, which only a hang reaches
JOBS = []  # for the end of this program, whatever came of them


class job:
    """A run of the program in a folder of its own."""

    def __init__(self, folder, *words, processes=2, environment=None):
        self.folder = folder / f"job-{len(JOBS)}"
        self.folder.mkdir()
        self.run, self.log, self.out = (self.folder / x for x in ("run", "log.jsonl", "out.txt"))
        self.shared, self.ports = shared_memory(), set()
        command = [cli_test.PROGRAM, *map(str, [*JOB, "--processes", processes, "--log-file", self.log,
                                               "--run", self.run, *words])]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(environment or {})})
        JOBS.append(self)

    def text(self):
        logs = self.run / "logs"
        return self.out.read_text() + "".join(f"\n--- {x.name}\n{x.read_text()}" for x in sorted(logs.glob("*"))
                                              if x.name != "supervisor.log")

    def fails(self, why):
        return wrong(f"{why}\n{self.text()}")

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := holds():
                return found
            if self.process.poll() is not None:
                if found := holds():
                    return found
                raise self.fails(f"it ended with {self.process.returncode}, and not: {what}")
            time.sleep(0.02)
        raise self.fails(f"not in {PATIENCE} seconds: {what}")

    def records(self):
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def steps(self):
        return [x for x in self.records() if "state_digest" in x]

    def restarts(self):
        return [x for x in self.records() if "restart" in json.dumps(x) and "state_digest" not in x]

    def reaches(self, iteration):
        self.until("its processes listen", lambda: self.look() or self.steps())
        self.until(f"iteration {iteration}", lambda: any(x["iteration"] >= iteration for x in self.steps()))

    def look(self):
        """Remembers on which ports it listens now."""
        self.ports |= listening(self.left())
        return self.ports

    def status(self):
        return json.loads(works("status", "--run", self.run, "--json"))

    def processes(self, role="node"):
        return [x for x in self.status()["processes"] if x["role"] == role and x["running"]]

    def node(self, number):
        """Which process has that place now: the ranks of the first begin at 0."""
        return sorted(self.processes(), key=lambda x: x["ranks"])[number]

    def ends(self, code=0):
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise self.fails(f"it does not end in {PATIENCE} seconds")
        if self.process.returncode != code:
            raise self.fails(f"it ended with {self.process.returncode} instead of {code}")
        self.leaves_nothing()
        return self

    def left(self):
        """The processes of this run, by their command lines."""
        out = []
        for at in pathlib.Path("/proc").iterdir():
            if at.name.isdigit():
                try:
                    if str(self.run).encode() in (at / "cmdline").read_bytes():
                        out.append(int(at.name))
                except OSError:
                    pass
        return out

    def leaves_nothing(self, within=PATIENCE):
        end = time.monotonic() + within
        while time.monotonic() < end:
            left = (self.left(), shared_memory() - self.shared, self.ports & listening(), self.sockets())
            if not any(left):
                return
            time.sleep(0.05)
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)
        raise self.fails(f"within {within} s it leaves processes {left[0]}, shared memory {left[1]}, "
                         f"ports {left[2]}, sockets {left[3]}")

    def sockets(self):
        return [x for x in (self.run / "sockets").glob("*")] if self.run.exists() else []

    def stop(self):
        """Whatever has come of it."""
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def shared_memory():
    """What groups of processes meet in: files of tests and simulations have other names."""
    # Clang's OpenMP, of checked builds alone, registers itself there, and stays when it is killed.
    ours = ("troupe-test-", "troupe-simulate-", "tmp", "__KMP_REGISTERED_LIB_")
    return {x for x in os.listdir("/dev/shm") if not x.startswith(ours)}


def listening(pids=None):
    """The inodes of sockets that listen here; of those processes."""
    out = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            rows = [line.split() for line in open(table).readlines()[1:]]
            out |= {x[9] for x in rows if x[3] == "0A"}
    if pids is None:
        return out
    mine = set()
    for pid in pids:
        for at in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            try:
                name = os.readlink(at)
            except OSError:
                continue
            if name.startswith("socket:["):
                mine.add(name[8:-1])
    return out & mine


def digests(one):
    return [(x["iteration"], x["state_digest"]) for x in one.steps()]


def require_same(one, other, what):
    """Each step once, in order, with the same bits."""
    here, there = digests(one), digests(other)
    if [x for x, _ in here] != list(range(1, len(here) + 1)):
        raise one.fails(f"{what}: the log has the steps {[x for x, _ in here]}")
    if not here or here != there:
        differ = next((a for a, b in zip(here, there) if a != b), None)
        raise one.fails(f"{what}: {len(here)} and {len(there)} steps; the first that differs is {differ}")


def same(folder, *words):
    """In one process, in two and in four: the same bits."""
    one = job(folder, *words, processes=1).ends()
    for n in (2, 4):
        require_same(job(folder, *words, processes=n).ends(), one, f"in {n} processes")


def check_pipelines(folder):
    same(folder, *PIPELINE, "--train-iters", 8)
    same(folder, *PIPELINE, "--train-iters", 4, "--plant-delays", "7,300,300")


def check_tensors(folder):
    same(folder, "--world-size", 4, "--tensor-model-parallel-size", 2, "--sequence-parallel", "--train-iters", 6)


def check_sharded(folder):
    same(folder, *PIPELINE, "--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather",
         "--train-iters", 8)


def check_formats(folder):
    same(folder, *PIPELINE, "--bf16", "--train-iters", 6)
    same(folder, *PIPELINE, "--pipeline-schedule", "zb-h1", "--train-iters", 6)


def check_checkpoints(folder):
    """What several processes save is what one saves, and either goes on from the other's."""
    words = [*PIPELINE, "--train-iters", 8]
    saves = [folder / f"save-{n}" for n in (1, 2)]
    ran = [job(folder, *words, "--save", saves[n - 1], "--save-interval", 4, processes=n).ends() for n in (1, 2)]
    require_same(ran[1], ran[0], "in 2 processes")
    for step in ("iter_0000004", "iter_0000008"):
        works("checkpoint", "diff", saves[0] / step, saves[1] / step)
    for n in (1, 2):
        resumed = job(folder, *words, "--load", saves[1] / "iter_0000004", processes=n).ends()
        if digests(resumed) != digests(ran[0])[4:]:
            raise resumed.fails(f"resumed in {n} processes, it ends with {digests(resumed)}, not {digests(ran[0])}")


def judge(folder, *words):
    return job(folder, *(words or LONG), processes=1).ends()


def killed(one, number, how=signal.SIGKILL):
    at = one.node(number)
    os.kill(at["pid"], how)
    return at


def replaced(one, number, old):
    one.until(f"another process {number}", lambda: [x for x in one.processes()
                                                    if x["ranks"] == old["ranks"] and x["pid"] != old["pid"]])


def is_same(x, y):
    return (x["pid"], x["start_time"]) == (y["pid"], y["start_time"])


def check_killed(folder):
    """A process dies, and another one takes its place; the one beside it lives on."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    beside = one.node(0)
    for iteration in (10, 25):
        one.reaches(iteration)
        replaced(one, 1, killed(one, 1))
    if not is_same(one.node(0), beside):
        raise one.fails(f"the process beside was {beside} and is {one.node(0)}")
    one.ends()
    require_same(one, wanted, "two deaths of a process")
    told = [json.dumps(x) for x in one.restarts()]
    # That its connection has broken may be heard first, and its own host's word too late to be told.
    causes = ("killed by SIGKILL", "its connection is gone")
    if len(told) != 2 or not all('"who": "process:1"' in x and any(y in x for y in causes) for x in told):
        raise one.fails(f"the log tells of {told}")
    if one.text().count("has ended: killed by SIGKILL") != 2:
        raise one.fails("the host agent does not tell of two deaths")


def check_all_killed(folder):
    """With all that keep states dead, it goes back to what was saved, or to the start."""
    wanted = judge(folder)
    for more in ([], ["--save", folder / "save", "--save-interval", 5]):
        one = job(folder, *LONG, *more)
        one.reaches(10)
        for at in one.processes():
            os.kill(at["pid"], signal.SIGKILL)
        one.ends()
        require_same(one, wanted, f"the death of all processes at once {more}")
        if not one.restarts():
            raise one.fails("the log tells of no restart")


def check_stopped(folder):
    """A process that stands still is taken for dead, replaced, and killed."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 2)
    one.reaches(10)
    still = killed(one, 1, signal.SIGSTOP)
    replaced(one, 1, still)
    one.until("who stood still is killed", lambda: still["pid"] not in one.left())
    one.ends()
    require_same(one, wanted, "a process that stands still")


def check_agent_killed(folder):
    """The host agent's death is that of all processes; another agent starts others."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    agent, = one.processes("agent")
    before = [x["pid"] for x in one.processes()]
    os.kill(agent["pid"], signal.SIGKILL)
    one.until("they are gone", lambda: not set(before) & set(one.left()))
    one.ends()
    require_same(one, wanted, "the death of the host agent")
    if "host agent" not in one.text():
        raise one.fails("nobody tells of the host agent's death")


def check_command_killed(folder):
    """Without their supervisor's process the others end by themselves."""
    one = job(folder, *PIPELINE, "--train-iters", 100000, "--suspicion-seconds", 0.5)
    one.reaches(5)
    one.process.kill()
    one.process.wait()
    one.leaves_nothing()  # ten suspicions are 5 s; the bound is for slow machines
    if one.status()["state"] != "died":
        raise one.fails(f"its status is {one.status()}")


def check_asked_to_end(folder):
    """SIGTERM: it finishes its step, saves, and ends in order."""
    save = folder / "save"
    one = job(folder, *PIPELINE, "--train-iters", 100000, "--save", save)
    one.reaches(5)
    one.process.terminate()
    one.ends()
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if newest != one.steps()[-1]["iteration"]:
        raise one.fails(f"it saved iteration {newest} and had come to {one.steps()[-1]['iteration']}")
    works("checkpoint", "verify", save / f"iter_{newest:07}")


def check_without_recovery(folder):
    """--recovery off: a death ends the run early, in order, with that cause."""
    save = folder / "save"
    one = job(folder, *PIPELINE, "--train-iters", 100000, "--recovery", "off", "--save", save, "--save-interval", 5)
    one.reaches(12)
    killed(one, 1)
    one.ends(3)
    told = one.status()["ended"]["reason"]
    if "process:1" not in told or "killed by SIGKILL" not in told:
        raise one.fails(f"the cause is {told!r}")
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if newest < 5:
        raise one.fails(f"the newest checkpoint is {newest}")
    works("checkpoint", "verify", save / f"iter_{newest:07}")


def check_refused(folder):
    job_of = [*JOB, *PIPELINE, "--train-iters", 2]
    refuses("--processes", *job_of, "--processes", 5)
    refuses("--processes", *job_of, "--processes", 2, "--backend", "cuda")
    # A node that is started by hand, to a port on which nobody listens.
    one = job(folder, *PIPELINE, "--train-iters", 100000)
    one.reaches(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, out, err = cli_test.run("node", "--run", one.run, "--process", 0, "--incarnation", 9, "--rendezvous",
                                  f"127.0.0.1:{port}", "--suspicion-seconds", 2)
    if code != 2 or err.count("troupe: ") != 1 or f"127.0.0.1:{port}" not in err:
        raise one.fails(f"a node with a wrong port ends with {code} and says:\n{err}")
    one.process.terminate()
    one.ends()


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
