"""Runs over several processes, as their user has them: the same bits, deaths, and nothing left behind. Run by ctest.

    processes_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
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
       "--threads-per-worker", 1, "--eval-iters", 0,
       "--straggler-ratio", 0]  # machines of tests are busy, and events are counted
PIPELINE = ["--world-size", 4, "--pipeline-model-parallel-size", 2]
LONG_STEPS = 400  # it is still running when somebody has looked at it and kills
LONG = [*PIPELINE, "--train-iters", LONG_STEPS]
HALF = [*PIPELINE, "--train-iters", LONG_STEPS // 2, "--lr-decay-iters", LONG_STEPS]  # its steps are those of LONG
JUDGED = os.environ.get("TROUPE_JUDGED")  # the log of LONG in one process: of check_judge, for all other checks
PATIENCE = 100  # seconds, which only a hang reaches
JOBS = []  # for the end of this program, whatever came of them


def with_flags(command, *more):
    out = list(command)
    for flag, value in zip(more[::2], map(str, more[1::2])):
        if flag in out:
            out[out.index(flag) + 1] = value
        else:
            out += [flag, value]
    return out


def parent_of(pid):
    """0: it is gone."""
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
    """A run of the program in a folder of its own."""

    def __init__(self, folder, *words, processes=2, temporary=False, environment=None, base=JOB):
        self.folder = folder / f"job-{len(JOBS)}"
        self.above = self.folder / "temporary"
        self.above.mkdir(parents=True)
        self.given, self.log, self.out = (self.folder / x for x in ("run", "log.jsonl", "out.txt"))
        self.temporary = temporary
        self.shared, self.ports = shared_memory(), set()
        index = ["--data-cache-path", cli_test.INDEX.name] if "--mock-data" in base else []
        self.command = [cli_test.PROGRAM, *map(str, [*base, *index, "--processes", processes, "--log-file", self.log,
                                                    *([] if temporary else ["--run", self.given]), *words])]
        self.environment = {**os.environ, "TMPDIR": str(self.above), **(environment or {})}
        self.start()
        JOBS.append(self)

    def start(self, *more):
        """By the same command, from now on with other values of some flags; what it told before is forgotten."""
        self.command = with_flags(self.command, *more)
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=subprocess.STDOUT, env=self.environment)
        return self

    def dies(self, meanwhile=lambda: None):
        """With all of its processes, at once; `meanwhile`: nobody runs, and nobody has died. Children first: the kernel
        continues a stopped agent when its guard dies, whose session it is in."""
        alive = children_first(self.left())
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            if how == signal.SIGSTOP:
                for pid in alive:
                    self.until("it has stopped", lambda: is_gone(pid) or is_stopped(pid))
                meanwhile()
        self.process.wait()
        end = time.monotonic() + PATIENCE
        while self.left() and time.monotonic() < end:
            time.sleep(0.02)

    @property
    def run(self):
        """Its folder; of a temporary one where it is."""
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

    def deciding(self):
        """The supervisor's process."""
        one, = self.processes("supervisor")
        return one

    def nodes(self):
        """Which processes have the places now: the ranks of the first begin at 0."""
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
            raise self.fails(f"it does not end in {PATIENCE} seconds")
        if self.process.returncode != code:
            raise self.fails(f"it ended with {self.process.returncode} instead of {code}")
        if (self.run / "credentials").exists():
            raise self.fails("its credentials are left in its folder")
        self.leaves_nothing()
        return self

    def goes_on(self, wanted, what):
        """Some steps more, with the same bits: then it is asked to end, for what follows shows no more."""
        self.reaches(self.steps()[-1]["iteration"] + 20)
        self.process.terminate()
        self.ends()
        require_same(self, wanted, what, until=len(self.steps()))

    def left(self):
        """The processes of this run, by their command lines."""
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


def require_same(one, other, what, until=None):
    """Each step once, in order, with the same bits; `until`: of the other only so many."""
    here, there = digests(one), digests(other)[:until]
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
        require_same_files(*(x / step for x in saves))
    if any(x.name.endswith(".partial") for x in saves[1].iterdir()):
        raise ran[1].fails(f"half a checkpoint is left: {sorted(saves[1].iterdir())}")
    for n in (1, 2):
        resumed = job(folder, *words, "--load", saves[1] / "iter_0000004", processes=n).ends()
        if digests(resumed) != digests(ran[0])[4:]:
            raise resumed.fails(f"resumed in {n} processes, it ends with {digests(resumed)}, not {digests(ran[0])}")


def require_same_files(one, other, kind="*"):
    """Names and bytes."""
    hashes = [{x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in at.glob(kind)} for at in (one, other)]
    if hashes[0] != hashes[1]:
        raise wrong(f"{one} has {hashes[0]}, {other} has {hashes[1]}")


def check_shards(folder):
    """A process is killed while it writes its shards: what is visible is whole, and the run goes on to the same bits."""
    words = [*PIPELINE, "--train-iters", 40, "--hidden-size", 256, "--use-distributed-optimizer", "--keep-last", 2]
    judged, save = folder / "judged", folder / "save"
    wanted = job(folder, *words, "--save", judged, "--save-interval", 40, processes=1).ends()
    one = job(folder, *words, "--save", save, "--save-interval", 1)
    writing = lambda: [x for x in save.glob(".*.partial") if any(x.iterdir())]  # noqa: E731
    killed_while = []
    for number, iteration in ((1, 3), (0, 12)):
        one.reaches(iteration)
        at = one.node(number)
        killed_while += [x.name for x in one.until("somebody writes shards", writing)]
        os.kill(at["pid"], signal.SIGKILL)
        replaced(one, number, at)
        newest = (save / "latest_checkpointed_iteration.txt").read_text().strip()
        if int(newest) < 1:
            raise one.fails(f"the newest checkpoint is {newest}")
    one.ends()
    print("shards: killed while writing", *killed_while)
    require_same(one, wanted, "deaths of processes that were writing")
    for at in save.glob("iter_*"):
        works("checkpoint", "verify", at)
    # The manifest names the generation, of which deaths make more.
    require_same_files(judged / "iter_0000040", save / "iter_0000040", "*.safetensors")
    if any(x.name.endswith(".partial") for x in save.iterdir()):
        raise one.fails(f"half a checkpoint is left: {sorted(save.iterdir())}")


def check_full_disk(folder):
    """The disk of checkpoints is full while several processes write: training goes on, and it is said who could not."""
    save = folder / "save"
    save.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", save], capture_output=True).returncode != 0:
        print("skipped: no mount is allowed here")
        sys.exit(77)
    try:
        (save / "filler").write_bytes(bytes(2 << 20))
        wanted = judge(folder, *PIPELINE, "--train-iters", 12)
        one = job(folder, *PIPELINE, "--train-iters", 12, "--save", save, "--save-interval", 4).ends(2)
        require_same(one, wanted, "a full disk")
        for text in ("No space left on device", "training goes on", "tried again", "process ", "on host '"):
            if text not in one.text():
                raise one.fails(f"a full disk is not told with '{text}'")
        if list(save.glob("iter_*")) or list(save.glob(".*.partial")):
            raise one.fails(f"half a checkpoint is left: {sorted(save.iterdir())}")
        (save / "filler").unlink()
        job(folder, *PIPELINE, "--train-iters", 12, "--save", save, "--save-interval", 12).ends()
        works("checkpoint", "verify", save)
    finally:
        subprocess.run(["umount", "--lazy", save], check=True)


def check_memory(folder):
    """What each process keeps of another one is what --dry-run has said."""
    for words in ([*PIPELINE, "--train-iters", 4], ["--world-size", 3, "--global-batch-size", 6, "--train-iters", 4,
                                                    "--use-distributed-optimizer"]):
        said = works(*JOB, *words, "--processes", 2, "--dry-run")
        forecast = dict(re.findall(r"process (\d+) .*two newest states of process \d+'s ranks (.*?), and", said))
        one = job(folder, *words).ends()
        logs = {x.stem.removeprefix("node-"): x.read_text() for x in (one.run / "logs").glob("node-*.log")}
        kept = {p: "".join(re.findall(r"kept of another process's ranks: (.*), their two newest states", text))
                for p, text in logs.items()}
        if len(kept) != 2 or kept != forecast:
            raise one.fails(f"the forecast is {forecast}, and kept is {kept}:\n{said}")
        print("memory: kept", kept)


def arrays_of_others(pid):
    """Whose arrays that process has mapped, by the inodes, beside its own, which it may write to."""
    lines = [x.split() for x in open(f"/proc/{pid}/maps") if "/memfd:troupe arrays" in x]
    return {x[4] for x in lines if "w" not in x[1]}, {x[4] for x in lines if "w" in x[1]}


def check_mapped(folder):
    """What replicas sum and gather lies in memory that they map: none of it is copied by the kernel first."""
    for words in (["--world-size", 2], ["--world-size", 2, "--use-distributed-optimizer", "--overlap-grad-reduce",
                                        "--overlap-param-gather"],
                  ["--world-size", 4, "--bf16", "--use-distributed-optimizer"],
                  ["--world-size", 2, "--replicas-per-worker", 2, "--recovery", "off"]):
        one = job(folder, *words, "--train-iters", 4).ends()
        for at in sorted((one.run / "logs").glob("node-*.log")):
            taken = re.findall(r"of other processes' arrays: (.*) summed or copied where they lie, (.*) read by the "
                               r"kernel, (.*) received", at.read_text())
            if len(taken) != 1 or taken[0][0] == "0 B" or taken[0][1:] != ("0 B", "0 B"):
                raise one.fails(f"{words}: {at.name} tells of {taken}")
            print("mapped:", *words, at.name, taken[0])
    # Who dies keeps no memory: not with a process that had mapped it, and not with the one that takes its place.
    one = job(folder, "--world-size", 2, "--use-distributed-optimizer", "--train-iters", 100000)
    one.reaches(10)
    beside = one.node(0)["pid"]
    wanted, own = map(len, arrays_of_others(beside))
    if not wanted or not own:
        raise one.fails(f"process 0 maps {wanted} arrays of another, and has {own}")
    for iteration in (20, 30, 40):
        dead = killed(one, 1)
        replaced(one, 1, dead)
        one.reaches(one.steps()[-1]["iteration"] + 10)
        alive = arrays_of_others(one.node(1)["pid"])[1]
        one.until("arrays of the living alone are mapped",
                  lambda: arrays_of_others(beside)[0] <= alive and len(arrays_of_others(beside)[1]) == own)
    one.process.terminate()
    one.ends()


def check_relative(folder):
    """A relative path is the same file for every process, and in no identity or configuration."""
    tok = cli_test.tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--tokenizer", tok, "--output-prefix", folder / "d", "--append-eod")
    data, = {x.stem for x in folder.glob("d*.idx")}
    mock = JOB.index("--mock-data")
    words = [*JOB[:mock], *JOB[mock + 1:]]
    for flag in ("--tokenizer-type", "--vocab-size"):
        del words[words.index(flag):words.index(flag) + 2]
    command = [cli_test.PROGRAM, *map(str, [*words, *PIPELINE, "--recovery", "on", "--tokenizer", tok,
                                            "--save", "saved", "--load", "saved", "--log-file", "log.jsonl",
                                            "--data-path", data, "--data-cache-path", "cache"])]
    found = {}
    for n in (1, 2):
        here = folder / f"in-{n}"
        here.mkdir()
        for file in folder.glob("d*.*"):
            (here / file.name).write_bytes(file.read_bytes())
        for until in (3, 6):  # the second goes on from the first
            done = subprocess.run([*command, "--train-iters", "6", "--exit-interval", str(until), "--processes", str(n)],
                                  cwd=here, capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode != 0:
                raise wrong(f"in {n} processes it ends with {done.returncode}\n{done.stdout}{done.stderr}")
        manifest = json.loads((here / "saved" / "iter_0000006" / "manifest.json").read_text())
        log = [json.loads(x) for x in (here / "log.jsonl").read_text().splitlines()]
        configuration = [x for x in (here / "saved" / "config.yaml").read_text().splitlines()
                         if "processes" not in x and not x.startswith("#")]
        found[n] = (manifest, configuration, [x["state_digest"] for x in log if "state_digest" in x],
                    sorted(x.name for x in here.iterdir()))
    if found[1] != found[2] or len(found[1][2]) < 3:
        raise wrong(f"in one process\n{found[1]}\nin two\n{found[2]}")


class judged:
    """An undisturbed run that is over."""

    def __init__(self, log):
        self.log = pathlib.Path(log)

    records, steps = job.records, job.steps


def judge(folder, *words):
    """An undisturbed run in one process. That of LONG is the same for all: ctest has it made once."""
    if not words and JUDGED:
        return judged(JUDGED)
    return job(folder, *(words or LONG), processes=1).ends()


def check_judge(folder):
    """What checks of deaths compare with (JUDGED)."""
    made = job(folder, *LONG, processes=1).ends()
    if [x for x, _ in digests(made)] != list(range(1, LONG_STEPS + 1)):
        raise made.fails(f"its log has the steps {[x for x, _ in digests(made)]}")
    if JUDGED:
        shutil.copy(made.log, JUDGED + ".part")
        os.replace(JUDGED + ".part", JUDGED)


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


def check_killed(folder):
    """A process dies, and another one takes its place; the one beside it lives on."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    beside = one.node(0)
    for deaths in (1, 2):
        one.reaches(one.steps()[-1]["iteration"] + 5)
        replaced(one, 1, killed(one, 1))
        one.until("it goes on", lambda: len(one.restarts()) == deaths)
    if not is_same(one.node(0), beside):
        raise one.fails(f"the process beside was {beside} and is {one.node(0)}")
    one.goes_on(wanted, "two deaths of a process")
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
        all_of_them, before = one.processes(), time.time() - 0.2
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGKILL)
        one.goes_on(wanted, f"the death of all processes at once {more}")
        if not one.restarts():
            raise one.fails("the log tells of no restart")
        saved = more and (folder / "save" / "iter_0000005" / "manifest.json").stat().st_mtime < before
        if saved and "from the checkpoint" not in one.out.read_text():
            raise one.fails("it had a checkpoint, and went on from elsewhere")


def check_local_disk(folder):
    """Processes that keep each other's states die at once: the run goes on from what they had written to the local
    disk, at most that many steps back; from an older one, or the checkpoint, where the newest is damaged."""
    wanted = judge(folder)
    for damaged in (False, True):
        local = folder / f"local-{damaged}"
        one = job(folder, *LONG, "--save", folder / f"save-{damaged}", "--save-interval", 1000000,
                  "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", local)
        one.reaches(25)
        stored = lambda: [x for x in local.glob("run-*/process-*/step-*")]  # noqa: E731
        in_both = lambda: [x for x, n in collections.Counter(y.name for y in stored()).items() if n == 2]  # noqa: E731
        one.until("both have written a step", in_both)
        all_of_them = one.processes()
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGSTOP)
        for at in all_of_them:
            one.until("it has stopped", lambda: is_stopped(at["pid"]))  # before that it may write another step
        if damaged:
            newest = max(in_both())
            for x in stored():
                if x.name == newest:
                    file = max(x.glob("rank-*.state"))
                    data = bytearray(file.read_bytes())
                    data[len(data) // 2] ^= 1
                    file.write_bytes(data)
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGKILL)
        one.ends()
        require_same(one, wanted, f"the death of processes that keep each other's states, damaged {damaged}")
        told = re.findall(r"the run goes on from iteration (\d+) (?:from )?(.*)", one.out.read_text())
        if not told or (not damaged and (told[0][1].split(",")[0] != "the local disk" or int(told[0][0]) % 10)):
            raise one.fails(f"it went on from {told}")
        if damaged and "is damaged" not in one.text():
            raise one.fails("nobody tells of the damage")
        left = {x.parent.name: sorted(y.name for y in x.parent.iterdir()) for x in stored()}
        if any(len(x) > 2 for x in left.values()):
            raise one.fails(f"on the local disk are {left}")


def stored(local):
    """The steps there, by process."""
    found = collections.defaultdict(set)
    for x in local.glob("run-*/process-*/step-*"):
        found[x.parent.name].add(x)
    return found


def stored_by_both(local):
    found = [{int(x.name.removeprefix("step-")) for x in steps} for steps in stored(local).values()]
    return sorted(found[0] & found[1]) if len(found) == 2 else []


def stored_and_committed(one, local):
    """Of the steps that both have there those that the ledger has: processes that are stopped one after the other may
    leave one that the supervisor has not committed."""
    file = one.run / "ledger.jsonl"
    text = file.read_text() if file.exists() else ""
    lines = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
    newest = max((x["committed"]["iteration"] for x in lines if "committed" in x), default=0)
    return [x for x in stored_by_both(local) if x <= newest]


def cold(folder, name, saved=0, base=LONG):
    """A run that goes on from what it saves, has saved that iteration, and has written its states to the local disk
    since, which it does every 10 steps."""
    local, save = folder / f"local-{name}", folder / f"save-{name}"
    one = job(folder, *base, "--save", save, "--load", save, "--save-interval", 1000000, "--exit-interval",
              saved or 1000000, "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", local)
    if saved:
        one.ends()
        one.start("--exit-interval", 1000000)
    one.until("both have written a step", lambda: [x for x in stored_and_committed(one, local) if x > saved])
    return one, local


COLD = re.compile(r"the run before is gone .*goes on from iteration (\d+) (.*?)(?:, \d+ iterations? run again)?\n")


def resumed(one, source):
    """From which iteration it has told that it goes on, from there."""
    told = one.until("it goes on", lambda: COLD.findall(one.out.read_text()))
    if len(told) != 1 or told[0][1] != source:
        raise one.fails(f"it went on from {told}, and not {source}")
    return int(told[0][0])


def require_sound_ledger(one):
    works("ledger", "--run", one.run, "--check")


def check_cold_start(folder):
    """COLD-2: front, supervisor, agent and nodes are killed at once, twice: the same command goes on from the states on
    the local disk, beyond the newest checkpoint, to the same bits; each step is once in the log."""
    wanted = judge(folder)
    one, local = cold(folder, "cold", saved=20)
    for death in (1, 2):
        newest = []
        one.dies(lambda: newest.extend(stored_and_committed(one, local)))
        one.start()
        if resumed(one, "from the local disk") != newest[-1]:
            raise one.fails(f"both have written {newest}")
        one.until("both have written another step",
                  lambda: [x for x in stored_and_committed(one, local) if x > newest[-1]])
        require_sound_ledger(one)
    one.ends()
    require_same(one, wanted, "two deaths of all processes")
    require_sound_ledger(one)
    events = [json.dumps(x) for x in one.restarts()]
    if len(events) != 2 or not all("the run before" in x and "local disk" in x for x in events):
        raise one.fails(f"the log tells of {events}")


def check_cold_damaged(folder):
    """LOCAL-2, MEMBER-6: after the death of all what is damaged on the local disk is told, and an older step is taken;
    where a process has none there, the checkpoint, or the start."""
    wanted = judge(folder)

    def damage():
        newest = stored_and_committed(one, local)[-1]
        for x in set().union(*stored(local).values()):
            if x.name == f"step-{newest:07}":
                file = max(x.glob("rank-*.state"))
                data = bytearray(file.read_bytes())
                data[len(data) // 2] ^= 1
                file.write_bytes(data)

    one, local = cold(folder, "damaged")
    one.until("both have written two steps", lambda: len(stored_by_both(local)) == 2)
    one.dies(damage)
    one.start()
    one.until("it goes on", lambda: "the run goes on from iteration" in one.out.read_text())
    one.goes_on(wanted, "local states that are damaged")
    require_sound_ledger(one)
    if "is damaged" not in one.text():
        raise one.fails("nobody tells of the damage")

    for saved, source in ((20, "from the checkpoint"), (0, "from the start of the run")):
        one, local = cold(folder, f"missing-{saved}", saved)
        one.dies(lambda: [shutil.rmtree(x) for x in local.glob("run-*/process-1")])
        one.start()
        if resumed(one, source) != saved:
            raise one.fails(f"it had saved {saved}")
        one.goes_on(wanted, f"the states of a process that are missing, {source}")
        require_sound_ledger(one)
        if "those of process 1 are missing" not in one.text():
            raise one.fails("nobody tells whose states are missing")


def check_cold_refused(folder):
    """COLD-1: states of another layout or job are not taken, and it is said why; nor those of a run that lives."""
    wanted = judge(folder)
    one, local = cold(folder, "other", saved=20)
    twice = subprocess.run(with_flags(one.command, "--save", folder / "twice", "--load", folder / "twice", "--log-file",
                                      folder / "twice.jsonl"), capture_output=True, text=True, timeout=PATIENCE)
    if twice.returncode != 2 or "another run lives there" not in twice.stderr:
        raise one.fails(f"in the folder of a run that lives it ends with {twice.returncode}: {twice.stderr}")
    one.dies()
    one.start("--processes", 4)
    one.until("it is told", lambda: re.search("are not taken: .* it had 2 of them, and .* is 4", one.out.read_text()))
    one.goes_on(wanted, "another layout")
    if COLD.search(one.out.read_text()):
        raise one.fails("it goes on from states of another layout")

    one, local = cold(folder, "foreign", base=ENDLESS)
    one.dies()
    before = one.steps()[0]
    ledger = (one.run / "ledger.jsonl").read_bytes()
    one.start("--seed", 7)
    one.until("it is told", lambda: "are not taken: this is another job" in one.out.read_text())
    one.until("it begins anew", lambda: [x for x in one.steps()[:1] if x["iteration"] == 1
                                         and x["state_digest"] != before["state_digest"]])
    if (one.run / "ledger.before.jsonl").read_bytes() != ledger:
        raise one.fails("the ledger of the run before is not kept as it was")
    if "seed: the run before 1234, this run 7" not in one.out.read_text():
        raise one.fails("it is not said what differs")
    one.process.terminate()
    one.ends()


def check_local_refused(folder):
    """A local disk that refuses costs no step, and is told once by each process."""
    wanted = judge(folder, *PIPELINE, "--train-iters", 40)
    in_the_way = folder / "a-file"
    in_the_way.write_text("")
    one = job(folder, *PIPELINE, "--train-iters", 40, "--non-persistent-save-interval", 5,
              "--non-persistent-local-ckpt-dir", in_the_way).ends()
    require_same(one, wanted, "a local disk that refuses")
    if one.text().count("are not on the local disk") != 2:
        raise one.fails("a local disk that refuses is not told once by each process")


def check_save_vanishes(folder):
    """The folder of checkpoints goes away while several processes write there, comes back, and is used again; where it
    stays away the run ends with 2, and has trained all the same."""
    wanted = judge(folder, *LONG)
    for comes_back in (True, False):
        mount = folder / f"mount-{comes_back}"
        mount.mkdir()
        save = mount / "save"
        one = job(folder, *LONG, "--save", save, "--save-interval", 5)
        one.until("a checkpoint", lambda: list(save.glob("iter_*")))
        save.rename(mount / "away")
        save.write_text("what is here is no folder")
        one.until("a refusal", lambda: "training goes on" in one.out.read_text())
        if comes_back:
            save.unlink()
            (mount / "away").rename(save)
        one.ends(0 if comes_back else 2)
        require_same(one, wanted, f"a folder of checkpoints that vanishes, comes back: {comes_back}")
        if comes_back:
            works("checkpoint", "verify", save)
            if (save / "latest_checkpointed_iteration.txt").read_text().strip() != str(LONG_STEPS):
                raise one.fails("the last iteration is not saved")


def check_stopped(folder):
    """A process that stands still is taken for dead, replaced, and killed."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 2)
    one.reaches(10)
    still = killed(one, 1, signal.SIGSTOP)
    replaced(one, 1, still)
    one.until("who stood still is killed", lambda: still["pid"] not in one.left())
    one.goes_on(wanted, "a process that stands still")


@contextlib.contextmanager
def held(process):
    """It stands still meanwhile, so that the run does not end while somebody looks at it."""
    os.kill(process["pid"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process["pid"], signal.SIGCONT)


def check_agent_killed(folder):
    """The death of the host agent, also together with its guard, costs no process: another one adopts them all."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 100)
    one.reaches(5)
    nodes = one.nodes()
    for iteration, with_guard in ((5, False), (12, True)):
        one.reaches(iteration)
        with held(nodes[1]):
            agent, = one.processes("agent")
            guard = parent_of(agent["pid"])
            for pid in ([guard] if with_guard else []) + [agent["pid"]]:
                os.kill(pid, signal.SIGKILL)
            one.until("another agent", lambda: [x for x in one.processes("agent") if x["pid"] != agent["pid"]])
            now = one.nodes()
            if len(now) != len(nodes) or not all(map(is_same, now, nodes)):
                raise one.fails(f"the processes were {nodes} and are {now}")
    one.until("both are adopted twice", lambda: one.text().count("adopted 'node-") == 4)
    # The newest agent sees the death of one that no agent is the parent of.
    one.reaches(20)
    os.kill(nodes[1]["pid"], signal.SIGKILL)
    replaced(one, 1, nodes[1])
    one.goes_on(wanted, "the deaths of two host agents")
    if len(one.restarts()) != 1:
        raise one.fails(f"one process has died, and the log tells of {one.restarts()}")
    for told in ("the host agent is gone", "has ended: its end was not seen by a parent"):
        if told not in one.text():
            raise one.fails(f"nobody tells '{told}'")


ENDLESS = [*PIPELINE, "--train-iters", 100000]


def check_front_killed(folder):
    """SHOWN-2: without the command that was typed the run goes on to its end, and others see it."""
    wanted = judge(folder)
    one = job(folder, *HALF)
    one.reaches(5)
    deciding = one.deciding()
    if deciding["pid"] == one.process.pid or one.process.pid in [x["pid"] for x in one.status()["processes"]]:
        raise one.fails(f"the front is a process of the run: {one.status()}")
    one.process.kill()
    one.process.wait()
    if one.status()["state"] != "running" or not is_same(one.deciding(), deciding):
        raise one.fails(f"its status is {one.status()}")
    shown = works("wait", "--run", one.run, "--lines", 100000)
    one.leaves_nothing()
    require_same(one, wanted, "the death of the front", until=LONG_STEPS // 2)
    last = f"iteration {LONG_STEPS // 2:8}/"
    if one.status()["ended"]["exit_code"] != 0 or last not in shown or "iteration        1/" not in shown:
        raise one.fails(f"its status is {one.status()}, and wait has shown\n{shown}")


def require_lost(one, how):
    """The front has told of it, and so does the folder."""
    ended = one.status()["ended"]
    text = one.text()
    if not ended or ended["exit_code"] != 3 or how not in ended["reason"] or how not in text:
        raise one.fails(f"its status is {one.status()}, and not '{how}'")
    if text.count("troupe: error: ") != 1:
        raise one.fails("it is not told once")


def succeeded(one, old):
    """Who decides in its place, also where the front is gone."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := [x for x in one.processes("supervisor") if x["pid"] != old["pid"]]:
            return found[0]
        time.sleep(0.02)
    raise one.fails(f"not in {PATIENCE} seconds: another process decides")


def survivors(one):
    return {x["name"]: (x["pid"], x["start_time"]) for x in one.status()["processes"] if x["role"] != "supervisor"}


def require_whole(one):
    """Whoever wrote it: each step once, ascending, in the log and in the ledger."""
    steps = [x["iteration"] for x in one.steps()]
    if steps != list(range(1, len(steps) + 1)):
        raise one.fails(f"the log has the iterations {steps}")
    works("ledger", "--run", one.run, "--check")


def check_supervisor_killed(folder):
    """SUCCESSION-1: another process takes the supervisor's place, twice; the others are those that they were."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    before = survivors(one)
    for incarnation, iteration in ((2, 10), (3, 60)):
        one.reaches(iteration)
        old = one.deciding()
        os.kill(old["pid"], signal.SIGKILL)
        if (now := succeeded(one, old))["incarnation"] != incarnation:
            raise one.fails(f"who decides now is {now}")
    one.reaches(100)
    if survivors(one) != before:
        raise one.fails(f"the others were {before} and are {survivors(one)}")
    one.goes_on(wanted, "two deaths of the supervisor's process")
    require_whole(one)
    if one.out.read_text().count("was killed by SIGKILL; another one takes over") != 1:
        raise one.fails("the front does not tell of it")
    if len([x for x in one.restarts() if x["who"] == "supervisor"]) != 2:
        raise one.fails(f"the log tells of {one.restarts()}")


def check_supervisor_and_front_killed(folder):
    """The same without the command that was typed, while checkpoints are written; and it can still be asked to end."""
    save = folder / "save"
    one = job(folder, *ENDLESS, "--save", save, "--save-interval", 2)
    one.reaches(9)
    one.process.kill()
    one.process.wait()
    old = one.deciding()
    os.kill(old["pid"], signal.SIGKILL)
    succeeded(one, old)
    newest, end = one.steps()[-1]["iteration"], time.monotonic() + PATIENCE
    while one.steps()[-1]["iteration"] < newest + 10 and time.monotonic() < end:
        time.sleep(0.02)
    works("stop", "--run", one.run)
    one.leaves_nothing()
    require_whole(one)
    if one.status()["ended"]["exit_code"] != 0:
        raise one.fails(f"its status is {one.status()}")
    steps = int((save / "latest_checkpointed_iteration.txt").read_text())
    alone = judge(folder, *PIPELINE, "--train-iters", steps, "--save", folder / "alone", "--lr-decay-iters", 100000)
    if digests(one)[-1] != digests(alone)[-1]:
        raise one.fails(f"it ends with {digests(one)[-1]}, and alone with {digests(alone)[-1]}")
    works("checkpoint", "diff", save, folder / "alone")


def check_supervisor_with_others_killed(folder):
    """It dies together with a process that computes: one is followed, the other started again."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    old, beside = one.deciding(), one.node(0)
    lost = one.node(1)
    for pid in (old["pid"], lost["pid"]):
        os.kill(pid, signal.SIGKILL)
    succeeded(one, old)
    replaced(one, 1, lost)
    if not is_same(one.node(0), beside):
        raise one.fails(f"the process beside was {beside} and is {one.node(0)}")
    one.goes_on(wanted, "the death of the supervisor's process and one more")
    require_whole(one)


def check_supervisor_and_agent_killed(folder):
    """It dies together with the agent, who would start another one: the front does; the nodes live on."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    old, nodes = one.deciding(), [one.node(0), one.node(1)]
    agent, = one.processes("agent")
    for how in (signal.SIGSTOP, signal.SIGKILL):  # nobody acts on the death of the other
        for pid in (old["pid"], agent["pid"]):
            os.kill(pid, how)
    succeeded(one, old)
    one.goes_on(wanted, "the death of the supervisor's process and the agent")
    require_whole(one)
    for number, before in enumerate(nodes):
        log = (one.run / f"logs/node-{number}.log").read_text()
        if log.count("stands at") != 1:
            raise one.fails(f"process {number} was {before}, and another one has come")


def check_supervisor_and_agent_in_turn(folder):
    """The supervisor's process is killed, then the agent, which its successor replaces, then that successor: the
    agent that it has started starts the next one, and nobody else dies."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    nodes = [one.node(0), one.node(1)]
    for _ in range(2):
        old = one.deciding()
        os.kill(old["pid"], signal.SIGKILL)
        deciding = succeeded(one, old)
        one.reaches(one.steps()[-1]["iteration"] + 5)
        agent, = one.processes("agent")
        os.kill(agent["pid"], signal.SIGKILL)
        one.until("another agent", lambda: [x for x in one.processes("agent") if x["pid"] != agent["pid"]])
        one.reaches(one.steps()[-1]["iteration"] + 5)
        if not is_same(one.deciding(), deciding):
            raise one.fails(f"with the agent the supervisor's process {deciding} was lost")
    old = one.deciding()
    os.kill(old["pid"], signal.SIGKILL)
    succeeded(one, old)
    one.reaches(one.steps()[-1]["iteration"] + 5)
    for number, before in enumerate(nodes):
        if not is_same(one.node(number), before):
            raise one.fails(f"process {number} was {before} and is {one.node(number)}")
    one.goes_on(wanted, "deaths of the supervisor's process and the agent in turn")
    require_whole(one)


def check_supervisor_lost(folder):
    """SHOWN-3: without recovery the front tells which process was lost, and what was saved goes on."""
    save = folder / "save"
    one = job(folder, *LONG, "--save", save, "--save-interval", 5, "--recovery", "off")
    one.reaches(12)
    deciding = one.deciding()["pid"]
    os.kill(deciding, signal.SIGKILL)
    one.ends(3)
    require_lost(one, f"the supervisor's process {deciding} was killed by SIGKILL")
    newest = (save / "latest_checkpointed_iteration.txt").read_text()
    if f"iter_{int(newest):07}" not in one.text() or f"--load {save}" not in one.text():
        raise one.fails("it does not say how to go on")
    wanted = judge(folder)
    again = job(folder, *LONG, "--save", save, "--load", save).ends()
    if digests(again)[-1] != digests(wanted)[-1]:
        raise again.fails(f"gone on, it ends with {digests(again)[-1]}, not {digests(wanted)[-1]}")


def check_supervisor_crashed(folder):
    """The same at once, before there is any other process, by another signal."""
    one = job(folder, *ENDLESS)
    one.until("it has an entry", lambda: (one.run / "processes/supervisor.json").exists())
    os.kill(one.deciding()["pid"], signal.SIGSEGV)
    one.ends(3)
    require_lost(one, "was killed by SIGSEGV")


def check_supervisor_stopped(folder):
    """One that stands still for the time of suspicion is killed, and another one takes its place."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 1)
    one.reaches(5)
    old = one.deciding()
    os.kill(old["pid"], signal.SIGSTOP)
    succeeded(one, old)
    if pathlib.Path(f"/proc/{old['pid']}").exists():
        raise one.fails("who stood still was not killed")
    one.goes_on(wanted, "a supervisor's process that stands still")
    require_whole(one)


def check_front_stopped(folder):
    """SHOWN-1: a front that stands still, as by Ctrl-Z, delays nothing, and shows all when it goes on."""
    wanted = judge(folder)
    one = job(folder, *HALF, "--suspicion-seconds", 1)
    one.reaches(5)
    one.process.send_signal(signal.SIGSTOP)
    one.until("it ends without its front", lambda: one.status()["ended"])
    one.process.send_signal(signal.SIGCONT)
    one.ends()
    require_same(one, wanted, "a front that stands still", until=LONG_STEPS // 2)
    if one.out.read_text().count(" iteration ") != (one.run / "logs/supervisor.log").read_text().count(" iteration "):
        raise one.fails("the front has not shown all")


def check_all_alone(folder):
    """Where all who could start another supervisor's process die at once, the others end by themselves."""
    one = job(folder, *ENDLESS, "--suspicion-seconds", 0.5)
    one.reaches(5)
    agent, = one.processes("agent")
    guard = int(pathlib.Path(f"/proc/{agent['pid']}/stat").read_text().rpartition(") ")[2].split()[1])
    lost = (agent["pid"], guard, one.deciding()["pid"], one.process.pid)  # children first, as in `dies`
    for how in (signal.SIGSTOP, signal.SIGKILL):  # nobody acts on the death of another
        for pid in lost:
            os.kill(pid, how)
    one.process.wait()
    end = time.monotonic() + PATIENCE  # ten suspicions are 5 s; the bound is for slow machines
    while one.left() and time.monotonic() < end:
        time.sleep(0.05)
    if one.left() or shared_memory() - one.shared or one.ports & listening():
        raise one.fails(f"it leaves processes {one.left()}, shared memory {shared_memory() - one.shared}")
    if one.status()["state"] != "died":
        raise one.fails(f"its status is {one.status()}")


def check_signalled(folder):
    """The front passes signals on, each once: the run ends in order. A second one ends it at once."""
    for how in (signal.SIGINT, signal.SIGHUP):
        one = job(folder, *ENDLESS, "--save", folder / how.name)
        one.reaches(3)
        one.process.send_signal(how)
        one.ends()
        if f"{how.name}: finishing iteration" not in one.text():
            raise one.fails(f"it does not tell of {how.name}")
    # Some tell every process of a job: that is no second signal.
    for how in (signal.SIGTERM, signal.SIGUSR1):
        save = folder / f"all-{how.name}"
        one = job(folder, *ENDLESS, "--save", save)
        one.reaches(3)
        for pid in {one.process.pid, *one.left()}:
            os.kill(pid, how)
        one.ends()
        if not (save / "latest_checkpointed_iteration.txt").exists():
            raise one.fails(f"{how.name} to all of its processes costs the checkpoint")
    # What is not of the run is none of its business: a child of who was there before `exec`, and SIGCHLD ignored.
    done = subprocess.run(["bash", "-c", 'trap "" CHLD; sleep 300 >/dev/null 2>&1 & echo $!; exec "$@"', "bash", cli_test.PROGRAM,
                           *map(str, [*JOB, *PIPELINE, "--train-iters", 3, "--processes", 2])],
                          capture_output=True, text=True, timeout=PATIENCE)
    sleeper = int(done.stdout.split()[0])
    try:
        os.kill(sleeper, signal.SIGKILL)
    except ProcessLookupError:
        raise wrong("a run has ended a process that is not its own")
    if done.returncode != 0:
        raise wrong(f"where SIGCHLD was ignored a run ends with {done.returncode}: {done.stderr}")
    one = job(folder, *ENDLESS)
    one.reaches(3)
    os.kill(one.deciding()["pid"], signal.SIGSTOP)  # so that the first one cannot end it
    one.process.send_signal(signal.SIGINT)
    one.until("the first signal is taken", lambda: not pending(one.process.pid))  # else the kernel makes one of two
    one.process.send_signal(signal.SIGINT)
    one.ends(128 + signal.SIGINT)
    if one.status()["ended"] is None or "SIGINT" not in one.status()["ended"]["reason"]:
        raise one.fails(f"its status is {one.status()}")


def shown_after_front(one, run):
    """A run whose folder goes with it is followed to its end; whether that was seen in time is told. It stands still until
    it is followed."""
    out, err = (one.folder / f"wait-{x}.txt" for x in ("out", "err"))
    with held(one.node(1)):
        one.process.kill()
        one.process.wait()
        killed_at = one.steps()[-1]["iteration"]
        with open(out, "w") as to, open(err, "w") as errors:
            follower = subprocess.Popen([cli_test.PROGRAM, "wait", "--run", run], stdout=to, stderr=errors)
        end = time.monotonic() + PATIENCE
        while not out.read_text() and follower.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
    try:
        code = follower.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        follower.kill()
        raise one.fails(f"`troupe wait` does not end in {PATIENCE} seconds")
    newest = max((int(x) for x in re.findall(r"iteration +(\d+)/", out.read_text())), default=0)
    if (code, "how it ended was not seen" in err.read_text()) not in ((0, False), (2, True)) or newest < killed_at + 20:
        raise one.fails(f"`troupe wait` ends with {code}, has shown iteration {newest}, and says\n{err.read_text()}")


def check_temporary(folder):
    """The folder of a run without --run and --save is gone with the run, whoever was killed."""
    for killed in (None, "front", "supervisor"):
        one = job(folder, *LONG, "--suspicion-seconds", 100, temporary=True)
        one.reaches(5)
        told, = set(re.findall(r"--run '(.*?)'`", one.out.read_text()))
        if pathlib.Path(told) != one.run:
            raise one.fails(f"its folder is {one.run}, and it tells of {told}")
        if killed == "front":
            shown_after_front(one, told)
            one.leaves_nothing()
        elif killed == "supervisor":
            os.kill(one.deciding()["pid"], signal.SIGKILL)
            one.ends()
        else:
            one.ends()
        if one.steps()[-1]["iteration"] != LONG_STEPS:
            raise one.fails(f"it came to {one.steps()[-1]}")
        if left := list(one.above.iterdir()):
            raise one.fails(f"({killed} killed) it leaves {left}")


def check_temporary_without_successor(folder):
    """The same where nobody can take the place of the supervisor's process, and the command that was typed is gone."""
    for how in ("its successors fail", "the agent is killed, too"):
        one = job(folder, *LONG, "--suspicion-seconds", 1, temporary=True)
        one.reaches(5)
        one.process.kill()
        one.process.wait()
        pids = [one.deciding()["pid"]]
        if how == "its successors fail":
            (one.run / "order").unlink()
        else:
            pids += [x["pid"] for x in one.processes("agent")]
        for what in (signal.SIGSTOP, signal.SIGKILL):  # nobody acts on the death of the other
            for pid in pids:
                os.kill(pid, what)
        one.leaves_nothing()
        if left := list(one.above.iterdir()):
            raise one.fails(f"({how}) it leaves {left}: {[str(x) for at in left for x in at.rglob('*')]}")


def check_refused_there(folder):
    """What is refused in the supervisor's process comes out of the front with the words of one process."""
    save = folder / "save"
    one = job(folder, *ENDLESS, "--save", save)
    one.reaches(1)
    temporary = folder / "nothing"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for words in (["--save", save], ["--run", one.run], ["--load", folder / "none"],
                  ["--log-file", one.log]):
        said = []
        for n in (1, 2):
            done = subprocess.run([cli_test.PROGRAM, *map(str, [*JOB, *ENDLESS, "--processes", n, *words])],
                                  capture_output=True, text=True, timeout=PATIENCE, env=environment)
            said.append((done.returncode, done.stderr))
        if said[0] != said[1] or said[0][0] != 2 or not said[0][1].startswith("troupe: error: "):
            raise one.fails(f"with {words[0]} one process says {said[0]}, two say {said[1]}")
        if left := list(temporary.iterdir()):
            raise one.fails(f"refused, it leaves {left}")
    one.process.terminate()
    one.ends()


def check_shown_as_one(folder):
    """What is shown, and on which stream, is that of one process."""
    for more in ([], ["--quiet"], ["--log-level", "error"]):
        streams = []
        for n in (1, 2):
            done = subprocess.run([cli_test.PROGRAM, *map(str, [*JOB, *PIPELINE, "--train-iters", 3, *more,
                                                                "--recovery", "on", "--processes", n])],
                                  capture_output=True, text=True, timeout=PATIENCE)
            # Times and sizes differ, and what one process alone can say of its workers' memory.
            streams.append([[" ".join(x for x in line.split() if not any(map(str.isdigit, x)))
                             for line in text.splitlines() if not any(x in line for x in ("memory", "processes", " keeps ", " are kept in "))]
                            for text in (done.stdout, done.stderr)])
        if streams[0] != streams[1] or (not more and not all(streams[0])):
            raise wrong(f"{more}: in one process\n{streams[0]}\nin two\n{streams[1]}")


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


def pending(pid):
    """Whether the process has signals that it has not taken yet."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(x.split()[1], 16) for x in status.splitlines() if x.startswith(("SigPnd", "ShdPnd")))


def check_asked_early(folder):
    """Asked to end while processes are on their way it waits for none of them, and leaves nothing."""
    def starting(one):
        return [x for x in one.left() if b"\0incarnation\0" in pathlib.Path(f"/proc/{x}/cmdline").read_bytes()]

    def stands_still(one):
        """One of its processes is there and never comes: what waits for it takes three suspicions of this run."""
        at = one.until("a process is started", lambda: starting(one))[0]
        os.kill(at, signal.SIGSTOP)
        return at
    hardly_ever = ["--suspicion-seconds", 10 * PATIENCE]
    for ask in (lambda x: x.process.send_signal(signal.SIGINT), lambda x: works("stop", "--run", x.run)):
        one = job(folder, *ENDLESS, *hardly_ever, "--save", folder / f"save-{len(JOBS)}", processes=4)
        stands_still(one)
        ask(one)
        one.ends()
        if "stopped before the first iteration; nothing was trained or saved" not in one.text():
            raise one.fails("it does not say that nothing was trained")
        if one.steps() or one.status()["ended"]["exit_code"] != 0 or "refused" in one.out.read_text():
            raise one.fails(f"its status is {one.status()}")
    one = job(folder, *ENDLESS, *hardly_ever, processes=4)
    agent = one.until("the agent is there", lambda: one.run.exists() and one.processes("agent"))[0]["pid"]
    os.kill(agent, signal.SIGSTOP)  # so that the first signal cannot end it
    one.process.send_signal(signal.SIGINT)
    one.until("the first signal is taken", lambda: not pending(one.process.pid))  # else the kernel makes one of two
    one.process.send_signal(signal.SIGINT)
    one.ends(128 + signal.SIGINT)


def check_any_bytes(folder):
    """Paths need not be UTF-8, with several processes as with one: run folder, logs, data, tokenizer, checkpoints,
    temporary files."""
    odd = folder / os.fsdecode(b"odd \xff")
    odd.mkdir()
    text, tok = odd / "text.jsonl", odd / "tok"
    text.write_text("".join(json.dumps({"text": f"{i} and {i + 1} are numbers"}) + "\n" for i in range(200)))
    works("tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", tok)
    works("preprocess", "--input", text, "--output-prefix", odd / "data", "--tokenizer", tok, "--append-eod")
    data, = (x.stem for x in odd.glob("data*.bin"))
    drop = ("--mock-data", "--vocab-size", 128, "--tokenizer-type", "NullTokenizer")
    words = [*(x for x in JOB if x not in drop), *PIPELINE, "--data-path", odd / data, "--split", "1,0,0",
             "--tokenizer", tok, "--data-cache-path", odd / "cache"]
    ran = {}
    for n in (1, 2):
        save = odd / f"save-{n}"
        ran[n] = job(odd, "--train-iters", 4, "--save", save, processes=n, base=words).ends()
        resumed = job(odd, "--train-iters", 6, "--save", save, "--load", save, "--override-opt_param-scheduler",
                      processes=n, base=words).ends()
        ran[n, "on"] = resumed
    require_same(ran[2], ran[1], "in 2 processes")
    if digests(ran[2, "on"]) != digests(ran[1, "on"]) or len(digests(ran[1, "on"])) != 2:
        raise ran[2, "on"].fails(f"resumed, it has {digests(ran[2, 'on'])}, and not {digests(ran[1, 'on'])}")
    one = job(odd, "--train-iters", LONG_STEPS, base=words)
    one.reaches(1)
    replaced(one, 1, killed(one, 1))
    one.process.terminate()
    one.ends()
    temporary = job(odd, "--train-iters", 4, temporary=True, base=words).ends()
    require_same(temporary, ran[1], "in a temporary folder")


def check_wrong_bits(folder):
    """Of four replicas the process of the one with other bits is exchanged; of two that of who has others twice."""
    def events(one, kind):
        return [x for x in one.records() if x.get("event") == kind]

    def accuses(one, who, verdict):
        told = events(one, "wrong bits")
        if [(x["who"], x["verdict"]) for x in told] != [(who, verdict)]:
            raise one.fails(f"its events are {told}")

    four = ["--world-size", 4, "--train-iters", 12]
    wanted = job(folder, *four, processes=1).ends()
    one = job(folder, *four, "--plant-death", "lane:2.0@6:reduce:wrong-bits", processes=4).ends()
    require_same(one, wanted, "with wrong bits")
    logs = [(one.run / "logs" / f"node-{n}.log").read_text() for n in range(4)]
    if ["(incarnation 2)" in x for x in logs] != [False, False, True, False]:
        raise one.fails("another process than number 2 alone was exchanged")
    accuses(one, "stage:2.0", "outvoted")
    if not (told := events(one, "restart")) or told[0]["who"] != "process:2" or len(told) != 1:
        raise one.fails(f"it was restarted {told}")
    two = ["--world-size", 2, "--train-iters", 12]
    wanted = job(folder, *two, processes=1).ends()
    death = "lane:1.0@6:reduce:wrong-bits"
    one = job(folder, *two, "--plant-death", death, death).ends()
    require_same(one, wanted, "with wrong bits twice")
    accuses(one, "stage:1.0", "persistent")
    if [x["who"] for x in events(one, "restart")] != ["replicas", "process:0"]:
        raise one.fails(f"it was restarted {events(one, 'restart')}")
    one = job(folder, *two, "--verify-fraction", 1, "--plant-death", "lane:0.0@5:forward:wrong-bits").ends()
    require_same(one, wanted, "with a wrong forward pass")
    accuses(one, "stage:0.0", "transient")
    death = "lane:1.0@5:weight-gradient:wrong-bits"
    one = job(folder, *two, "--verify-fraction", 1, "--plant-death", death).ends()
    require_same(one, wanted, "with a wrong weight gradient")
    accuses(one, "stage:1.0", "transient")
    one = job(folder, *two, "--verify-fraction", 0.5).ends()
    require_same(one, wanted, "with half of its passes computed again")
    if told := events(one, "wrong bits"):
        raise one.fails(f"its events are {told}")


def check_wrong_moments(folder):
    """A bit that is wrong in a moment is found as one in a weight; one on its way to a keeper is refused and comes again."""
    two = ["--world-size", 2, "--train-iters", 12]
    wanted = job(folder, *two, processes=1).ends()
    deaths = ["lane:1.0@4:updated:wrong-moment", "lane:0.0@8:updated:wrong-second-moment"]
    one = job(folder, *two, "--plant-death", *deaths).ends()
    require_same(one, wanted, "with wrong moments")
    told = [(x["who"], x["verdict"]) for x in one.records() if x.get("event") == "wrong bits"]
    if told != [("stage:1.0", "transient"), ("stage:0.0", "transient")]:
        raise one.fails(f"its events are {told}")
    one = job(folder, *two, "--plant-death", "keeper@5:redeem:wrong-bits").ends()
    require_same(one, wanted, "with a state that was another on its way to its keeper")
    if one.restarts() or "did not come as it was sealed" not in one.text():
        raise one.fails(f"it is not told, or it was restarted: {one.restarts()}")


def check_keeper_planted(folder):
    """A keeper dies with what it has pulled, and when it has said what it keeps; alone, by hanging, and with its process."""
    words = [*PIPELINE, "--train-iters", 20]
    wanted = job(folder, *words, processes=1).ends()
    one = job(folder, *words, "--plant-death", "keeper@4:redeem", "keeper@9:acknowledged").ends()
    require_same(one, wanted, "deaths of keepers")
    told = [(x["event"], x["who"].partition(":")[0]) for x in one.records() if "event" in x]
    if told != [("replaced", "keeper")] * 2:
        raise one.fails(f"its events are {told}")
    one = job(folder, *words, "--suspicion-seconds", 3, "--plant-death", "keeper@4:redeem:hang").ends()
    require_same(one, wanted, "a keeper that hangs")
    if not (told := [x for x in one.records() if x.get("event") == "replaced" and x["who"].startswith("keeper")]):
        raise one.fails(f"its events are {[x for x in one.records() if 'event' in x]}")
    if "no progress" not in told[0]["why"]:
        raise one.fails(f"it is told as {told}")
    one = job(folder, *words, "--plant-death", "keeper@5:redeem:kill", "keeper@12:acknowledged:kill").ends()
    require_same(one, wanted, "deaths of processes whose keeper was at work")
    if len(one.restarts()) != 2 or one.text().count("has ended: killed by SIGKILL") != 2:
        raise one.fails(f"it was restarted {one.restarts()}")


def check_shard_writer_planted(folder):
    """A shard writer dies between two files, alone, by hanging and with its process: no step is lost, and what is visible
    is whole."""
    words = [*PIPELINE, "--train-iters", 20, "--save-interval", 5]
    judged = folder / "judged"
    wanted = job(folder, *words, "--save", judged, processes=1).ends()
    for how in ("throw", "hang", "kill"):
        save = folder / f"save-{how}"
        one = job(folder, *words, "--suspicion-seconds", 3, "--save", save,
                  "--plant-death", f"shard_writer@5:save:{how}").ends()
        require_same(one, wanted, f"the death of a shard writer by {how}")
        for at in save.glob("iter_*"):
            works("checkpoint", "verify", at)
        # The manifest names the generation, of which deaths make more.
        require_same_files(judged / "iter_0000020", save / "iter_0000020", "*.safetensors")
        if any(x.name.endswith(".partial") for x in save.iterdir()):
            raise one.fails(f"half a checkpoint is left: {sorted(save.iterdir())}")
        told = [(x["event"], x["who"].partition(":")[0]) for x in one.records() if "event" in x]
        if (("restart", "process") if how == "kill" else ("replaced", "shard_writer")) not in told:
            raise one.fails(f"its events are {told}")


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
    code, out, err = cli_test.run("troupe:node", "run", one.run, "process", 0, "incarnation", 9, "rendezvous",
                                  f"127.0.0.1:{port}", "address", "127.0.0.1", "suspicion", 2)
    if code != 2 or err.count("troupe: ") != 1 or f"127.0.0.1:{port}" not in err:
        raise one.fails(f"a node with a wrong port ends with {code} and says:\n{err}")
    one.process.terminate()
    one.ends()


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
