"""The supervisor's host is lost, with the run's folder; another host continues the run. Run by ctest.

    lost_supervisor_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import json
import os
import re
import signal
import subprocess
import sys

import cli_test
import host_runs
from cli_test import works, wrong
from host_runs import ENDLESS, hosts, over
from process_runs import PATIENCE, children_first, is_same, job, require_same

FEW = ["--suspicion-seconds", 3]


def started(folder, spares=0):
    """Starts an endless run over two nodes; its supervisor is on neither host. The hosts share `--save`."""
    nodes, credentials = hosts(folder, 2 + spares, None, *FEW)
    one = job(folder, *ENDLESS, *FEW, "--save", folder / "save", "--save-interval", 20,
              *over(nodes[:2], credentials, nodes[2:]))
    one.reaches(10)
    return one, nodes


def waits(nodes, what, holds):
    """Waits while a node lives, because the command is gone."""
    return nodes[0].until(what, holds)


def computing(nodes):
    """Processes with ranks, by host."""
    out = []
    for at in nodes:
        all_there = json.loads(works("status", "--run", at.run, "--json"))["processes"]
        out.append([x for x in all_there if x["role"] == "node" and x["running"]])
    return out


def goes_on(one, nodes, steps=5):
    done = one.steps()[-1]["iteration"]
    waits(nodes, f"{steps} steps after {done}", lambda: one.steps()[-1]["iteration"] >= done + steps)


def state_of(copy):
    code, out, _ = cli_test.run("status", "--run", copy, "--json")
    return json.loads(out)["state"] if code == 0 else "not there yet"


def taken_over(nodes, times=1):
    """Waits for a host to continue the run. Returns the run's folder there."""
    def find():
        continued = r"incarnation \d+ of the supervisor's process continues"
        if any(len(re.findall(continued, at.text())) < times for at in nodes):
            return None
        found = [x for at in nodes for x in (at.run / "runs").glob("*") if state_of(x) == "running"]
        return found and found[0]
    return waits(nodes, "a host leads the run", find)


def require_same_as_undisturbed(folder, one, what):
    newest = one.steps()[-1]["iteration"]
    require_same(one, job(folder, *ENDLESS, "--exit-interval", newest, processes=1).ends(), what)


def stops(one, nodes, copy):
    works("stop", "--run", copy)
    waits(nodes, "the run has ended", lambda: state_of(copy) not in ("running", "not there yet"))
    for at in nodes:
        at.until("only the node is left", lambda: at.left() == [at.process.pid])
        at.ends()


class waiting:
    """`troupe wait` on the folder of a host that continues the run."""

    def __init__(self, folder, nodes, copy):
        self.out = folder / "waited.txt"
        with open(self.out, "w") as out:
            self.process = subprocess.Popen([cli_test.PROGRAM, "wait", "--run", str(copy)], stdout=out,
                                            stderr=subprocess.STDOUT)
        atexit.register(self.process.kill)
        seen = self.iteration()
        waits(nodes, "`troupe wait` shows steps", lambda: self.iteration() > seen + 5)

    def iteration(self):
        return max((int(x) for x in re.findall(r"iteration +(\d+)/", self.out.read_text())), default=0)

    def ends(self, one):
        """Checks that it ends with the run, at the run's last step."""
        code, newest = self.process.wait(PATIENCE), one.steps()[-1]["iteration"]
        if code != 0 or self.iteration() != newest:
            raise wrong(f"`troupe wait` ended with {code} at iteration {self.iteration()} of {newest}:\n"
                        f"{self.out.read_text()[-2000:]}")


def check_gone(folder):
    """Front, supervisor and agent die at once, as with their host. The computing processes survive, and another host
    leads. Then a process and that supervisor die, and the same host continues."""
    one, nodes = started(folder)
    before = computing(nodes)
    one.dies()
    copy = taken_over(nodes)
    goes_on(one, nodes)
    if not all(is_same(x, y) for (x,), (y,) in zip(before, computing(nodes))):
        raise wrong(f"processes were replaced: {before}, then {computing(nodes)}")
    os.kill(before[1][0]["pid"], signal.SIGKILL)
    waits(nodes, "another process", lambda: [x for x in computing(nodes)[1] if not is_same(x, before[1][0])])
    goes_on(one, nodes)
    leads, = [x for x in json.loads(works("status", "--run", copy, "--json"))["processes"] if x["role"] == "supervisor"]
    os.kill(leads["pid"], signal.SIGKILL)
    taken_over(nodes, 2)
    goes_on(one, nodes)
    newest = int((folder / "save" / "latest_checkpointed_iteration.txt").read_text())
    shown = waiting(folder, nodes, copy)
    stops(one, nodes, copy)
    shown.ends(one)
    if int((folder / "save" / "latest_checkpointed_iteration.txt").read_text()) < newest or not newest:
        raise wrong(f"the newest checkpoint is older than {newest}")
    require_same_as_undisturbed(folder, one, "the host of the supervisor was lost")
    left = [x for at in nodes for x in (at.run / "runs").glob("*")]
    if left != [copy]:
        raise wrong(f"folders of the run: {left}, expected only {copy}")


def check_with_a_node(folder):
    """The lost host also had ranks of the run; they move to a spare."""
    one, nodes = started(folder, 1)
    lost, left = nodes[1], [nodes[0], nodes[2]]
    all_there = children_first(lost.left())
    for pid in all_there:
        os.kill(pid, signal.SIGSTOP)  # stops all first, so that none reacts to another's death
    one.dies(lambda: [os.kill(x, signal.SIGKILL) for x in all_there])
    lost.process.wait()
    copy = taken_over(left)
    waits(left, "a process on each host", lambda: [len(x) for x in computing(left)] == [1, 1])
    goes_on(one, left)
    stops(one, left, copy)
    require_same_as_undisturbed(folder, one, "the host of the supervisor and of a place was lost")


def check_wakes(folder):
    """The supervisor's host is stopped, and continues after another host has taken over. It notices that and ends,
    without effect on the run."""
    one, nodes = started(folder)
    still = sorted(one.left())
    for pid in still:
        os.kill(pid, signal.SIGSTOP)
    copy = taken_over(nodes)
    goes_on(one, nodes)
    for pid in still:
        os.kill(pid, signal.SIGCONT)
    waits(nodes, "the old processes have ended", lambda: not one.left())
    if "leads this run" not in one.out.read_text() or one.process.wait() != 3:
        raise wrong(f"exit code {one.process.wait()}, or no word of the host that took over:\n{one.out.read_text()}")
    goes_on(one, nodes, 25)
    stops(one, nodes, copy)
    require_same_as_undisturbed(folder, one, "a host stood still")


def check_twice(folder):
    """The new leading host is lost, too. The next one takes over, with the ranks of the lost one."""
    one, nodes = started(folder, 1)
    one.dies()
    copy = taken_over(nodes)
    goes_on(one, nodes)
    lost, = [at for at in nodes if copy.is_relative_to(at.run)]
    left = [at for at in nodes if at is not lost]
    all_there = children_first(lost.left())
    for pid in all_there:
        os.kill(pid, signal.SIGSTOP)
    for pid in all_there:
        os.kill(pid, signal.SIGKILL)
    lost.process.wait()
    again = taken_over(left, 2)
    goes_on(one, left)
    stops(one, left, again)
    require_same_as_undisturbed(folder, one, "two hosts were lost that led the run, one after the other")


def check_typed_again(folder):
    """The command is started again while another host leads the run. It is refused, and the run keeps its leader and
    saves."""
    one, nodes = started(folder)
    one.dies()
    copy = taken_over(nodes)
    goes_on(one, nodes)
    code, out, err = cli_test.run(*one.command[1:])
    if code == 0:
        raise wrong(f"the command was not refused: exit code {code}: {out}{err}")
    if not list((folder / "save" / ".succession").glob("*/round-2")):
        raise wrong("the record of the decision was removed")
    goes_on(one, nodes, 25)
    stops(one, nodes, copy)
    require_same_as_undisturbed(folder, one, "the command was typed again meanwhile")


def check_partition(folder):
    """Two hosts lose contact while both live and see `--save`. One continues; the other learns that it lost, and is an
    ordinary host after they reconnect."""
    between = host_runs.network()
    credentials = host_runs.keys(folder)
    nodes = between.nodes(folder, credentials, *FEW)
    one = between.job(folder, *ENDLESS, *FEW, "--save", folder / "save", "--save-interval", 20, *over(nodes, credentials))
    one.reaches(10)
    for host in (0, 1):
        between.deafen(host)
    logs = lambda: [x.read_text() for x in (nodes[1].run / "runs").glob("*/logs/supervisor.log")]  # noqa: E731
    nodes[1].until("the host has lost", lambda: any("leads this run" in x and "this process does not" in x for x in logs()))
    one.until("both places are on one host", lambda: host_runs.hosted_there(nodes[0]) == 2)
    host_runs.goes_on(one)
    if "incarnation 2" in nodes[1].text():
        raise wrong(f"the host that lost continues the run:\n{nodes[1].text()}")
    for host in (0, 1):
        between.heal(host)
    one.until("the host is back", lambda: "is available again" in one.out.read_text())
    one.until("one place moves back", lambda: [host_runs.hosted_there(x) for x in nodes] == [1, 1])
    host_runs.goes_on(one)
    host_runs.require_undisturbed(folder, one, "after two hosts had lost each other")
    for at in nodes:
        at.stop()


def check_nothing_decides(folder):
    """The folder that decides the succession is missing. No host continues the run, each says why, and nothing is
    left."""
    one, nodes = started(folder)
    for at in nodes:
        if "if the supervisor's host is lost" in at.text():
            raise wrong(f"a node that sees the folder prints\n{at.text()}")
    arbiter, = (folder / "save" / ".succession").iterdir()
    arbiter.rename(folder / "hidden")
    one.dies()
    for at in nodes:
        tried = waits(nodes, "the host has tried", lambda: [x for x in (at.run / "runs").glob("*/logs/supervisor.log")])
        waits(nodes, "the host says why", lambda: "decides which host continues the run" in tried[0].read_text())
    for at in nodes:
        at.until("the node is free", lambda: at.left() == [at.process.pid])
        if "no process continues the run" not in at.text() or re.search("incarnation .* continues", at.text()):
            raise wrong(f"a node without the deciding folder prints\n{at.text()}")
        # The copy is removed after the process that was started from it has ended.
        at.until("the copy is removed", lambda: not any((at.run / "runs").glob("*")))
        at.ends()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
