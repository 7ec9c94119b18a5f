"""Runs over nodes that were started by hand, as on several hosts: the same bits, deaths, and jobs one after the other.
Run by ctest.

    hosts_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import os
import pathlib
import shutil
import signal
import sys

import cli_test
from cli_test import works, wrong
from host_runs import (ENDLESS, NODES, end_host, goes_on, hosted, hosted_there, hosts, keys, node, over,
                       require_undisturbed, says)
from process_runs import JOB, JOBS, LONG, PATIENCE, PIPELINE, is_same, job, judge, pending, require_same, succeeded


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
    for number, iteration in enumerate((10, 25), 1):
        one.reaches(iteration)
        at = hosted(one, nodes, 1)
        os.kill(at["pid"], signal.SIGKILL)
        hosted(one, nodes, 1, but=at["pid"])
        one.until("this death is over", lambda: len(one.restarts()) == number)
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
    succeeded(one, old)


def require_same_processes(one, nodes, before):
    now = [hosted(one, nodes, x) for x in range(len(before))]
    if not all(map(is_same, now, before)):
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
        if at.text().count("continues the run") != 2:
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
    if not is_same(hosted(one, nodes, 0), beside) or moved["incarnation"] <= first["incarnation"]:
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
        one.until("the signal has come", lambda: not pending(one.process.pid))
    if one.process.wait(PATIENCE) != 130:
        raise one.fails("a second Ctrl-C does not end it")
    is_free()
    if any("no process continues the run" in x.text() for x in nodes):
        raise one.fails("a node has waited for a successor that was not to come")
    wanted = job(folder, *PIPELINE, "--train-iters", 4, *few, processes=1).ends()
    one = job(folder, *endless, *over(nodes, credentials))
    one.reaches(5)
    while one.left():  # a successor may be on its way, which the nodes serve then
        one.stop()
    for at in nodes:
        held = "are held for its successor"
        at.until("its launcher is gone", lambda: held in at.text().rpartition(" serves process ")[2]
                 and "continues the run" not in at.text().rpartition(held)[2])
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


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in [*JOBS, *NODES]])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
