"""`troupe chaos` with links that are cut, between two hosts that are network namespaces. Run by ctest.

    chaos_links_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import sys

import chaos_test
import cli_test
from cli_test import wrong
from hosts_test import NODES, keys, network, over

FEW = ["--suspicion-seconds", 6]
STEPS = ["--train-iters", 60, "--lr-decay-iters", 60]  # over those of the job


class linked(network):
    """Two hosts with a node on each; chaos is typed on the first."""

    def __init__(self, folder):
        super().__init__()
        self.credentials = keys(folder)
        self.standing = self.nodes(folder, self.credentials, *FEW)

    def commands(self):
        second, dev = self.names[1], "dev host0"
        to = [f"ip -n {self.names[1 - x]} neigh" for x in (0, 1)]
        return {"link-down": ["--cut-link", f"ip -n {second} link set {dev} down",
                              "--heal-link", f"ip -n {second} link set {dev} up"],
                "one-way": ["--cut-one-way", f"{to[1]} replace {self.addresses[1]} lladdr 02:00:00:00:00:99 nud permanent {dev}",
                            "--heal-one-way", f"{to[1]} del {self.addresses[1]} {dev}"]}

    def suffers(self, folder, kind):
        """Its report."""
        there = folder / "there"
        there.write_text(f'#!/bin/sh\nexec {" ".join(self.within(0))} {cli_test.PROGRAM} "$@"\n')
        there.chmod(0o755)
        outside, cli_test.PROGRAM = cli_test.PROGRAM, str(there)
        try:
            report, _ = chaos_test.chaos(folder, "--kills", 2, "--every-steps", 20, "--seed", 1, "--roles", "node", "--kinds", kind,
                                         *self.commands()[kind], "--folder", folder / "runs",
                                         more=[*chaos_test.PIPELINE, *STEPS, *FEW, *over(self.standing, self.credentials)])
        finally:
            cli_test.PROGRAM = outside
        return report


def cut(folder, kind):
    between = linked(folder)
    report = between.suffers(folder, kind)
    if not report["holds"] or [x["kind"] for x in report["faults"]] != [kind, kind]:
        raise wrong(f"the report is {report}")
    for x in report["faults"]:
        if x["lost"] or x["computed_again"] > 2:
            raise wrong(f"of one cut: {x}")
    for one in between.standing:
        one.stop()


def check_link_down(folder):
    """A link is cut twice and healed: no step is lost, and the digest at the end is that of a run without cuts."""
    cut(folder, "link-down")


def check_one_way(folder):
    """The same where nothing that is sent to one host arrives, and what it sends does."""
    cut(folder, "one-way")


if __name__ == "__main__":
    atexit.register(chaos_test.end_all)
    atexit.register(lambda: [one.stop() for one in NODES])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
