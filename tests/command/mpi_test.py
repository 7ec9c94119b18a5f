"""Runs that examples/mpi/train.sh starts by Open MPI, on hosts of the test's own (cluster_hosts.py). Run by ctest.

    mpi_test.py PROGRAM NAME...   runs the named checks, or all
"""

import signal
import sys

import cli_test
from cluster_hosts import require_programs, ssh_hosts
from cluster_runs import ENDLESS, EXAMPLES, SHORT, UNEVEN, launched, require_same_run, saved


def hosts(folder):
    require_programs("mpirun")
    cluster = ssh_hosts(folder)
    cluster.hostfile("node1 slots=2", "node2 slots=2")
    return cluster


def by_script(one):
    return one.starts("bash", EXAMPLES / "mpi/train.sh", one.cluster.folder / "hostfile")


def starts(folder, cluster, *words):
    return by_script(launched(folder, cluster, *words))


def check_same(folder):
    """Processes on two hosts give the losses and the checkpoint of two processes."""
    with hosts(folder) as cluster:
        one = starts(folder, cluster, *SHORT)
        one.until("both hosts compute", lambda: one.hosted() == [1, 1])
        one.ends().leaves_nothing()
        require_same_run(one, folder, "over two hosts", *SHORT)


def check_one_host(folder):
    """Two ranks of one host are one run. Both end with it."""
    with hosts(folder) as cluster:
        one = launched(folder, cluster, *SHORT, "--processes", 2).starts("mpirun", "-np", 2, "troupe", "train", "gpt")
        one.ends().leaves_nothing()
        require_same_run(one, folder, "with two ranks on one host", *SHORT)


def check_signal(folder):
    """SIGTERM to the script saves and ends with 0. The same command resumes."""
    with hosts(folder) as cluster:
        one = starts(folder, cluster, *ENDLESS)
        one.reaches(10)
        for times in (1, 2):
            one.signal(signal.SIGTERM)
            one.ends().leaves_nothing()
            if len(saved(one)) != times or saved(one)[-1] != one.steps()[-1]["iteration"]:
                raise one.fails(f"saved {saved(one)}, the last step is {one.steps()[-1]['iteration']}")
            if times == 1:
                by_script(one)
                one.goes_on()
        require_same_run(one, folder, "after two signals", *ENDLESS)


def check_exit_code(folder):
    """A refused run ends mpirun and the script with exit code 2."""
    with hosts(folder) as cluster:
        starts(folder, cluster, *UNEVEN).ends(2).leaves_nothing()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
