"""For tests: runs over several processes, with functions to inspect and kill them."""

import atexit
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time

import cli_test
from cli_test import works, wrong

JOB = ["train", "gpt", "--mock-data", "--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4,
       "--seq-length", 32, "--max-position-embeddings", 32, "--micro-batch-size", 2, "--global-batch-size", 8,
       "--lr", 1e-3, "--log-interval", 1, "--vocab-size", 128, "--tokenizer-type", "NullTokenizer",
       "--threads-per-worker", 1, "--eval-iters", 0,
       "--straggler-ratio", 0]  # test machines are busy, and the tests count events
PIPELINE = ["--world-size", 4, "--pipeline-model-parallel-size", 2]
# Experts in place of feed-forward layers. A bias balances them, which each step changes.
EXPERTS = ["--num-experts", 4, "--moe-ffn-hidden-size", 64, "--disable-bias-linear", "--moe-router-score-function",
           "sigmoid", "--moe-router-enable-expert-bias", "--moe-router-bias-update-rate", 0.01,
           "--moe-shared-expert-intermediate-size", 32]
SHARED = ["--world-size", 4, *EXPERTS, "--expert-model-parallel-size", 4]  # each replica has one expert
LONG_STEPS = 400  # long enough to inspect the run and kill a process before it ends
LONG = [*PIPELINE, "--train-iters", LONG_STEPS]
HALF = [*PIPELINE, "--train-iters", LONG_STEPS // 2, "--lr-decay-iters", LONG_STEPS]  # has the same steps as LONG
ENDLESS = [*PIPELINE, "--train-iters", 100000]
JUDGED = os.environ.get("TROUPE_JUDGED")  # log of LONG in one process: check_judge writes it for all other checks
PATIENCE = 100  # timeout in seconds; only a hang reaches it
JOBS = []  # all jobs of this program; ended at exit, because a run that is left slows all later tests
atexit.register(lambda: [one.stop() for one in JOBS])


def with_flags(command, *more):
    out = list(command)
    for flag, value in zip(more[::2], map(str, more[1::2])):
        if flag in out:
            out[out.index(flag) + 1] = value
        else:
            out += [flag, value]
    return out


def parent_of(pid):
    """Pid of the parent; 0 if the process is gone."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def children_first(pids):
    above = {pid: parent_of(pid) for pid in pids}

    def depth(pid):
        return 0 if pid not in above else 1 + depth(above[pid])

    return sorted(pids, key=depth, reverse=True)


class job:
    """A run of the program in its own folder."""

    def __init__(self, folder, *words, processes=2, temporary=False, environment=None, base=JOB, run="run"):
        """`run`: name of the run's folder, inside the job's folder."""
        self.folder = folder / f"job-{len(JOBS)}"
        self.above = self.folder / "temporary"
        self.above.mkdir(parents=True)
        self.given, self.log, self.out = (self.folder / x for x in (run, "log.jsonl", "out.txt"))
        self.temporary = temporary
        self.shared, self.ports = shared_memory(), set()
        index = ["--data-cache-path", cli_test.INDEX] if "--mock-data" in base else []
        self.command = [cli_test.PROGRAM, *map(str, [*base, *index, "--processes", processes, "--log-file", self.log,
                                                    *([] if temporary else ["--run", self.given]), *words])]
        self.environment = {**os.environ, "TMPDIR": str(self.above), **(environment or {})}
        self.start()
        JOBS.append(self)

    def start(self, *more):
        """Runs the command again, with changed flags, and overwrites its previous output."""
        self.command = with_flags(self.command, *more)
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=subprocess.STDOUT, env=self.environment)
        return self

    def dies(self, meanwhile=lambda: None):
        """Kills all processes of the run at once. `meanwhile` is called after all have stopped and before any dies.
        Children come first: when a parent dies, the kernel may continue a stopped child."""
        alive = children_first(self.left())
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            if how == signal.SIGSTOP:
                for pid in alive:
                    self.until("the process has stopped", lambda: is_gone(pid) or is_stopped(pid))
                meanwhile()
        self.process.wait()
        end = time.monotonic() + PATIENCE
        while self.left() and time.monotonic() < end:
            time.sleep(0.02)

    @property
    def run(self):
        """The run's folder; for a temporary one, its current place."""
        return next(self.above.glob("troupe-run-*"), self.above / "gone") if self.temporary else self.given

    def text(self):
        logs = self.run / "logs"
        read = lambda x: x.read_text(errors="replace")  # noqa: E731
        return read(self.out) + "".join(f"\n--- {x.name}\n{read(x)}" for x in sorted(logs.glob("*"))
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
                raise self.fails(f"the run ended with {self.process.returncode} before: {what}")
            time.sleep(0.02)
        raise self.fails(f"not within {PATIENCE} s: {what}")

    def records(self):
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def steps(self):
        return [x for x in self.records() if "state_digest" in x]

    def restarts(self):
        return [x for x in self.records() if "restart" in json.dumps(x) and "state_digest" not in x]

    def reaches(self, iteration):
        self.until("the processes listen", lambda: self.look() or self.steps())
        self.until(f"iteration {iteration}", lambda: any(x["iteration"] >= iteration for x in self.steps()))

    def look(self):
        """Records the ports on which the run's processes listen now."""
        self.ports |= listening(self.left())
        return self.ports

    def status(self):
        return json.loads(works("status", "--run", self.run, "--json"))

    def processes(self, role="node"):
        return [x for x in self.status()["processes"] if x["role"] == role and x["running"]]

    def deciding(self):
        """The supervisor's process."""
        one, = self.processes("supervisor")
        return one

    def nodes(self):
        """Current processes with ranks, sorted by rank."""
        return sorted(self.processes(), key=lambda x: x["ranks"])

    def node(self, number):
        now = self.nodes()
        if number >= len(now):
            raise self.fails(f"there is no process {number} among {now}")
        return now[number]

    def ends(self, code=0):
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise self.fails(f"the run did not end within {PATIENCE} s")
        if self.process.returncode != code:
            raise self.fails(f"exit code {self.process.returncode}, expected {code}")
        if (self.run / "credentials").exists():
            raise self.fails("credentials are left in the run's folder")
        self.leaves_nothing()
        return self

    def goes_on(self, wanted, what):
        """Waits for 20 more steps, ends the run, and compares its steps with `wanted`."""
        self.reaches(self.steps()[-1]["iteration"] + 20)
        self.process.terminate()
        self.ends()
        require_same(self, wanted, what, until=len(self.steps()))

    def left(self):
        """Processes of this run, found by their command lines."""
        out = []
        for at in pathlib.Path("/proc").iterdir():
            if at.name.isdigit():
                try:
                    if os.fsencode(self.folder) in (at / "cmdline").read_bytes():
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
        raise self.fails(f"after {within} s the run left processes {left[0]}, shared memory {left[1]}, "
                         f"ports {left[2]}, sockets {left[3]}")

    def sockets(self):
        return [x for x in (self.run / "sockets").glob("*")] if self.run.exists() else []

    def stop(self):
        """Kills all processes of the run, in any state."""
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def shared_memory():
    """Names of shared memory of groups of processes, without files of tests and simulations."""
    # Clang's OpenMP in sanitizer builds registers itself there, and a killed process leaves its entry behind.
    ours = ("troupe-test-", "troupe-simulate-", "tmp", "__KMP_REGISTERED_LIB_")
    return {x for x in os.listdir("/dev/shm") if not x.startswith(ours)}


def listening(pids=None):
    """Inodes of listening sockets on this machine, or only of those processes."""
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


def require_same(one, other, what, until=None):
    """Checks that the log has each step once, in order, with the bits of `other`, or of its first `until` steps."""
    here, there = digests(one), digests(other)[:until]
    if [x for x, _ in here] != list(range(1, len(here) + 1)):
        raise one.fails(f"{what}: the log has the steps {[x for x, _ in here]}")
    if not here or here != there:
        differ = next((a for a, b in zip(here, there) if a != b), None)
        raise one.fails(f"{what}: {len(here)} and {len(there)} steps; the first difference is {differ}")


def require_same_files(one, other, kind="*"):
    """Checks that both folders have the same file names and bytes."""
    hashes = [{x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in at.glob(kind)} for at in (one, other)]
    if hashes[0] != hashes[1]:
        raise wrong(f"{one} has {hashes[0]}, {other} has {hashes[1]}")


class judged:
    """An undisturbed run that has ended."""

    def __init__(self, log):
        self.log = pathlib.Path(log)

    records, steps = job.records, job.steps


def judge(folder, *words):
    """An undisturbed run in one process. ctest makes that of LONG once, for all tests."""
    if not words and JUDGED:
        return judged(JUDGED)
    return job(folder, *(words or LONG), processes=1).ends()


def killed(one, number, how=signal.SIGKILL):
    at = one.node(number)
    os.kill(at["pid"], how)
    return at


def replaced(one, number, old):
    one.until(f"another process {number}", lambda: [x for x in one.processes()
                                                    if x["ranks"] == old["ranks"] and x["pid"] != old["pid"]])


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]


def is_stopped(pid):
    try:
        return state_of(pid) == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_gone(pid):
    try:
        return state_of(pid) in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def is_same(x, y):
    return (x["pid"], x["start_time"]) == (y["pid"], y["start_time"])


@contextlib.contextmanager
def held(process):
    """Stops a process meanwhile, so that the run does not end during an inspection."""
    os.kill(process["pid"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process["pid"], signal.SIGCONT)


def succeeded(one, old):
    """Waits for the next supervisor's process, also without a front."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := [x for x in one.processes("supervisor") if x["pid"] != old["pid"]]:
            return found[0]
        time.sleep(0.02)
    raise one.fails(f"no new supervisor within {PATIENCE} s")


def require_whole(one):
    """Checks that log and ledger have each step once, in order, whichever process wrote them."""
    steps = [x["iteration"] for x in one.steps()]
    if steps != list(range(1, len(steps) + 1)):
        raise one.fails(f"the log has the iterations {steps}")
    works("ledger", "--run", one.run, "--check")


def pending(pid):
    """Whether the process has undelivered signals."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(x.split()[1], 16) for x in status.splitlines() if x.startswith(("SigPnd", "ShdPnd")))
