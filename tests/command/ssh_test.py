"""Runs that examples/ssh/train.sh starts over ssh, on hosts of the test's own (cluster_hosts.py). Run by ctest.

    ssh_test.py PROGRAM NAME...   runs the named checks, or all
"""

import pathlib
import signal
import sys

import cli_test
from cluster_hosts import NETWORK, ssh_hosts
from cluster_runs import ENDLESS, EXAMPLES, SHORT, launched, require_refused, require_same_run
from host_runs import keys

WITHIN = 60  # seconds until a host is refused; ssh itself gives up after 10


def starts(folder, cluster, *words, hosts=("node1 slots=2", "node2 slots=2")):
    return launched(folder, cluster, *words).starts("bash", EXAMPLES / "ssh/train.sh", cluster.hostfile(*hosts))


def check_same(folder):
    """Two hosts with two workers each give the losses and the checkpoint of two processes."""
    with ssh_hosts(folder) as cluster:
        one = starts(folder, cluster, *SHORT, hosts=["# two hosts", "node1 slots=2", "", "node2 slots=2  # the last"])
        one.until("both hosts compute", lambda: one.hosted() == [1, 1])
        one.ends().leaves_nothing()
        require_same_run(one, folder, "over two hosts", *SHORT)


def check_refused(folder):
    """A host without a name, one that does not answer, and one that refuses the key: each is named once, and the other
    host has no process afterwards."""
    with ssh_hosts(folder) as cluster:
        cluster.keys_of(cluster.nodes[1]).write_text("")
        for other in ("nowhere", f"{NETWORK}.77", "node2"):
            one = starts(folder, cluster, *SHORT, hosts=["node1 slots=2", f"{other} slots=2"])
            require_refused(one, WITHIN, f"'{other}'")
            one.leaves_nothing()
            if one.steps():
                raise one.fails(f"it trained without '{other}'")


def check_lost_host(folder):
    """A host is lost: the other one has its process from then on."""
    with ssh_hosts(folder) as cluster:
        one = starts(folder, cluster, *ENDLESS, "--suspicion-seconds", 3)
        one.reaches(10)
        one.until("both hosts compute", lambda: one.hosted() == [1, 1])
        left = list(cluster.temporary.iterdir())
        cluster.nodes[1].ends()
        one.until("the first host has both processes", lambda: one.hosted(0) == [2])
        one.goes_on()
        ends_by_signal(one, left)
        require_same_run(one, folder, "after a host was lost", *ENDLESS)


def ends_by_signal(one, left=()):
    one.signal(signal.SIGTERM)
    one.ends().leaves_nothing(left)


def check_variables(folder):
    """No command line has the run's secrets, or a variable of the command; no environment has the run's secrets."""
    with ssh_hosts(folder) as cluster:
        credentials = keys(folder)
        cluster.environment["HF_TOKEN"] = token = "hf_of_this_test_alone"
        one = starts(folder, cluster, *ENDLESS, "--credentials", credentials)
        one.reaches(10)
        secrets = secrets_of(credentials)
        seen = {kind: everywhere(cluster, kind) for kind in ("cmdline", "environ")}
        if len(seen["cmdline"]) < 6 or not any(token.encode() in x for x in seen["environ"].values()):
            raise one.fails(f"looked only at {sorted(seen['cmdline'])}, or not at the command")
        for kind, secret in [("cmdline", token), *((kind, x) for kind in seen for x in secrets)]:
            if told := [seen["cmdline"].get(pid) for pid, text in seen[kind].items() if secret.encode() in text]:
                raise one.fails(f"'{secret[:8]}...' is in {kind} of {told}")
        ends_by_signal(one)


def secrets_of(folder):
    """Lines of the files that must stay private."""
    return [line for name in ("key.pem", "secret") for line in (folder / name).read_text().splitlines()
            if line and not line.startswith("-----")]


def everywhere(cluster, kind):
    """That file of all processes of all hosts."""
    found = {}
    for one in cluster.all:
        for pid in one.pids():
            try:
                found[pid] = pathlib.Path(f"/proc/{pid}/{kind}").read_bytes()
            except OSError:
                pass
    return found


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
