"""Runs over nodes started by hand, as on several hosts: same bits, deaths, and one job after another. Run by ctest.

    hosts_test.py PROGRAM NAME...   runs the named checks, or all
"""

import os
import pathlib
import shutil
import signal
import sys

import cli_test
from cli_test import works, wrong
from host_runs import (ENDLESS, end_host, goes_on, hosted, hosted_there, hosts, keys, node, over,
                       require_undisturbed, says)
from process_runs import JOB, LONG, PATIENCE, PIPELINE, is_same, job, judge, pending, require_same, succeeded


def check_same(folder):
    """Several jobs over the same nodes have the bits of one process. Each job leaves nothing behind."""
    nodes, credentials = hosts(folder)
    for words in ([*PIPELINE, "--train-iters", 6],
                  ["--world-size", 2, "--use-distributed-optimizer", "--train-iters", 4]):
        wanted = job(folder, *words, processes=1).ends()
        one = job(folder, *words, *over(nodes, credentials)).ends()
        require_same(one, wanted, "over two nodes")
        for at in nodes:
            at.until("the node is free", lambda: at.text().count("is over here") == at.text().count("serves process"))
            at.until("only the node is left", lambda: at.left() == [at.process.pid])
    if [x.text().count("is over here") for x in nodes] != [2, 2]:
        raise wrong(f"expected two served jobs:\n{nodes[0].text()}{nodes[1].text()}")
    for at in nodes:
        if "refused" in at.text():
            raise wrong(f"a node refused a caller of its own run:\n{at.text()}")
        at.ends()


def check_killed(folder):
    """Survives the death of a process that a node started."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    for number, iteration in enumerate((10, 25), 1):
        one.reaches(iteration)
        at = hosted(one, nodes, 1)
        os.kill(at["pid"], signal.SIGKILL)
        hosted(one, nodes, 1, but=at["pid"])
        one.until("the run has recovered", lambda: len(one.restarts()) == number)
    one.goes_on(wanted, "two deaths of a process")
    if len(one.restarts()) != 2 or nodes[0].process.poll() is not None or nodes[1].process.poll() is not None:
        raise one.fails(f"the log has the restarts {one.restarts()}")


def check_agent_killed(folder):
    """After the death of a node's agent, another agent adopts its processes. None is replaced."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    before = [hosted(one, nodes, x)["pid"] for x in (0, 1)]

    agent, = [x for x in nodes[1].left() if "\0troupe:agent\0" in pathlib.Path(f"/proc/{x}/cmdline").read_text()]
    os.kill(agent, signal.SIGKILL)
    log, = (nodes[1].run / "logs").glob("agent-*.log")
    one.until("the process is adopted", lambda: "adopted 'node-1'" in log.read_text())
    if [hosted(one, nodes, x)["pid"] for x in (0, 1)] != before:
        raise one.fails("a process was replaced")
    os.kill(before[1], signal.SIGKILL)
    hosted(one, nodes, 1, but=before[1])
    one.goes_on(wanted, "the death of one host's agent")


def check_spare(folder):
    """A whole host is killed, and its place moves to the spare. Then the spare is killed, and both places share one
    host until a node returns and takes one back."""
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
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no node has a free slot", "hosts the processes 0 to 1")
    one.until("both places are on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    back = node(folder, *few, listen=nodes[1].at, credentials=credentials)
    says(one, f"the node at {back.at} is available again", f"process:1 moves to the node at {back.at}",
         f"process:1 moves (the node at {back.at} has room for it)")
    one.until("one place moves back", lambda: (hosted_there(nodes[0]), hosted_there(back)) == (1, 1))
    goes_on(one)
    if hosted(one, nodes, 0)["pid"] != beside["pid"]:
        raise one.fails("a process without a fault was replaced")
    events = [x["event"] for x in one.records() if "event" in x]
    if events != ["restart", "restart", "move"] or {x["state_from"] for x in one.records() if "event" in x} != {"keeper"}:
        raise one.fails(f"the log has the events {events}")
    require_undisturbed(folder, one, "after two hosts were lost, and one came back")
    for at in (nodes[0], back):
        at.until("the node is free", lambda: at.left() == [at.process.pid])
        at.ends()


def check_node_killed(folder):
    """A lost node counts as a lost host. Losing the last one ends the run with that cause and leaves no process."""
    few = ["--suspicion-seconds", 3]
    nodes, credentials = hosts(folder, 2, None, *few)
    one = job(folder, *ENDLESS, *few, *over(nodes, credentials))
    one.reaches(5)
    nodes[1].process.kill()  # its children live on until they are told to end
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no node has a free slot",
         f"(the node at {nodes[1].at} is gone")
    one.until("both places are on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    nodes[1].leaves_nothing()
    end_host(nodes[0])
    one.ends(2)
    if f"the node at {nodes[0].at} is gone" not in one.text():
        raise one.fails("the cause is not reported")


def replaced_supervisor(one, how=signal.SIGKILL, beside=lambda: None):
    """Kills or stops the supervisor's process, calls `beside` at that moment, and waits for the next supervisor."""
    old = one.deciding()
    os.kill(old["pid"], how)
    beside()
    succeeded(one, old)


def require_same_processes(one, nodes, before):
    now = [hosted(one, nodes, x) for x in range(len(before))]
    if not all(map(is_same, now, before)):
        raise one.fails(f"the processes on the hosts are {now}, expected {before}")


def frees(nodes):
    for at in nodes:
        at.until("the node is free", lambda: at.left() == [at.process.pid])
        at.ends()


def check_supervisor_killed(folder):
    """The supervisor's process is killed twice, the second time after the agent of its host. Each time another one
    continues with the same processes on other hosts."""
    nodes, credentials = hosts(folder)
    wanted = judge(folder)
    one = job(folder, *LONG, *over(nodes, credentials))
    one.reaches(10)
    before = [hosted(one, nodes, x) for x in (0, 1)]
    agent, = one.processes("agent")
    log, = (one.run / "logs").glob("agent-*.log")
    for deaths in (1, 2):
        if deaths == 2:
            os.kill(agent["pid"], signal.SIGKILL)
            one.until("the next agent is ready", lambda: log.read_text().count("will start its successor") == 3)
        replaced_supervisor(one)
        one.until("the run continues", lambda: len(one.restarts()) == deaths)
        goes_on(one)
    require_same_processes(one, nodes, before)
    one.goes_on(wanted, "two deaths of the supervisor's process")
    for at in nodes:
        if at.text().count("continues the run") != 2:
            raise wrong(f"a node does not report two successors:\n{at.text()}")
    frees(nodes)


def check_supervisor_stopped(folder):
    """The supervisor's process hangs. Its host's agent kills it before another one takes its place."""
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
    """A whole host is lost with the supervisor. The successor moves its place elsewhere, as its next incarnation. Then
    a process is killed that an earlier launcher started."""
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
        raise one.fails(f"expected {beside} to stay and {moved} to be the next incarnation of {first}")
    os.kill(beside["pid"], signal.SIGKILL)
    hosted(one, nodes, 0, but=beside["pid"])
    goes_on(one)
    require_undisturbed(folder, one, "a supervisor's process and a host")
    frees([nodes[0], nodes[2]])


def check_supervisor_in_vain(folder):
    """Without a successor, or after a second Ctrl-C, the nodes are free at once. If no possible successor is left,
    they are free after a timeout, and the next run waits for that."""
    few = ["--suspicion-seconds", 6]
    nodes, credentials = hosts(folder, 2, None, *few)
    endless = [*PIPELINE, "--train-iters", 100000, *few]

    def is_free():
        for at in nodes:
            at.until("only the node is left", lambda: at.left() == [at.process.pid])
    one = job(folder, *endless, "--recovery", "off", *over(nodes, credentials))
    one.reaches(5)
    os.kill(one.deciding()["pid"], signal.SIGKILL)
    if one.process.wait(PATIENCE) != 3:
        raise one.fails("the command does not report the lost run")
    is_free()
    one = job(folder, *endless, *over(nodes, credentials))
    one.reaches(5)
    decides = one.deciding()
    os.kill(decides["pid"], signal.SIGSTOP)  # otherwise it would end in order
    for _ in range(2):
        one.process.send_signal(signal.SIGINT)
        one.until("the signal is delivered", lambda: not pending(one.process.pid))
    if one.process.wait(PATIENCE) != 130:
        raise one.fails("a second Ctrl-C does not end it")
    is_free()
    if any("no process continues the run" in x.text() for x in nodes):
        raise one.fails("a node waited for a successor, although there is none")
    wanted = job(folder, *PIPELINE, "--train-iters", 4, *few, processes=1).ends()
    one = job(folder, *endless, *over(nodes, credentials))
    one.reaches(5)
    while one.left():  # a successor may be starting, and the nodes would serve it
        one.stop()
    for at in nodes:
        held = "are held for its successor"
        at.until("the launcher is gone", lambda: held in at.text().rpartition(" serves process ")[2]
                 and "continues the run" not in at.text().rpartition(held)[2])
    one = job(folder, *PIPELINE, "--train-iters", 4, *few, *over(nodes, credentials)).ends()
    require_same(one, wanted, "afterwards")  # waited for the nodes
    is_free()


def check_once(folder):
    """--once ends a node after its job. SIGTERM during a job ends the node's processes, and the run."""
    credentials = keys(folder)
    nodes = [node(folder, "--once", credentials=credentials) for _ in range(2)]
    job(folder, *PIPELINE, "--train-iters", 2, *over(nodes, credentials)).ends()
    for at in nodes:
        at.ends(by=None)
    nodes = hosts(folder, 2, credentials)[0]
    one = job(folder, *PIPELINE, "--train-iters", 100000, *over(nodes, credentials))
    one.reaches(3)
    nodes[1].ends()
    one.until("both places are on one host", lambda: hosted_there(nodes[0]) == 2)
    nodes[0].ends()
    one.ends(2)


def check_data_missing(folder):
    """If a host lacks the data, the error names its node."""
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
        os.chdir(at)  # nodes resolve the job's relative paths here
        nodes.append(node(folder, credentials=credentials))
    os.chdir(places[0])
    words = [x for x in JOB if x not in ("--mock-data", "NullTokenizer", "--tokenizer-type")]
    at = words.index("--vocab-size")
    code, out, err = cli_test.run(*words[:at], *words[at + 2:], *PIPELINE, "--train-iters", 2, "--data-path", data,
                                  "--tokenizer", tok, *over(nodes, credentials))
    if code != 2 or "process:1" not in err or nodes[1].at not in err or data not in err:
        raise wrong(f"a host without data: {code}\n{out}{err}\n{nodes[1].text()}")


def check_relative(folder):
    """Relative --save and --load start at the command's working directory, also for nodes started elsewhere."""
    credentials = keys(folder)
    home, nodes = folder / "home", []
    for name in ("home", "elsewhere", "far"):
        (folder / name).mkdir()
    (folder / "elsewhere" / "saved").mkdir()  # same name, but not the folder of the job
    for name in ("elsewhere", "far"):
        os.chdir(folder / name)
        nodes.append(node(folder, credentials=credentials))
    os.chdir(home)
    words = [*PIPELINE, "--train-iters", 200, "--save"]
    wanted = job(folder, *words, folder / "judge", processes=1).ends()
    one = job(folder, *words, "saved", "--save-interval", 20, *over(nodes, credentials))
    one.until("a checkpoint", lambda: (home / "saved" / "iter_0000020" / "manifest.json").exists())
    # Kills all processes that keep states, so nodes must read the checkpoint.
    for pid in [hosted(one, nodes, number)["pid"] for number in (0, 1)]:
        os.kill(pid, signal.SIGKILL)
    one.ends()
    if "from the checkpoint" not in one.out.read_text():
        raise one.fails("the run did not resume from the checkpoint")
    require_same(one, wanted, "from a checkpoint with a relative name")
    works("checkpoint", "diff", folder / "judge", home / "saved")
    again = job(folder, *words, "saved", "--load", "saved", *over(nodes, credentials)).ends()
    if again.steps():
        raise again.fails("the run did not resume from its checkpoint")
    left = sorted(x.name for name in ("elsewhere", "far") for x in (folder / name).rglob("*"))
    if left != ["saved"]:
        raise wrong(f"nodes left {left} where they were started")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
