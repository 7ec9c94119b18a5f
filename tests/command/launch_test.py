"""Launches by torchrun's environment, as plain processes on loopback, and over a host file without sshd. Run by ctest.

    launch_test.py PROGRAM NAME...   runs the named checks, or all
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import cli_test
from cli_test import works, wrong
from host_runs import keys
from process_runs import JOB, PATIENCE, job, require_same

LAYOUT = ["--pipeline-model-parallel-size", 2]
SHORT = [*LAYOUT, "--train-iters", 20]
LONG = [*LAYOUT, "--train-iters", 100]
ENDLESS = [*LAYOUT, "--train-iters", 100000, "--lr-decay-style", "constant"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class launch:
    """The processes of a launch: `hosts` times `each`, with equal command lines."""

    def __init__(self, folder, *words, hosts=2, each=1, environment=None, save=True, own=None):
        """`own`: changes of a rank's variables and words, by rank; a variable None is not set."""
        number = len(list(folder.glob("launch-*")))
        self.folder = folder / f"launch-{number}"
        self.folder.mkdir()
        self.log, self.save, self.each = self.folder / "log.jsonl", self.folder / "save", each
        self.words = [*JOB, "--data-cache-path", cli_test.INDEX, *words, "--log-file", self.log,
                      *(["--save", self.save, "--load", self.save] if save else [])]
        told = {"WORLD_SIZE": hosts * each, "LOCAL_WORLD_SIZE": each, "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": free_port(), "TMPDIR": self.folder, **(environment or {})}
        self.starts = []
        for rank in range(hosts * each):
            changes, more = (own or {}).get(rank, ({}, []))
            all_told = {**os.environ, **told, "RANK": rank, "LOCAL_RANK": rank % each, **changes}
            self.starts.append({"args": [str(x) for x in [cli_test.PROGRAM, *self.words, *more]],
                                "env": {name: str(value) for name, value in all_told.items() if value is not None}})
        self.processes = [self.start(rank) for rank in range(hosts * each)]
        RUNS.append(self)

    def start(self, rank):
        with open(self.out(rank), "a") as out:
            return subprocess.Popen(**self.starts[rank], stdout=out, stderr=subprocess.STDOUT)

    def starts_again(self, rank):
        """With the same words and variables."""
        self.processes[rank].wait()
        self.processes[rank] = self.start(rank)

    records, steps = job.records, job.steps

    def out(self, rank):
        return self.folder / f"rank-{rank}.txt"

    def said(self, rank):
        return self.out(rank).read_text(errors="replace")

    def fails(self, why):
        return wrong(f"{why}\n" + "".join(f"--- rank {x}\n{self.said(x)}" for x in range(len(self.processes))))

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            if self.processes[0].poll() is not None and not holds():
                raise self.fails(f"rank 0 ended with {self.processes[0].returncode} before: {what}")
            if time.monotonic() > end:
                raise self.fails(f"not within {PATIENCE} s: {what}")
            time.sleep(0.02)

    def reaches(self, iteration):
        self.until(f"iteration {iteration}", lambda: any(x["iteration"] >= iteration for x in self.steps()))

    def ends(self, code=0, but=()):
        """All ranks end with that code, except those in `but`."""
        for rank, process in enumerate(self.processes):
            try:
                process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                raise self.fails(f"rank {rank} does not end")
            if rank not in but and process.returncode != code:
                raise self.fails(f"rank {rank} ended with {process.returncode}, expected {code}")
        end = time.monotonic() + PATIENCE
        while left := self.left():
            if time.monotonic() > end:
                raise self.fails(f"processes are left: {[line for _, line in left]}")
            time.sleep(0.05)
        return self

    def leaves_no_file(self):
        private = (".launch-", "troupe-launch-", "troupe-run-", "key.pem")
        found = [x for x in self.folder.rglob("*") if x.name.startswith(private)]
        if found:
            raise self.fails(f"the launch left {found}")

    def left(self):
        """Processes with this launch's folder in their environment."""
        out = []
        for at in pathlib.Path("/proc").iterdir():
            try:
                if at.name.isdigit() and b"TMPDIR=" + os.fsencode(self.folder) + b"\0" in (at / "environ").read_bytes():
                    out.append((int(at.name), (at / "cmdline").read_bytes()))
            except OSError:
                pass
        return out

    def left_of_lost(self):
        """Those with the variable LOST."""
        out = []
        for pid, _ in self.left():
            try:
                if b"LOST=yes\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    out.append(pid)
            except OSError:
                pass
        return out

    def stop(self):
        while left := self.left():  # a process may start another one meanwhile
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
        for one in self.processes:
            one.wait()


RUNS = []
LOST = {"LOST": "yes"}


def judged(folder, *words):
    return job(folder, "--world-size", 4, *words, processes=2).ends()


def require_ended_early(folder, one, what):
    require_same(one, judged(folder, *ENDLESS, "--exit-interval", one.steps()[-1]["iteration"]), what)


def check_same(folder):
    """Four ranks on two hosts are one run of two processes, with its bits; the number of workers follows."""
    one = launch(folder, *SHORT, each=2)
    one.ends().leaves_no_file()
    require_same(one, judged(folder, *SHORT), "two ranks on each of two hosts")
    if any("lm loss" in one.said(x) for x in (1, 2, 3)):
        raise one.fails("another rank than 0 shows the run")


def check_credentials(folder):
    """Without a shared folder, given credentials serve. No process has the secret among its words or variables."""
    credentials = keys(folder)
    one = launch(folder, *ENDLESS, "--world-size", 4, "--credentials", credentials, save=False)
    one.reaches(5)
    secret = (credentials / "secret").read_bytes().strip()
    seen = one.left()
    if len([x for x, line in seen if b"\0troupe:node\0" in line]) != 2:
        raise one.fails(f"expected two processes with ranks among {seen}")
    for pid, line in seen:
        if secret in line or secret in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
            raise one.fails(f"process {pid} shows the secret")
    one.processes[1].send_signal(signal.SIGTERM)
    one.ends()
    require_ended_early(folder, one, "with given credentials")


def check_one_host(folder):
    """Ranks of one host need no folder. Rank 0 has the run, with the processes that are asked for."""
    one = launch(folder, *SHORT, "--processes", 2, hosts=1, each=4, save=False)
    one.ends().leaves_no_file()
    require_same(one, judged(folder, *SHORT), "four ranks on one host")


def check_signals(folder):
    """A signal to all ranks, or to one of them, saves and ends the run. The same command continues."""
    one = launch(folder, *ENDLESS, "--world-size", 4)
    one.reaches(5)
    for process in one.processes:
        process.send_signal(signal.SIGUSR1)
    one.ends().leaves_no_file()
    saved = one.steps()[-1]["iteration"]
    if not (one.save / f"iter_{saved:07}").exists():
        raise one.fails(f"iteration {saved} is not saved: {list(one.save.iterdir())}")
    words = [x for x in one.words[len(JOB):] if x not in ("--save", "--load", one.save)]
    again = launch(folder, *words, "--save", one.save, "--load", one.save, save=False,
                   environment={"TORCHELASTIC_RESTART_COUNT": 1})
    again.until("it continues", lambda: any(x["iteration"] > saved for x in again.steps()))
    if f"resuming from iteration {saved}" not in again.said(0):
        raise again.fails("it does not say where it resumes")
    again.processes[1].send_signal(signal.SIGTERM)
    again.ends().leaves_no_file()


def has_socket(pid):
    try:
        return any(os.readlink(x).startswith("socket:") for x in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # just closed
        return False


def check_early_signal(folder):
    """A signal to one rank ends a launch that still waits for another rank."""
    one = launch(folder, *SHORT, "--launch-timeout", 1000, environment={"WORLD_SIZE": 3})
    one.until("rank 1 connects", lambda: has_socket(one.processes[1].pid))
    one.processes[1].send_signal(signal.SIGTERM)
    one.ends().leaves_no_file()


def check_exit_code(folder):
    """All ranks end with the exit code of the run. Each host says why once."""
    one = launch(folder, *SHORT, "--world-size", 3, each=2)
    one.ends(2).leaves_no_file()
    counts = [one.said(x).count("--world-size 3 is not a multiple of") for x in range(4)]
    if counts != [1, 0, 1, 0]:
        raise one.fails(f"the ranks say the reason {counts} times")


def check_lost_host(folder):
    """A host is lost: the other one has its process from then on."""
    one = launch(folder, *ENDLESS, "--world-size", 4, "--suspicion-seconds", 3, own={1: (LOST, [])})
    one.reaches(5)
    for pid in one.left_of_lost():
        os.kill(pid, signal.SIGKILL)
    one.until("the process moves", lambda: "process:1 moves to the node at" in one.said(0))
    one.reaches(one.steps()[-1]["iteration"] + 5)
    one.processes[0].send_signal(signal.SIGTERM)
    one.ends(but=[1])
    require_ended_early(folder, one, "after the loss of a host")


def check_rejoins(folder):
    """A host that was lost starts again: its process moves back. A process that is killed alone starts again beside its
    node, and waits for the end."""
    one = launch(folder, *ENDLESS, "--world-size", 4, "--suspicion-seconds", 3, own={1: (LOST, [])})
    one.reaches(5)
    one.processes[1].kill()
    one.starts_again(1)
    one.until("rank 1 finds its node", lambda: "the node of this host still serves the run" in one.said(1))
    for pid in one.left_of_lost():
        os.kill(pid, signal.SIGKILL)
    one.until("the process moves", lambda: "process:1 moves to the node at" in one.said(0))
    one.starts_again(1)
    one.until("it moves back", lambda: "process:1 moves (the node at" in one.said(0))
    one.reaches(one.steps()[-1]["iteration"] + 5)
    one.processes[1].send_signal(signal.SIGTERM)
    one.ends()
    require_ended_early(folder, one, "after a host was lost and came back")


def check_uneven(folder):
    """Hosts with two ranks and one have three workers in three processes."""
    words = ["--train-iters", 10, "--global-batch-size", 6]
    one = launch(folder, *words, hosts=3, environment={"LOCAL_WORLD_SIZE": None}, own={1: ({"LOCAL_RANK": 1}, [])})
    one.ends().leaves_no_file()
    require_same(one, job(folder, "--world-size", 3, *words, processes=3).ends(), "uneven hosts")


def check_rank_0_fails(folder):
    """Rank 0 cannot start: the others say why and end, long before the timeout of the launch."""
    one = launch(folder, *SHORT, "--launch-timeout", 1000, "--interface", "nowhere0")
    one.ends(2).leaves_no_file()
    if "rank 0 of this launch does not start: " not in one.said(1) or "nowhere0" not in one.said(1):
        raise one.fails("rank 1 does not say why rank 0 fails")


def check_second_signal(folder):
    """Rank 0 is stopped and takes no signal of another rank. The second signal ends that rank and its node."""
    one = launch(folder, *ENDLESS, "--world-size", 4, own={1: (LOST, [])})
    one.reaches(5)
    one.processes[0].send_signal(signal.SIGSTOP)
    for number in (signal.SIGTERM, signal.SIGINT):
        one.processes[1].send_signal(number)
    one.until("rank 1 ends", lambda: one.processes[1].poll() is not None)
    if one.processes[1].returncode not in (128 + signal.SIGTERM, 128 + signal.SIGINT):
        raise one.fails(f"rank 1 ended with {one.processes[1].returncode}")
    one.until("its node ends", lambda: not one.left_of_lost())
    one.stop()  # before the folder of the check is removed


def check_rank_0_killed(folder):
    """The run goes on to its end without the process of rank 0. The other rank cannot know how it ended."""
    one = launch(folder, *LONG, "--world-size", 4)
    one.reaches(5)
    one.processes[0].kill()
    one.ends(3, but=[0])
    require_same(one, judged(folder, *LONG), "after the death of rank 0's process")
    if "rank 0 of this launch was lost" not in one.said(1):
        raise one.fails("rank 1 does not say why")


def refused(folder, texts, *words, **how):
    """All ranks end with 2, and some rank says each of the texts. None trains."""
    one = launch(folder, *SHORT, *words, **how)
    one.ends(2).leaves_no_file()
    said = "".join(one.said(x) for x in range(len(one.processes)))
    if missing := [x for x in texts if x not in said]:
        raise one.fails(f"not said: {missing}")
    if one.steps():
        raise one.fails("it trained")
    return one


def check_refused(folder):
    """LAUNCH-2, MEETING-1: contradictory environments and incomplete launches are refused, and none trains."""
    few = ["--launch-timeout", 30]
    refused(folder, ["two processes have rank 1"], *few, each=2, own={3: ({"RANK": 1}, [])})
    refused(folder, ["rank 0 waits for rank 1 at port", "rank 1 did not come within 8 s"], "--launch-timeout", 8,
            hosts=1, environment={"WORLD_SIZE": 2})
    refused(folder, ["rank 1 (process", "another command line than rank 0", "'3' instead of '2'"], *few,
            own={0: ({}, ["--seed", 2]), 1: ({}, ["--seed", 3])})
    refused(folder, ["counts 3 ranks"], *few, own={1: ({"WORLD_SIZE": 3}, [])})
    refused(folder, ["RANK=", "MASTER_ADDR is not set"], environment={"MASTER_ADDR": None})
    refused(folder, ["by srun, and rank", "start this command by one of them"],
            environment={"SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, "SLURM_PROCID": 1, "SLURM_STEP_NUM_TASKS": 3,
                         "SLURM_STEP_NODELIST": "a", "SLURM_STEP_TASKS_PER_NODE": 3, "SLURM_NODEID": 0,
                         "SLURM_LOCALID": 0, "TORCHELASTIC_RUN_ID": "x"})
    one = refused(folder, ["have no common secret", "`troupe credentials DIR`"], each=2, save=False)
    if any(one.said(x) for x in (1, 3)):
        raise one.fails("a host says the reason twice")
    refused(folder, ["--processes 3: this launch has 2 hosts", "give a multiple of 2"], *few, "--processes", 3, each=2)
    refused(folder, ["--nodes names others"], "--nodes", "127.0.0.1:7000,127.0.0.1:7001")
    refused(folder, ["host-without-a-name.invalid"], *few, "--insecure", save=False,
            environment={"MASTER_ADDR": "host-without-a-name.invalid"})


NO_LAUNCHER = dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def check_batch_script(folder):
    """A script of a Slurm job runs on one host, and is warned if the job has several."""
    for hosts, warns in ((2, True), (1, False)):
        job_of_slurm = {**NO_LAUNCHER, "SLURM_JOB_ID": 7, "SLURM_JOB_NUM_NODES": hosts}
        one = launch(folder, *SHORT, hosts=1, own={0: (job_of_slurm, [])})
        one.ends()
        if ("this job of Slurm has 2 hosts, but this command runs on one" in one.said(0)) != warns or not one.steps():
            raise one.fails(f"a job of {hosts} hosts")


def host_file(folder, *lines):
    (folder / "hosts").write_text("".join(x + "\n" for x in lines))
    return folder / "hosts"


def ssh(folder):
    """Stands for ssh: runs the command here, and refuses one host."""
    script = folder / "ssh"
    script.write_text('#!/bin/sh\n[ "$1" != 127.0.0.9 ] || { echo "ssh: no route to 127.0.0.9" >&2; exit 255; }\n'
                      'shift\nexec sh -c "$1"\n')
    script.chmod(0o755)
    return script


def over_hosts(folder, *words, hosts):
    return launch(folder, *words, "--hostfile", host_file(folder, *hosts), "--ssh-command", ssh(folder), "--local-addr",
                  "127.0.0.1", hosts=1, own={0: (NO_LAUNCHER, [])}, save=False)


def check_host_file(folder):
    """A command with a host file starts and ends its nodes, and has the bits of two processes. Slots may differ."""
    wanted = judged(folder, *SHORT)
    for hosts in (("127.0.0.1 slots=2  # one", "127.0.0.2 slots=2"), ("127.0.0.1 slots=1", "127.0.0.2 slots=3")):
        one = over_hosts(folder, *SHORT, hosts=hosts).ends()
        one.leaves_no_file()
        require_same(one, wanted, f"over the hosts {hosts}")


def check_host_file_refused(folder):
    """A host that cannot be reached is named with the words of ssh, and the others keep no process."""
    for host, says in (("127.0.0.9", "ssh: no route to 127.0.0.9"),
                       ("nowhere.invalid", "no address of the host 'nowhere.invalid'")):
        one = over_hosts(folder, *SHORT, hosts=["127.0.0.1 slots=2", f"{host} slots=2"]).ends(2)
        one.leaves_no_file()
        if says not in one.said(0) or f"'{host}'" not in one.said(0) or one.steps():
            raise one.fails(f"expected a refusal of {host}")


if __name__ == "__main__":
    try:
        sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
    finally:
        for run in RUNS:
            run.stop()
