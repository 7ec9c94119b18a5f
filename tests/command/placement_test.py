"""Checks which process keeps which states on several hosts, in the forecast of --dry-run and in the run. Run by ctest.

    placement_test.py PROGRAM NAME...   runs the named checks, or all
"""

import re
import subprocess
import sys

import cli_test
import host_runs
from cli_test import works, wrong
from host_runs import node
from process_runs import JOB, PIPELINE, job

WORDS = [*PIPELINE, "--train-iters", 4]


def forecast(*words):
    """For each process, the process that keeps its states, according to --dry-run."""
    said = works(*JOB, *WORDS, "--dry-run", *words)
    return {int(kept): int(by) for by, kept in re.findall(r"process (\d+) .*two newest states of process (\d+)'s ranks", said)}


def kept_in(one):
    """For each process, the process that keeps its states and its host, according to the run's log."""
    told = re.findall(r"the states of process (\d+)'s ranks \(host '(.*?)'\) are kept in process (\d+) \(host '(.*?)'\)",
                      one.out.read_text())
    return {int(x): int(by) for x, _, by, _ in told}, {int(x): host for x, host, _, _ in told}


def check_told(folder):
    """Decides by the hosts in --nodes alone, without asking the nodes."""
    cases = [("a:1,a:2,a:3,a:4", {0: 1, 1: 2, 2: 3, 3: 0}),
             ("a:1,a:2,b:1,b:2", {0: 2, 1: 3, 2: 0, 3: 1}),
             ("b:1,a:1,b:2,a:2", {0: 1, 1: 0, 2: 3, 3: 2}),
             ("b:1,c:1,a:1,b:2", {0: 1, 1: 0, 2: 3, 3: 2})]
    for nodes, keepers in cases:
        told = forecast("--nodes", nodes, "--insecure")
        hosts = [x.split(":")[0] for x in nodes.split(",")]
        if "b" in hosts and any(hosts[x] == hosts[by] for x, by in keepers.items()):
            raise wrong(f"the test expects {keepers} over {nodes} on one host")
        if told != keepers:
            raise wrong(f"over {nodes} the dry run has the keepers {told}, expected {keepers}")
    if (told := forecast("--processes", 4)) != cases[0][1]:
        raise wrong(f"on this host the dry run has the keepers {told}")


def check_one_host(folder):
    """Four processes on one host, started by the command or by nodes."""
    nodes, credentials = host_runs.hosts(folder, 4)
    for where, processes in ((["--processes", 4], 4), (host_runs.over(nodes, credentials), 4)):
        one = job(folder, *WORDS, *where, processes=processes).ends()
        kept, hosts = kept_in(one)
        if kept != forecast(*where) or len(kept) != 4 or len(set(hosts.values())) != 1:
            raise one.fails(f"with {where} states are kept in {kept}, expected {forecast(*where)}")
        if "processes of one host keep each other's states" not in one.out.read_text():
            raise one.fails("no warning that one host has all states")


def check_two_hosts(folder):
    """Two processes on each of two hosts, which have different names: each state is kept on the other host."""
    named = lambda x: ["unshare", "--uts", "sh", "-c", f'hostname {x} && exec "$@"', "sh"]  # noqa: E731
    if subprocess.run([*named("host-z"), "true"], capture_output=True).returncode != 0:
        print("skipped: no permission to set a host name")
        sys.exit(77)
    credentials = host_runs.keys(folder)
    nodes = [node(folder, credentials=credentials, listen=f"127.0.0.{number}:0", within=named(name))
             for number, name in ((3, "host-z"), (3, "host-z"), (2, "host-a"), (2, "host-a"))]
    where = host_runs.over(nodes, credentials)
    one = job(folder, *WORDS, *where, "--local-addr", "127.0.0.1", processes=4).ends()
    kept, hosts = kept_in(one)
    if hosts != {0: "host-z", 1: "host-z", 2: "host-a", 3: "host-a"}:
        raise one.fails(f"the processes are on the hosts {hosts}")
    if kept != forecast(*where) or any(hosts[x] == hosts[by] for x, by in kept.items()):
        raise one.fails(f"states are kept in {kept}, but the dry run said {forecast(*where)}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
