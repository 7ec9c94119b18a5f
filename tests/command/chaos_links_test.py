"""`troupe chaos` over hosts: cuts links between two network namespaces, and kills processes that standing nodes
started. Run by ctest.

    chaos_links_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import subprocess
import sys

import chaos_test
import cli_test
from cli_test import refuses, wrong
from host_runs import hosts, keys, network, over

FEW = ["--suspicion-seconds", 3]
STEPS = ["--train-iters", 600, "--lr-decay-iters", 600]  # override those of the job, so that it outlasts a cut


class linked(network):
    """Two hosts with a node on each; chaos runs on the first."""

    def __init__(self, folder):
        super().__init__()
        self.credentials = keys(folder)
        self.standing = self.nodes(folder, self.credentials, *FEW)

    def commands(self):
        second, dev = self.names[1], "dev host0"
        to = [f"ip -n {self.names[1 - x]} neigh" for x in (0, 1)]
        return ["--cut-link", f"ip -n {second} link set {dev} down", "--heal-link", f"ip -n {second} link set {dev} up",
                "--cut-one-way", f"{to[1]} replace {self.addresses[1]} lladdr 02:00:00:00:00:99 nud permanent {dev}",
                "--heal-one-way", f"{to[1]} del {self.addresses[1]} {dev}"]

    def suffers(self, folder, *words):
        """Runs chaos and returns its report."""
        there = folder / "there"
        there.write_text(f'#!/bin/sh\nexec {" ".join(self.within(0))} {cli_test.PROGRAM} "$@"\n')
        there.chmod(0o755)
        outside, cli_test.PROGRAM = cli_test.PROGRAM, str(there)
        try:
            report, _ = chaos_test.chaos(folder, *words, *self.commands(), *folders(self.standing), "--folder", folder / "runs",
                                         more=[*chaos_test.PIPELINE, *STEPS, *FEW, *over(self.standing, self.credentials)])
        finally:
            cli_test.PROGRAM = outside
        return report


def check_cut(folder):
    """Cuts and heals a link, and in another run only the direction towards one host. No step is lost, and the digest
    at the end equals that of a run without cuts."""
    between = linked(folder)
    report = between.suffers(folder, "--all", "--roles", "node", "--kinds", "link-down,one-way")
    chaos_test.requires(report, ["kind"], [("link-down",), ("one-way",)])
    for x in report["faults"]:
        if x["lost"] or not 1 <= x["computed_again"] <= 2:
            raise wrong(f"a cut has wrong figures: {x}")
        if "supervisor" not in x["survivors"]["processes"]:
            raise wrong(f"a process without a fault was replaced: {x}")
    for one in between.standing:
        one.stop()


def refuses_others_runs(folder, nodes, job):
    """Chaos kills processes of its nodes after each run, so it refuses a folder named twice and a node that serves a
    run."""
    first, second = (x.run for x in nodes)
    refuses(f"names the folder '{first}' twice", "chaos", "--kills", 1, "--node-folders", f"{first},{first}", *job)
    (folder / "troupe:agent").write_text("kill -STOP $$\n")  # its command line looks like that of an agent
    other = subprocess.Popen(["/bin/sh", "troupe:agent", "run", second], cwd=folder)
    try:
        refuses(f"the node with the folder '{second}' serves another run", "chaos", "--kills", 1, *folders(nodes), *job)
        if other.poll() is not None:
            raise wrong(f"chaos ended a process of another run: {other.returncode}")
    finally:
        other.kill()
        other.wait()


def check_hosts(folder):
    """Over two nodes of this machine, without namespaces: kills the processes that they started, and frees them at
    the end."""
    nodes, credentials = hosts(folder)
    refuses_others_runs(folder, nodes, ["--", *chaos_test.JOB, *chaos_test.PIPELINE, *over(nodes, credentials)])
    report, _ = chaos_test.chaos(folder, "--kills", 3, "--every-steps", 90, "--seed", 22, "--roles", "node,agent,lane",
                                 "--kinds", "SIGKILL", "--moments", "updated", *folders(nodes),
                                 more=[*chaos_test.PIPELINE, "--train-iters", 600, *over(nodes, credentials)])
    chaos_test.requires(report, ["role"], [("node",), ("agent",), ("lane",)])
    for x in report["faults"]:
        places = [name for name in x["replaced"] if name.startswith("node-")]
        if len(places) != (x["role"] != "agent") or x["role"] != "lane" and x["victim"] not in x["replaced"]:
            raise wrong(f"a death has wrong figures: {x}")
        if not {"front", "supervisor", *{"node-0", "node-1"} - set(places)} <= set(x["survivors"]["processes"]):
            raise wrong(f"a process without a fault was replaced: {x}")
    for at in nodes:
        at.until("only it is left", lambda: at.left() == [at.process.pid])
        at.ends()


def folders(nodes):
    return ["--node-folders", ",".join(str(x.run) for x in nodes)]


if __name__ == "__main__":
    atexit.register(chaos_test.end_all)
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
