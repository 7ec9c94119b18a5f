"""For tests: runs that the scripts of examples/ start on the hosts of cluster_hosts.py."""

import os
import pathlib
import subprocess

import cli_test
from cli_test import works, wrong
from process_runs import JOB, PATIENCE, PIPELINE, job, require_same
from cluster_hosts import until

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SHORT = [*PIPELINE, "--train-iters", 60]
UNEVEN = ["--world-size", 3, "--pipeline-model-parallel-size", 2]  # is refused
ENDLESS = [*PIPELINE, "--train-iters", 100000, "--lr-decay-style", "constant"]
LOSSES = ("iteration", "lm_loss", "grad_norm", "state_digest")


class launched:
    """A run with its own folder, which all hosts see. `starts` or `submits` starts it."""

    def __init__(self, folder, cluster, *words):
        self.cluster, self.folder = cluster, folder / f"run-{len(list(folder.glob('run-*')))}"
        self.folder.mkdir()
        self.log, self.out, self.save = (self.folder / x for x in ("log.jsonl", "out.txt", "save"))
        self.out.touch()
        self.words = [*JOB[2:], "--data-cache-path", cli_test.INDEX, *words, "--log-file", self.log,
                      "--save", self.save, "--load", self.save]
        self.number = self.process = None

    records, steps = job.records, job.steps

    def submits(self, *options, words=()):
        """By sbatch."""
        self.number = self.cluster.submit(self.out, *options, EXAMPLES / "slurm/train.sbatch", *self.words, *words)
        return self

    def starts(self, *command, words=()):
        """By a command on `head`."""
        with open(self.out, "w") as out:
            self.process = self.cluster.head.start(*command, *self.words, *words, out=out,
                                                   environment=self.cluster.environment)
        return self

    def signal(self, number):
        """To the command that `starts` has started. The process above it only enters the host."""
        above = self.process.pid
        child, = pathlib.Path(f"/proc/{above}/task/{above}/children").read_text().split()
        os.kill(int(child), number)

    def over(self):
        """What ended it, or nothing while it runs."""
        if self.process:
            return None if self.process.poll() is None else f"exit code {self.process.returncode}"
        told = self.cluster.job(self.number)
        if told.get("JobState", "PENDING") in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            return None
        return f"{told['JobState']}, exit code {told['ExitCode'].split(':')[0]}"

    def fails(self, why):
        return wrong(f"{why}\n{self.out.read_text(errors='replace')}\n{self.cluster.logs()}")

    def until(self, what, holds):
        """Fails when it is over before."""
        def looks():
            over = self.over()
            if (found := holds()) or not over:
                return found
            raise self.fails(f"the run ended with {over} before: {what}")
        return until(what, looks, lambda: str(self.fails("")))

    def reaches(self, iteration):
        self.until(f"iteration {iteration}", lambda: any(x["iteration"] >= iteration for x in self.steps()))

    def goes_on(self, steps=10):
        self.reaches(self.steps()[-1]["iteration"] + steps)

    def ends(self, code=0):
        over = until("the run ends", self.over, lambda: str(self.fails("")))
        expected = f"exit code {code}" if self.process else f"{'FAILED' if code else 'COMPLETED'}, exit code {code}"
        if over != expected:
            raise self.fails(f"the run ended with '{over}', expected '{expected}'")
        return self

    def hosted(self, number=None):
        """Processes with ranks on that host, or on each."""
        hosts = self.cluster.nodes if number is None else [self.cluster.nodes[number]]
        return [len(one.processes("troupe:node")) for one in hosts]

    def leaves_nothing(self, but=()):
        """No host has a process of the program. No files are left, except in these folders of a host that was lost."""
        until("no process is left", lambda: not any(one.processes() for one in self.cluster.all),
              lambda: str(self.fails("")))
        files = [*self.folder.rglob("credentials"), *self.folder.rglob(".launch*"), *self.cluster.temporary.iterdir()]
        left = [x for x in files if x not in but and x.parent not in but]
        if left:
            raise self.fails(f"the run left {left}")


def saved(run):
    """The iterations of its checkpoints."""
    return [int(x.name[5:]) for x in sorted(run.save.glob("iter_*")) if x.name[5:].isdigit()]


def require_same_run(one, folder, what, *words):
    """Compares losses, states and the newest checkpoint with a run of two processes on this host."""
    newest = one.steps()[-1]["iteration"]
    if saved(one)[-1] != newest:
        raise one.fails(f"{what}: saved {saved(one)}, the last step is {newest}")
    save = folder / f"wanted-{len(list(folder.glob('wanted-*')))}"
    wanted = job(folder, *words, "--exit-interval", newest, "--save", save, processes=2).ends()
    require_same(one, wanted, what)
    for here, there in zip(one.steps(), wanted.steps()):
        if differ := [x for x in LOSSES if here[x] != there[x]]:
            raise one.fails(f"{what}: {differ} of iteration {here['iteration']}: {here}, expected {there}")
    works("checkpoint", "diff", one.save, save)


def require_refused(one, within, *texts):
    """The run ends with 2, within that many seconds, and says each text once."""
    try:
        code = one.process.wait(timeout=within)
    except subprocess.TimeoutExpired:
        raise one.fails(f"not refused within {within} s")
    said = one.out.read_text(errors="replace")
    if code != 2 or any(said.count(x) != 1 for x in texts):
        raise one.fails(f"exit code {code}, expected 2 and once each of {texts}")
