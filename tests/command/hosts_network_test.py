"""Runs over hosts in network namespaces, with one-way and two-way network cuts and lost large packets. Run by ctest.

    hosts_network_test.py PROGRAM NAME...   runs the named checks, or all
"""

import os
import signal
import sys
import time

import cli_test
from host_runs import ENDLESS, SLOW, cmdline, goes_on, hosted_there, keys, network, over, require_undisturbed, says
from process_runs import LONG, judge


def check_namespaces(folder):
    """Two hosts give the same bits, also after a death."""
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
        raise one.fails(f"the log has the restarts {one.restarts()}")
    if f"listens at {between.addresses[1]}:" not in (nodes[1].run / "logs" / "node-1.log").read_text():
        raise one.fails("the second process does not listen on its host's address")
    for at in nodes:
        at.stop()


def check_one_way(folder):
    """One host does not receive from the other. Both detect it before the process's own timeout, and its place moves.
    Messages of the cut host are ignored. After healing it is used again."""
    suspicion = 4
    few = ["--suspicion-seconds", suspicion]
    between = network()
    credentials = keys(folder)
    nodes = between.nodes(folder, credentials, *few)
    one = between.job(folder, *ENDLESS, *SLOW, *few, *over(nodes, credentials))
    one.reaches(10)
    for round, deaf in enumerate((1, 0), 1):
        began = time.monotonic()
        between.deafen(deaf)
        one.until("the place moves", lambda: one.out.read_text().count("as no node has a free slot") == round)
        nodes[1].until("that host is free", lambda: nodes[1].text().count("is over here") == round)
        nodes[1].until("the run has no process there", lambda: hosted_there(nodes[1]) == 0)
        took = time.monotonic() - began
        print(f"host {deaf} is deaf: both detected it in {took:.1f} s, suspicion {suspicion} s")
        if took > 9 * suspicion:  # an isolated process ends itself after ten
            raise one.fails(f"detecting that host {deaf} is deaf took {took} s")
        one.until("both places are on one host", lambda: hosted_there(nodes[0]) == 2)
        goes_on(one)
        between.heal(deaf)
        one.until("the host is back", lambda: one.out.read_text().count("is available again") == round)
        one.until("one place moves back", lambda: (hosted_there(nodes[0]), hosted_there(nodes[1])) == (1, 1))
        goes_on(one)
    require_undisturbed(folder, one, "after a host was deaf, and then the other one")
    for at in nodes:
        at.stop()


def check_cut_off(folder):
    """A host is cut off for good. The run continues without it and ends normally while it tries to reconnect. The host
    has ended its share of the run by itself."""
    suspicion = 3
    few = ["--suspicion-seconds", suspicion]
    between = network()
    credentials = keys(folder)
    nodes = between.nodes(folder, credentials, *few)
    one = between.job(folder, *ENDLESS, *SLOW, *few, *over(nodes, credentials))
    one.reaches(10)
    for host in (0, 1):
        between.deafen(host)
    says(one, f"process:1 moves to the node at {nodes[0].at}, as no node has a free slot")
    nodes[1].until("that host is free", lambda: "is over here" in nodes[1].text() and hosted_there(nodes[1]) == 0)
    one.until("both places are on one host", lambda: hosted_there(nodes[0]) == 2)
    goes_on(one)
    time.sleep(2 * suspicion)  # time to start reconnecting
    require_undisturbed(folder, one, "with a host that stays away")
    if "is available again" in one.out.read_text():
        raise one.fails("the run reconnected to the cut host")
    for at in nodes:
        at.stop()


def check_black_hole(folder):
    """Large packets between the hosts are lost for good, but heartbeats arrive. The run still ends, without a hang."""
    few = ["--suspicion-seconds", 2]
    between = network()
    credentials = keys(folder)
    nodes = between.nodes(folder, credentials, *few)
    one = between.job(folder, *ENDLESS, *SLOW, *few, *over(nodes, credentials))
    one.reaches(10)
    between.drop_large_packets()
    goes_on(one)
    require_undisturbed(folder, one, "after a path lost large packets")
    for at in nodes:
        at.stop()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
