"""Runs that examples/slurm/train.sbatch starts, on a Slurm of the test's own (cluster_hosts.py). Run by ctest.

    slurm_test.py PROGRAM NAME...   runs the named checks, or all
"""

import sys

import cli_test
from cli_test import wrong
from cluster_hosts import slurm, until
from cluster_runs import ENDLESS, SHORT, UNEVEN, launched, require_same_run, saved
from process_runs import job, require_same

KILL_WAIT = 60  # seconds from SIGTERM to SIGKILL; a run on a busy machine saves within them
TELLS = """echo $SLURM_PROCID $SLURM_STEP_NUM_TASKS $SLURM_STEP_TASKS_PER_NODE $SLURM_STEP_NODELIST $SLURM_NODEID \
$SLURM_LOCALID $SLURM_JOB_ID.$SLURM_STEP_ID ${SLURM_JOB_END_TIME:-no end}"""


def check_environment(folder):
    """Slurm sets what tests/runtime/launch/launch_environment_test.cpp expects of it."""
    with slurm(folder, 2, tasks=2) as cluster:
        said = cluster.works("srun", "--nodes", 2, "--ntasks-per-node", 2, "--time", 5, "sh", "-c", TELLS)
    expected = [f"{rank} 4 2(x2) node[1-2] {rank // 2} {rank % 2} 1.0 no end" for rank in range(4)]
    if sorted(said.splitlines()) != expected:
        raise wrong(f"srun set\n{said}\nexpected\n" + "\n".join(expected))


def check_same(folder):
    """One task and two tasks of each host give the losses and the checkpoint of two processes."""
    with slurm(folder, 2, tasks=2) as cluster:
        for tasks, words in ((1, []), (2, ["--interface", "eth0"])):
            one = launched(folder, cluster, *SHORT, *words).submits("--ntasks-per-node", tasks)
            one.until("both hosts compute", lambda: one.hosted() == [1, 1])
            one.ends().leaves_nothing()
            require_same_run(one, folder, f"with {tasks} tasks on each host", *SHORT)


def check_uneven(folder):
    """Three tasks on two hosts are three processes with a worker each."""
    words = ["--train-iters", 10, "--global-batch-size", 6]
    with slurm(folder, 2, tasks=2) as cluster:
        one = launched(folder, cluster, *words).submits("--ntasks", 3, "--ntasks-per-node", 2)
        one.ends().leaves_nothing()
        require_same(one, job(folder, "--world-size", 3, *words, processes=3).ends(), "uneven tasks")


def check_requeue(folder):
    """The operator queues a running job again: it saves and ends, and its next start resumes. Signals to its tasks then
    end it."""
    with slurm(folder, 2, KillWait=KILL_WAIT) as cluster:
        one = launched(folder, cluster, *ENDLESS).submits()
        one.reaches(10)
        cluster.works("scontrol", "requeue", one.number)
        resumes_and_ends(folder, one)


def check_time_limit(folder):
    """Slurm's signal before the time limit ends a run in order. It saves, and the script queues the job again."""
    with slurm(folder, 2) as cluster:
        one = launched(folder, cluster, *ENDLESS).submits("--signal", "B:USR1@180")
        one.reaches(10)
        cluster.works("scontrol", "update", f"JobId={one.number}", "TimeLimit=3")  # in minutes: the signal is due
        resumes_and_ends(folder, one)


def resumes_and_ends(folder, one):
    resumes(one)
    if f"resuming from iteration {saved(one)[0]} of" not in one.out.read_text():
        raise one.fails(f"the second start did not resume from the only checkpoint, of iteration {saved(one)}")
    ends_by_signal(one)
    require_same_run(one, folder, "after the job was queued again", *ENDLESS)


def resumes(one):
    """Waits until Slurm has ended the job, and starts it again in three seconds instead of two minutes. Started within the
    second of its end, slurmd refuses it ("already killed")."""
    one.until("the job waits for its next start", lambda: one.cluster.job(one.number).get("Reason") == "BeginTime")
    one.cluster.works("scontrol", "update", f"JobId={one.number}", "StartTime=now+3", "TimeLimit=60")
    one.until("it resumes", lambda: "resuming from iteration" in one.out.read_text())
    one.goes_on()
    if one.cluster.job(one.number).get("Restarts") != "1":
        raise one.fails(f"Slurm says {one.cluster.job(one.number)}")


def ends_by_signal(one, left=()):
    """`scancel --signal` reaches the tasks alone, so the script does not queue the job again."""
    one.cluster.works("scancel", "--signal", "USR1", one.number)
    one.ends().leaves_nothing(left)


def check_lost_host(folder):
    """The second host is lost: the first one has its process from then on, and Slurm does not end the job."""
    with slurm(folder, 2) as cluster:
        one = launched(folder, cluster, *ENDLESS).submits("--no-kill", words=["--suspicion-seconds", 3])
        one.reaches(10)
        one.until("both hosts compute", lambda: one.hosted() == [1, 1])
        left = list(cluster.temporary.iterdir())
        cluster.nodes[1].ends()
        one.until("the first host has both processes", lambda: one.hosted(0) == [2])
        one.goes_on()
        until("Slurm has noticed", lambda: "down*" in cluster.states(), cluster.logs)
        one.goes_on()
        ends_by_signal(one, left)
        require_same_run(one, folder, "after a host was lost", *ENDLESS)


def check_lost_first_host(folder):
    """The host of the script and of rank 0 is lost: Slurm queues the job again, and it resumes on two other hosts."""
    with slurm(folder, 3) as cluster:
        one = launched(folder, cluster, *ENDLESS, "--save-interval", 10).submits(words=["--suspicion-seconds", 3])
        one.reaches(30)
        left = list(cluster.temporary.iterdir())
        cluster.nodes[0].ends()
        resumes(one)
        if one.hosted()[1:] != [1, 1]:
            raise one.fails(f"the hosts have {one.hosted()[1:]} processes")
        ends_by_signal(one, left)
        require_same_run(one, folder, "after the first host was lost", *ENDLESS)


def check_exit_code(folder):
    """A refused run ends the job with exit code 2, and each host says why once."""
    with slurm(folder, 2, tasks=2) as cluster:
        one = launched(folder, cluster, *UNEVEN).submits("--ntasks-per-node", 2)
        one.ends(2)
        if one.out.read_text().count("--world-size 3 is not a multiple of") != len(cluster.nodes):
            raise one.fails("not each host says the reason once")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
