"""Runs over nodes that were started by hand, as on several hosts: the same bits, deaths, jobs one after the other,
strangers at every port, and what is said when something is wrong. Run by ctest.

    hosts_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cli_test
import process_runs
from cli_test import refuses, works, wrong
from process_runs import JOB, LONG, PATIENCE, PIPELINE, job, judge, require_same

ENDLESS = [*PIPELINE, "--train-iters", 100000, "--lr-decay-style", "constant"]

NODES = []


class node:
    """One that was started by hand."""

    def __init__(self, folder, *words, listen="127.0.0.1:0", credentials=None, within=()):
        self.folder = folder / f"node-{len(NODES)}"
        self.folder.mkdir()
        self.run, self.out = self.folder / "run", self.folder / "out.txt"
        keys = ["--credentials", credentials] if credentials else []
        command = [*within, cli_test.PROGRAM, "node", "--listen", listen, "--run", self.run, *keys, *words]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen([str(x) for x in command], stdout=out, stderr=subprocess.STDOUT)
        NODES.append(self)
        self.until("it waits for jobs", lambda: "waits for jobs at" in self.text())
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
                raise wrong(f"a node ended with {self.process.returncode}, and not: {what}\n{self.text()}")
            time.sleep(0.02)
        raise wrong(f"not in {PATIENCE} seconds: {what}\n{self.text()}")

    def left(self):
        """What it has started, and itself."""
        return process_runs.job.left(self)

    def ends(self, code=0, by=signal.SIGTERM):
        if by:
            self.process.send_signal(by)
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise wrong(f"a node does not end\n{self.text()}")
        if self.process.returncode != code:
            raise wrong(f"a node ended with {self.process.returncode} instead of {code}\n{self.text()}")
        self.leaves_nothing()

    def leaves_nothing(self):
        end = time.monotonic() + PATIENCE
        while self.left():
            if time.monotonic() > end:
                raise wrong(f"a node leaves {self.left()}\n{self.text()}")
            time.sleep(0.05)

    def stop(self):
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


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
    """The process that hosts ranks of that place: a child of its node's agent."""
    def find():
        from json import loads
        found = [x for x in loads(works("status", "--run", nodes[number].run, "--json"))["processes"]
                 if x["role"] == "node" and x["running"] and x["pid"] != but]
        return found and found[0]
    return one.until(f"process {number} stands", find)


def hosted_there(at):
    """How many processes of ranks it has: children of its agent."""
    return len([x for x in at.left() if b"\0troupe:node\0" in cmdline(x)])


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def end_host(at):
    """Whoever runs there is gone at once: node, guard, agent, and what computes."""
    for pid in at.left():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    at.process.wait()


def goes_on(one, steps=5):
    """Whatever has happened, so many more steps are committed."""
    done = one.steps()[-1]["iteration"]
    one.reaches(done + steps)


def says(one, *texts):
    one.until(f"it says {texts}", lambda: all(x in one.out.read_text() for x in texts))


def require_undisturbed(folder, one, what):
    """An endless run that is ended here has the bits of one process."""
    one.process.terminate()
    one.ends()
    newest = one.steps()[-1]["iteration"]
    require_same(one, job(folder, *ENDLESS, "--exit-interval", newest, processes=1).ends(), what)


def check_same(folder):
    """Job after job over the same nodes: the bits of one process, and nothing is left of a job between."""
    nodes, credentials = hosts(folder)
    for words in ([*PIPELINE, "--train-iters", 6],
                  ["--world-size", 2, "--use-distributed-optimizer", "--train-iters", 4]):
        wanted = job(folder, *words, processes=1).ends()
        one = job(folder, *words, *over(nodes, credentials)).ends()
        require_same(one, wanted, "over two nodes")
        for at in nodes:
            at.until("it is free", lambda: at.text().count("is over here") == at.text().count("serves process"))
            at.until("only it is left", lambda: at.left() == [at.process.pid])
    if [x.text().count("is over here") for x in nodes] != [2, 2]:
        raise wrong(f"two jobs were served, and they say\n{nodes[0].text()}{nodes[1].text()}")
    for at in nodes:
        if "refused" in at.text():
            raise wrong(f"a node takes a run of its own for a stranger:\n{at.text()}")
        at.ends()


def check_killed(folder):
    """The death of a process that a node has started is one like any other."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    for iteration in (10, 25):
        one.reaches(iteration)
        at = hosted(one, nodes, 1)
        os.kill(at["pid"], signal.SIGKILL)
        hosted(one, nodes, 1, but=at["pid"])
    one.goes_on(wanted, "two deaths of a process")
    if len(one.restarts()) != 2 or nodes[0].process.poll() is not None or nodes[1].process.poll() is not None:
        raise one.fails(f"the log tells of {one.restarts()}")


def check_agent_killed(folder):
    """The death of one node's agent costs no process: another agent adopts whom it has started."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    before = [hosted(one, nodes, x)["pid"] for x in (0, 1)]

    def agents():
        return [x for x in nodes[1].left() if x not in (nodes[1].process.pid, before[1])
                and "\0troupe:agent\0" in pathlib.Path(f"/proc/{x}/cmdline").read_text()]
    agent = max(agents())  # the guard is the older one
    os.kill(agent, signal.SIGKILL)
    log, = (nodes[1].run / "logs").glob("agent-*.log")
    one.until("it is adopted", lambda: "adopted 'node-1'" in log.read_text())
    if [hosted(one, nodes, x)["pid"] for x in (0, 1)] != before:
        raise one.fails("a process was replaced")
    os.kill(before[1], signal.SIGKILL)
    hosted(one, nodes, 1, but=before[1])
    one.goes_on(wanted, "the death of one host's agent")


def check_spare(folder):
    """A whole host is killed: its place goes on on the spare. That one, too: both places stand on one host, until a node
    is there again, and takes one back."""
    few = ["--suspicion-seconds", 3]
    nodes, credentials = hosts(folder, 3, None, *few)
    one = job(folder, *ENDLESS, *few, *over(nodes[:2], credentials, nodes[2:]))
    one.reaches(10)
    beside = hosted(one, nodes, 0)
    end_host(nodes[1])
    says(one, f"process:1 moves to the node at {nodes[2].at} (the node at {nodes[1].at} is gone")
    hosted(one, nodes, 2)
    goes_on(one)
    end_host(nodes[2])
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no other node is left", "hosts the processes 0 and 1")
    one.until("both stand on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    back = node(folder, *few, listen=nodes[1].at, credentials=credentials)
    says(one, f"the node at {back.at} is there again", f"process:1 moves to the node at {back.at}",
         f"process:1 moves (the node at {back.at} has room for it)")
    one.until("one is back", lambda: (hosted_there(nodes[0]), hosted_there(back)) == (1, 1))
    goes_on(one)
    if hosted(one, nodes, 0)["pid"] != beside["pid"]:
        raise one.fails("the process that nobody killed was replaced, too")
    events = [x["event"] for x in one.records() if "event" in x]
    if events != ["restart", "restart", "move"] or {x["state_from"] for x in one.records() if "event" in x} != {"keeper"}:
        raise one.fails(f"the log tells of {events}")
    require_undisturbed(folder, one, "after two hosts were lost, and one came back")
    for at in (nodes[0], back):
        at.until("it is free", lambda: at.left() == [at.process.pid])
        at.ends()


def check_node_killed(folder):
    """A node that is gone is a host that is gone: with the last one the run ends with that cause, and leaves nothing."""
    few = ["--suspicion-seconds", 3]
    nodes, credentials = hosts(folder, 2, None, *few)
    one = job(folder, *ENDLESS, *few, *over(nodes, credentials))
    one.reaches(5)
    nodes[1].process.kill()  # what it has started lives on for a while, and is told to end
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no other node is left (the node at {nodes[1].at} is gone")
    one.until("both stand on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    nodes[1].leaves_nothing()
    end_host(nodes[0])
    one.ends(2)
    if f"the node at {nodes[0].at} is gone" not in one.text():
        raise one.fails("the cause is not told")


def replaced_supervisor(one, how=signal.SIGKILL, beside=lambda: None):
    """Its process dies, or stands still, and something else at the same moment; until another one decides."""
    old = one.deciding()
    os.kill(old["pid"], how)
    beside()
    process_runs.succeeded(one, old)


def require_same_processes(one, nodes, before):
    now = [hosted(one, nodes, x) for x in range(len(before))]
    if not all(map(process_runs.is_same, now, before)):
        raise one.fails(f"the hosts have the processes {now}, and had {before}")


def frees(nodes):
    for at in nodes:
        at.until("it is free", lambda: at.left() == [at.process.pid])
        at.ends()


def check_supervisor_killed(folder):
    """The supervisor's process dies, twice: another one goes on with whoever computes on other hosts."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    before = [hosted(one, nodes, x) for x in (0, 1)]
    for deaths in (1, 2):
        replaced_supervisor(one)
        one.until("it goes on", lambda: len(one.restarts()) == deaths)
        goes_on(one)
    require_same_processes(one, nodes, before)
    one.goes_on(wanted, "two deaths of the supervisor's process")
    for at in nodes:
        if at.text().count("goes on with the run") != 2:
            raise wrong(f"a node does not tell of two successors:\n{at.text()}")
    frees(nodes)


def check_supervisor_stopped(folder):
    """It stands still: its host's agent kills it before another one takes its place."""
    few = ["--suspicion-seconds", 3]
    nodes, credentials = hosts(folder, 2, None, *few)
    one = job(folder, *ENDLESS, *few, *over(nodes, credentials))
    one.reaches(10)
    before = [hosted(one, nodes, x) for x in (0, 1)]
    replaced_supervisor(one, signal.SIGSTOP)
    goes_on(one)
    require_same_processes(one, nodes, before)
    require_undisturbed(folder, one, "a supervisor's process that stands still")
    frees(nodes)


def check_supervisor_and_host(folder):
    """With it a whole host is lost: the successor has its place go on elsewhere, as the next incarnation of it. Then a
    process dies whom no launcher of its own has started."""
    few = ["--suspicion-seconds", 8]
    nodes, credentials = hosts(folder, 3, None, *few)
    one = job(folder, *ENDLESS, *few, *over(nodes[:2], credentials, nodes[2:]))
    one.reaches(10)
    beside = hosted(one, nodes, 0)
    first = hosted(one, nodes, 1)
    replaced_supervisor(one, beside=lambda: end_host(nodes[1]))
    says(one, f"process:1 moves to the node at {nodes[2].at}")
    moved = hosted(one, nodes, 2)
    goes_on(one)
    if not process_runs.is_same(hosted(one, nodes, 0), beside) or moved["incarnation"] <= first["incarnation"]:
        raise one.fails(f"beside was {beside}, and what moved is {moved}, not the next of {first}")
    os.kill(beside["pid"], signal.SIGKILL)
    hosted(one, nodes, 0, but=beside["pid"])
    goes_on(one)
    require_undisturbed(folder, one, "a supervisor's process and a host")
    frees([nodes[0], nodes[2]])


def check_supervisor_in_vain(folder):
    """Where nobody is to succeed it, or the user does not want to wait, nodes are free at once, for the next run; where
    nobody is left who could, after a while, for which the next run waits."""
    few = ["--suspicion-seconds", 6]
    nodes, credentials = hosts(folder, 2, None, *few)
    endless = [*PIPELINE, "--train-iters", 100000, *few]

    def is_free():
        for at in nodes:
            at.until("only it is left", lambda: at.left() == [at.process.pid])
    one = job(folder, *endless, "--recovery", "off", *over(nodes, credentials))
    one.reaches(5)
    os.kill(one.deciding()["pid"], signal.SIGKILL)
    if one.process.wait(PATIENCE) != 3:
        raise one.fails("the command does not say that the run was lost")
    is_free()
    one = job(folder, *endless, *over(nodes, credentials))
    one.reaches(5)
    decides = one.deciding()
    os.kill(decides["pid"], signal.SIGSTOP)  # it would end in order
    for _ in range(2):
        one.process.send_signal(signal.SIGINT)
        one.until("the signal has come", lambda: not process_runs.pending(one.process.pid))
    if one.process.wait(PATIENCE) != 130:
        raise one.fails("a second Ctrl-C does not end it")
    is_free()
    if any("nobody goes on with the run" in x.text() for x in nodes):
        raise one.fails("a node has waited for a successor that was not to come")
    wanted = job(folder, *PIPELINE, "--train-iters", 4, *few, processes=1).ends()
    one = job(folder, *endless, *over(nodes, credentials))
    one.reaches(5)
    while one.left():  # a successor may be on its way, which the nodes serve then
        one.stop()
    for at in nodes:
        at.until("its launcher is gone", lambda: "is held for its successor" in at.text().rpartition(" serves process ")[2]
                 and "goes on with the run" not in at.text().rpartition("is held for its successor")[2])
    one = job(folder, *PIPELINE, "--train-iters", 4, *few, *over(nodes, credentials)).ends()
    require_same(one, wanted, "afterwards")  # it has waited for them
    is_free()


def check_once(folder):
    """--once: it ends after its job. SIGTERM amid a job ends what it has started, and the run."""
    credentials = keys(folder)
    nodes = [node(folder, "--once", credentials=credentials) for _ in range(2)]
    job(folder, *PIPELINE, "--train-iters", 2, *over(nodes, credentials)).ends()
    for at in nodes:
        at.ends(by=None)
    nodes = hosts(folder, 2, credentials)[0]
    one = job(folder, *PIPELINE, "--train-iters", 100000, *over(nodes, credentials))
    one.reaches(3)
    nodes[1].ends()
    one.until("both stand on one host", lambda: hosted_there(nodes[0]) == 2)
    nodes[0].ends()
    one.ends(2)


def fails_soon(folder, says, *words, count=1):
    """Exit code 2, one message, which has all of that; the seconds that it took."""
    began = time.monotonic()
    code, out, err = cli_test.run(*JOB, *PIPELINE, "--train-iters", 2, "--run", folder / f"run-{time.monotonic_ns()}", *words)
    told = [x for x in err.splitlines() if x.startswith("troupe: ") and not x.startswith("troupe: warning")]
    if code != 2 or len(told) != count or not all(x in " ".join(told) for x in says):
        raise wrong(f"{words} ends with {code}, not 2 and {says}:\n{out}{err}")
    return time.monotonic() - began


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def check_refused(folder):
    """Bad input: one error that names the node, and the exit code 2."""
    nodes, credentials = hosts(folder, 2)
    a, b = (x.at for x in nodes)
    given = ["--credentials", credentials]
    nobody = f"127.0.0.1:{free_port()}"
    fails_soon(folder, [nobody, "Connection refused"], "--nodes", f"{a},{nobody}", *given)
    fails_soon(folder, [a, "twice"], "--nodes", f"{a},{a}", *given)
    fails_soon(folder, [a, "twice", "localhost"], "--nodes", f"{a},{a.replace('127.0.0.1', 'localhost')}", *given)
    fails_soon(folder, ["no-such-host.invalid"], "--nodes", f"{a},no-such-host.invalid:7000", *given)
    fails_soon(folder, ["HOST:PORT", "'nowhere'"], "--nodes", f"{a},nowhere", *given)
    fails_soon(folder, ["names 2 nodes", "3 processes"], "--nodes", f"{a},{b}", *given, "--processes", 3)
    fails_soon(folder, ["--nodes names one node"], "--nodes", a, *given)
    fails_soon(folder, ["--credentials"], "--nodes", f"{a},{b}")
    fails_soon(folder, ["none"], "--nodes", f"{a},{b}", "--credentials", folder / "none")
    fails_soon(folder, ["--nodes"], *given)
    fails_soon(folder, [a, "has other credentials"], "--nodes", f"{a},{b}", "--credentials", keys(folder, "others"))
    fails_soon(folder, ["the node at 127.0.0.1:", "--suspicion-seconds 10", "has 3"], "--nodes", f"{a},{b}", *given, "--suspicion-seconds", 3)
    fails_soon(folder, ["is 5", "(--world-size)"], "--nodes", ",".join(f"127.0.0.1:{x}" for x in range(1, 6)), *given)
    spare = ["--nodes", f"{a},{b}", *given, "--spare-nodes"]
    fails_soon(folder, ["--spare-nodes", a, "which --nodes gives a place"], *spare, a)
    fails_soon(folder, ["--spare-nodes", "which --nodes gives a place"], *spare, b.replace("127.0.0.1", "localhost"))
    fails_soon(folder, ["--spare-nodes", nobody, "twice"], *spare, f"{nobody},{nobody}")
    fails_soon(folder, [nobody, "Connection refused"], *spare, nobody)
    fails_soon(folder, ["--spare-nodes", "HOST:PORT", "'nowhere'"], *spare, "nowhere")
    fails_soon(folder, ["--spare-nodes belongs to --nodes"], "--spare-nodes", a)
    hasty = node(folder, "--suspicion-seconds", 3, credentials=credentials)
    fails_soon(folder, [f"the node at {hasty.at} does not serve", "--suspicion-seconds 3", "has 10"], *spare, hasty.at)
    # Somebody who listens and says nothing.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        took = fails_soon(folder, [at], "--nodes", f"{a},{at}", *given, "--suspicion-seconds", 2)
    if took > PATIENCE:
        raise wrong(f"a node that says nothing took {took} seconds")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        one = job(folder, *ENDLESS, "--nodes", f"{a},{at}", *given, "--suspicion-seconds", 10 * PATIENCE)
        silent.settimeout(PATIENCE)
        with silent.accept()[0]:  # it is waited for
            one.process.send_signal(signal.SIGINT)
            one.ends()
    refuses("in use", "node", "--listen", a, *given)
    (folder / "open").mkdir(mode=0o755)
    refuses("others own it or may enter it", "credentials", folder / "open")
    refuses("--credentials", "node", "--listen", "127.0.0.1:0")
    refuses("no single address", "node", "--listen", "0.0.0.0:0", *given)
    refuses("not empty", "credentials", credentials)
    copied = folder / "readable"
    shutil.copytree(credentials, copied)
    (copied / "secret").chmod(0o644)
    refuses("0600", "node", "--listen", "127.0.0.1:0", "--credentials", copied)
    # They serve, after all that; and are busy meanwhile.
    one = job(folder, *PIPELINE, "--train-iters", 100000, *over(nodes, credentials))
    one.reaches(2)
    fails_soon(folder, ["the node at 127.0.0.1:", "of another run"], "--nodes", f"{a},{b}", *given)
    one.process.terminate()
    one.ends()


def check_data_missing(folder):
    """A host without the data: its node is named."""
    credentials, tok = keys(folder), cli_test.tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--tokenizer", tok, "--output-prefix", folder / "d",
          "--append-eod")
    places = [folder / x for x in ("full", "empty")]
    for at in places:
        at.mkdir()
    for file in folder.glob("d*.*"):
        shutil.copy(file, places[0])
    data, = {x.stem for x in places[0].glob("*.idx")}
    nodes = []
    for at in places:
        os.chdir(at)  # where a node looks for what the job names by a relative path
        nodes.append(node(folder, credentials=credentials))
    os.chdir(places[0])
    words = [x for x in JOB if x not in ("--mock-data", "NullTokenizer", "--tokenizer-type")]
    at = words.index("--vocab-size")
    code, out, err = cli_test.run(*words[:at], *words[at + 2:], *PIPELINE, "--train-iters", 2, "--data-path", data,
                                  "--tokenizer", tok, *over(nodes, credentials))
    if code != 2 or "process:1" not in err or nodes[1].at not in err or data not in err:
        raise wrong(f"a host without data: {code}\n{out}{err}\n{nodes[1].text()}")


def check_relative(folder):
    """A relative --save and --load begin where the command was typed, for nodes that were started elsewhere, too."""
    credentials = keys(folder)
    home, nodes = folder / "home", []
    for name in ("home", "elsewhere", "far"):
        (folder / name).mkdir()
    (folder / "elsewhere" / "saved").mkdir()  # of the same name, and not meant
    for name in ("elsewhere", "far"):
        os.chdir(folder / name)
        nodes.append(node(folder, credentials=credentials))
    os.chdir(home)
    words = [*PIPELINE, "--train-iters", 200, "--save"]
    wanted = job(folder, *words, folder / "judge", processes=1).ends()
    one = job(folder, *words, "saved", "--save-interval", 20, *over(nodes, credentials))
    one.until("a checkpoint", lambda: (home / "saved" / "iter_0000020" / "manifest.json").exists())
    # All that keep states die: what is left is the checkpoint, which nodes read.
    for pid in [hosted(one, nodes, number)["pid"] for number in (0, 1)]:
        os.kill(pid, signal.SIGKILL)
    one.ends()
    if "from the checkpoint" not in one.out.read_text():
        raise one.fails("nobody went on from the checkpoint")
    require_same(one, wanted, "from a checkpoint with a relative name")
    works("checkpoint", "diff", folder / "judge", home / "saved")
    again = job(folder, *words, "saved", "--load", "saved", *over(nodes, credentials)).ends()
    if again.steps():
        raise again.fails("it does not go on from where it was saved")
    left = sorted(x.name for name in ("elsewhere", "far") for x in (folder / name).rglob("*"))
    if left != ["saved"]:
        raise wrong(f"where nodes were started they have left {left}")


def check_insecure(folder):
    """--insecure works, says what it gives up, and only with both ends."""
    nodes = [node(folder, "--insecure") for _ in range(2)]
    where = ["--nodes", ",".join(x.at for x in nodes)]
    wanted = job(folder, *PIPELINE, "--train-iters", 4, processes=1).ends()
    one = job(folder, *PIPELINE, "--train-iters", 4, *where, "--insecure").ends()
    require_same(one, wanted, "without TLS")
    for said in (one.text(), nodes[0].text()):
        if "no TLS between processes" not in said:
            raise one.fails(f"it is not said what --insecure gives up in\n{said}")
    credentials = keys(folder)
    fails_soon(folder, [nodes[0].at, "--insecure"], *where, "--credentials", credentials, "--suspicion-seconds", 3)
    safe = [node(folder, credentials=credentials) for _ in range(2)]
    fails_soon(folder, [safe[0].at, "--insecure"], *over(safe, credentials)[:2], "--insecure",
               "--suspicion-seconds", 3)
    fails_soon(folder, ["--credentials"], *over(safe, credentials), "--insecure")
    one = job(folder, *PIPELINE, "--train-iters", 4, *over(safe, credentials)).ends()
    require_same(one, wanted, "after a caller without TLS")


class proxy:
    """Stands between callers and a port, and remembers what callers say."""

    def __init__(self, to):
        self.to, self.heard = to, []
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        self.at = f"127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            caller = self.listening.accept()[0]
            other = socket.create_connection(("127.0.0.1", self.to))
            self.heard.append([])
            for x, y, kept in ((caller, other, self.heard[-1]), (other, caller, None)):
                threading.Thread(target=self.pass_on, args=(x, y, kept), daemon=True).start()

    def pass_on(self, x, y, kept):
        try:
            while data := x.recv(65536):
                if kept is not None:
                    kept.append(data)
                y.sendall(data)
            y.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def ports_of(pids):
    """On which those processes listen."""
    rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
    mine = process_runs.listening(pids)
    return {int(x[1].split(":")[1], 16) for x in rows if x[3] == "0A" and x[9] in mine}


def annoy(port, held, replayed, stranger):
    """One of each kind; those who only wait are held. Whether the port takes calls."""
    def call():
        return socket.create_connection(("127.0.0.1", port), timeout=0.3)

    def say(data):
        with call() as at:
            try:
                at.sendall(data)
                at.shutdown(socket.SHUT_WR)
                while at.recv(4096):  # no longer than a moment: some only wait
                    pass
            except OSError:
                pass
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except TimeoutError:
        return False  # one of UCX itself, shut to all but those that it expects (runtime/transport/ucx/door.hpp)
    for data in (os.urandom(3000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(20),
                 b"\xff" * 64, b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + bytes(64), *replayed):
        say(data)
    for data in (b"", b"\x16\x03\x01\x02"):
        held.append(call())
        held[-1].sendall(data)
    for context in stranger:
        try:
            with context.wrap_socket(call()) as at:
                at.sendall(bytes(64))
                at.recv(64)
        except OSError:
            pass
    return True


def check_strangers(folder):
    """At every port of a run: they are refused, once for each kind it is said, and no port is deaf afterwards."""
    import ssl
    contexts = []
    for certified in (None, keys(folder, "others")):  # nobody's, and another run's
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certified:
            context.load_cert_chain(certified / "certificate.pem", certified / "key.pem")
        contexts.append(context)
    nodes, credentials = hosts(folder)
    # First a run through a proxy: what it says at a node's port is said again by strangers.
    between = proxy(nodes[0].port())
    job(folder, *PIPELINE, "--train-iters", 2, "--nodes", f"{between.at},{nodes[1].at}", "--credentials",
        credentials).ends()
    replayed = [max((b"".join(x) for x in between.heard), key=len)]
    if len(replayed[0]) < 1000:
        raise wrong("nothing was said by way of the proxy")
    # Slowly, with the same bits: strangers take long, and each step is computed again by the judge.
    one = job(folder, *ENDLESS, "--plant-delays", "7,20000,0", *over(nodes, credentials))
    one.reaches(3)
    held, tried = [], set()

    def annoy_all(ports):  # at once, for most of it is waiting
        with ThreadPoolExecutor(8) as callers:
            tried.update(port for port, takes in zip(ports, callers.map(
                lambda port: annoy(port, held, replayed, contexts), ports)) if takes)
    annoy_all(sorted(ports_of([*one.left(), *nodes[0].left(), *nodes[1].left()])))
    at = hosted(one, nodes, 1)
    os.kill(at["pid"], signal.SIGKILL)
    hosted(one, nodes, 1, but=at["pid"])  # the rendezvous and all other ports take the new one
    # As many who say nothing as a port has room for, and more.
    crowd = [x for x in ports_of([one.deciding()["pid"]]) | {nodes[0].port()} if x in tried]
    held += [socket.create_connection(("127.0.0.1", port), timeout=5) for port in crowd for _ in range(80)]
    annoy_all(crowd)
    at = hosted(one, nodes, 0)
    os.kill(at["pid"], signal.SIGKILL)
    hosted(one, nodes, 0, but=at["pid"])
    one.process.terminate()
    one.ends()
    newest = one.steps()[-1]["iteration"]
    require_same(one, job(folder, *ENDLESS, "--exit-interval", newest, processes=1).ends(),
                 "with strangers at every port")
    if len(tried) < 8 or len(crowd) < 3:
        raise one.fails(f"only the ports {tried} were found")
    for text in (one.out.read_text(), nodes[0].text()):
        told = [x.split(". This is said once")[0] for x in text.splitlines() if "was refused" in x]
        kinds = [re.sub(r"\d+", "N", x) for x in told]
        if not told or len(set(kinds)) != len(kinds):
            raise one.fails(f"strangers are told by {told} in\n{text}")
    for x in held:
        x.close()
    require_same(job(folder, *PIPELINE, "--train-iters", 2, *over(nodes, credentials)).ends(),
                 job(folder, *PIPELINE, "--train-iters", 2, processes=1).ends(), "afterwards")


class network:
    """Two hosts, as network namespaces of this machine, with a switch between, so that one has a link when the other has none; the
    second with processes of its own, too: no memory is shared between them, so sums go over the wire."""
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
            print(f"skipped: no network namespaces here: `{' '.join(map(str, words))}`: {done.stderr.strip()}")
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
        """One whose command is typed on the first."""
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
        """It hears nothing of the other one any more, which hears it: what is sent goes to nobody's card."""
        self.neighbour(1 - host, "replace", self.addresses[host], "lladdr", "02:00:00:00:00:99", "nud", "permanent")

    def heal(self, host):
        self.neighbour(1 - host, "del", self.addresses[host])

    def neighbour(self, host, what, *words):
        done = self.system("ip", "-n", self.names[host], "neigh", what, *words, "dev", "host0")
        if done.returncode != 0:
            raise wrong(f"ip neigh {what} {words}: {done.stderr}")


def check_namespaces(folder):
    """Over two hosts: the same bits, also after a death."""
    between = network()
    credentials = keys(folder)
    wanted = judge(folder)
    nodes = between.nodes(folder, credentials)
    one = between.job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    child, = [x for x in nodes[1].left() if b"\0troupe:node\0" in cmdline(x)]
    os.kill(child, signal.SIGKILL)
    one.goes_on(wanted, "over two hosts, with a death")
    if len(one.restarts()) != 1:
        raise one.fails(f"the log tells of {one.restarts()}")
    if f"stands at {between.addresses[1]}:" not in (nodes[1].run / "logs" / "node-1.log").read_text():
        raise one.fails("the second process does not listen on its host's address")
    for at in nodes:
        at.stop()


def check_one_way(folder):
    """One host does not hear the other one, which hears it: both find out, long before a process gives up by itself, its
    place moves, and what is told on the other side has no part in the run. Afterwards it is a host like any other."""
    suspicion = 4
    few = ["--suspicion-seconds", suspicion]
    between = network()
    credentials = keys(folder)
    nodes = between.nodes(folder, credentials, *few)
    one = between.job(folder, *ENDLESS, *few, *over(nodes, credentials))
    one.reaches(10)
    for round, deaf in enumerate((1, 0), 1):
        began = time.monotonic()
        between.deafen(deaf)
        one.until("its place moves", lambda: one.out.read_text().count("as no other node is left") == round)
        nodes[1].until("that host is free", lambda: nodes[1].text().count("is over here") == round)
        nodes[1].until("nothing of the run is left there", lambda: hosted_there(nodes[1]) == 0)
        took = time.monotonic() - began
        print(f"host {deaf} hears nothing: found by both in {took:.1f} s, suspicion {suspicion} s")
        if took > 9 * suspicion:  # a process that is alone ends after ten
            raise one.fails(f"host {deaf} is deaf, which took {took} s to find out")
        one.until("both stand on one host", lambda: hosted_there(nodes[0]) == 2)
        goes_on(one)
        between.heal(deaf)
        one.until("it is there again", lambda: one.out.read_text().count("is there again") == round)
        one.until("one is back", lambda: (hosted_there(nodes[0]), hosted_there(nodes[1])) == (1, 1))
        goes_on(one)
    require_undisturbed(folder, one, "after a host was deaf, and then the other one")
    for at in nodes:
        at.stop()


def check_cut_off(folder):
    """A host is cut off, and stays so: the run goes on without it and ends in order while it is looked for, and that host
    has ended by itself what it had of the run."""
    suspicion = 3
    few = ["--suspicion-seconds", suspicion]
    between = network()
    credentials = keys(folder)
    nodes = between.nodes(folder, credentials, *few)
    one = between.job(folder, *ENDLESS, *few, *over(nodes, credentials))
    one.reaches(10)
    for host in (0, 1):
        between.deafen(host)
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no other node is left")
    nodes[1].until("that host is free", lambda: "is over here" in nodes[1].text() and hosted_there(nodes[1]) == 0)
    one.until("both stand on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    time.sleep(2 * suspicion)  # by now it is looked for
    require_undisturbed(folder, one, "with a host that stays away")
    if "is there again" in one.out.read_text():
        raise one.fails("the host that was cut off was found")
    for at in nodes:
        at.stop()


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in [*process_runs.JOBS, *NODES]])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
