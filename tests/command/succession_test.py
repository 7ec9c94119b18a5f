"""The supervisor's process or the front dies or hangs, and the run continues. Run by ctest.

    succession_test.py PROGRAM NAME...   runs the named checks, or all
"""

import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import works, wrong
from process_runs import (ENDLESS, HALF, JOB, LONG, LONG_STEPS, PATIENCE, PIPELINE, digests, held, is_same, job,
                          judge, listening, pending, replaced, require_same, require_whole, shared_memory, succeeded)


def check_front_killed(folder):
    """SHOWN-2: without its front the run continues to its end, and other commands can follow it."""
    wanted = judge(folder)
    one = job(folder, *HALF)
    one.reaches(5)
    deciding = one.deciding()
    if deciding["pid"] == one.process.pid or one.process.pid in [x["pid"] for x in one.status()["processes"]]:
        raise one.fails(f"the front is a process of the run: {one.status()}")
    one.process.kill()
    one.process.wait()
    if one.status()["state"] != "running" or not is_same(one.deciding(), deciding):
        raise one.fails(f"the status is {one.status()}")
    shown = works("wait", "--run", one.run, "--lines", 100000)
    one.leaves_nothing()
    require_same(one, wanted, "the death of the front", until=LONG_STEPS // 2)
    last = f"iteration {LONG_STEPS // 2:8}/"
    if one.status()["ended"]["exit_code"] != 0 or last not in shown or "iteration        1/" not in shown:
        raise one.fails(f"the status is {one.status()}, and wait printed\n{shown}")


def require_lost(one, how):
    """Checks that the front and the folder report the loss once, with this reason."""
    ended = one.status()["ended"]
    text = one.text()
    if not ended or ended["exit_code"] != 3 or how not in ended["reason"] or how not in text:
        raise one.fails(f"the status is {one.status()}, expected '{how}'")
    if text.count("troupe: error: ") != 1:
        raise one.fails("not exactly one error")


def survivors(one):
    return {x["name"]: (x["pid"], x["start_time"]) for x in one.status()["processes"] if x["role"] != "supervisor"}


def supervisors_deaths(one):
    return [x for x in one.restarts() if x["who"] == "supervisor"]


def check_supervisor_killed(folder):
    """SUCCESSION-1: another process takes the supervisor's place, twice. The other processes are not replaced."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    before = survivors(one)
    for incarnation, iteration in ((2, 10), (3, 60)):
        one.reaches(iteration)
        old = one.deciding()
        os.kill(old["pid"], signal.SIGKILL)
        if (now := succeeded(one, old))["incarnation"] != incarnation:
            raise one.fails(f"the new supervisor is {now}")
        one.until("the run has recovered", lambda: len(supervisors_deaths(one)) == incarnation - 1)
    one.reaches(100)
    if survivors(one) != before:
        raise one.fails(f"other processes were replaced: {before}, then {survivors(one)}")
    one.goes_on(wanted, "two deaths of the supervisor's process")
    require_whole(one)
    if one.out.read_text().count("was killed by SIGKILL; a successor takes over") != 1:
        raise one.fails("the front does not report one death")
    if len(supervisors_deaths(one)) != 2:
        raise one.fails(f"the log has the restarts {one.restarts()}")


def check_supervisor_and_front_killed(folder):
    """The supervisor's process dies without a front, during saves. `troupe stop` still ends the run."""
    save = folder / "save"
    one = job(folder, *ENDLESS, "--save", save, "--save-interval", 2)
    one.reaches(9)
    one.process.kill()
    one.process.wait()
    old = one.deciding()
    os.kill(old["pid"], signal.SIGKILL)
    succeeded(one, old)
    newest, end = one.steps()[-1]["iteration"], time.monotonic() + PATIENCE
    while one.steps()[-1]["iteration"] < newest + 10 and time.monotonic() < end:
        time.sleep(0.02)
    works("stop", "--run", one.run)
    one.leaves_nothing()
    require_whole(one)
    if one.status()["ended"]["exit_code"] != 0:
        raise one.fails(f"the status is {one.status()}")
    steps = int((save / "latest_checkpointed_iteration.txt").read_text())
    alone = judge(folder, *PIPELINE, "--train-iters", steps, "--save", folder / "alone", "--lr-decay-iters", 100000)
    if digests(one)[-1] != digests(alone)[-1]:
        raise one.fails(f"last digest {digests(one)[-1]}, expected {digests(alone)[-1]}")
    works("checkpoint", "diff", save, folder / "alone")


# One row per check: the parts of the run that get the signal at once, the signal, the suspicion timeout (None: the
# default), and the nodes that live on.
DEATHS = {
    # A process that hangs is declared dead, replaced and killed.
    "stopped": (["node-1"], signal.SIGSTOP, 2, ["node-0"]),
    # A supervisor's process that hangs is killed before its successor takes its place.
    "supervisor_stopped": (["supervisor"], signal.SIGSTOP, 1, []),
    # Both are replaced.
    "supervisor_with_others_killed": (["supervisor", "node-1"], signal.SIGKILL, None, ["node-0"]),
    # The agent would start the next supervisor; without it the front does.
    "supervisor_and_agent_killed": (["supervisor", "agent"], signal.SIGKILL, None, ["node-0", "node-1"]),
}


def dies(name, folder):
    """The parts end, others take their places, and the run ends with the undisturbed run's bits."""
    parts, how, suspicion, alive = DEATHS[name]
    wanted = judge(folder)
    one = job(folder, *LONG, *(["--suspicion-seconds", suspicion] if suspicion else []))
    one.reaches(10)
    agent, = one.processes("agent")
    hit = {x: one.deciding() if x == "supervisor" else agent if x == "agent" else one.node(int(x[-1])) for x in parts}
    for what in dict.fromkeys((signal.SIGSTOP, how)):  # stops all first, so that none reacts to another's death
        for old in hit.values():
            os.kill(old["pid"], what)
    for part, old in hit.items():
        if part == "supervisor":
            succeeded(one, old)
            if old["pid"] in one.left():
                raise one.fails("the old supervisor's process lives beside its successor")
        elif part != "agent":
            replaced(one, int(part[-1]), old)
        one.until(f"{part} has ended", lambda: old["pid"] not in one.left())
    one.goes_on(wanted, name)
    require_whole(one)
    for node in alive:
        if (one.run / f"logs/{node}.log").read_text().count("listens at") != 1:
            raise one.fails(f"{node} was replaced")


check_stopped = functools.partial(dies, "stopped")
check_supervisor_stopped = functools.partial(dies, "supervisor_stopped")
check_supervisor_with_others_killed = functools.partial(dies, "supervisor_with_others_killed")
check_supervisor_and_agent_killed = functools.partial(dies, "supervisor_and_agent_killed")


def check_supervisor_and_stopped_agent_killed(folder):
    """The agent dies while the front waits for it to start the next supervisor: the front starts it."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    old = one.deciding()
    agent, = one.processes("agent")
    os.kill(agent["pid"], signal.SIGSTOP)
    os.kill(old["pid"], signal.SIGKILL)
    one.until("the front waits for the agent", lambda: "a successor takes over" in one.out.read_text())
    os.kill(agent["pid"], signal.SIGKILL)
    succeeded(one, old)
    one.goes_on(wanted, "the death of the supervisor's process and then of the stopped agent")
    require_whole(one)


def check_supervisor_and_agent_in_turn(folder):
    """The supervisor's process is killed, then the agent, which the successor replaces, then that successor. The new
    agent starts the next supervisor, and no other process is replaced."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    nodes = [one.node(0), one.node(1)]
    for _ in range(2):
        old = one.deciding()
        os.kill(old["pid"], signal.SIGKILL)
        deciding = succeeded(one, old)
        one.reaches(one.steps()[-1]["iteration"] + 5)
        agent, = one.processes("agent")
        os.kill(agent["pid"], signal.SIGKILL)
        one.until("another agent", lambda: [x for x in one.processes("agent") if x["pid"] != agent["pid"]])
        one.reaches(one.steps()[-1]["iteration"] + 5)
        if not is_same(one.deciding(), deciding):
            raise one.fails(f"the supervisor's process {deciding} was lost with the agent")
    old = one.deciding()
    os.kill(old["pid"], signal.SIGKILL)
    succeeded(one, old)
    one.reaches(one.steps()[-1]["iteration"] + 5)
    for number, before in enumerate(nodes):
        if not is_same(one.node(number), before):
            raise one.fails(f"process {number} was replaced: {before}, then {one.node(number)}")
    one.goes_on(wanted, "deaths of the supervisor's process and the agent in turn")
    require_whole(one)


def check_supervisor_lost(folder):
    """SHOWN-3: without recovery the front names the lost process, and the run can be resumed from its checkpoint."""
    save = folder / "save"
    one = job(folder, *LONG, "--save", save, "--save-interval", 5, "--recovery", "off")
    one.reaches(12)
    deciding = one.deciding()["pid"]
    os.kill(deciding, signal.SIGKILL)
    one.ends(3)
    require_lost(one, f"the supervisor's process {deciding} was killed by SIGKILL")
    newest = (save / "latest_checkpointed_iteration.txt").read_text()
    if f"iter_{int(newest):07}" not in one.text() or f"--load {save}" not in one.text():
        raise one.fails("the error does not say how to resume")
    wanted = judge(folder)
    again = job(folder, *LONG, "--save", save, "--load", save).ends()
    if digests(again)[-1] != digests(wanted)[-1]:
        raise again.fails(f"resumed: last digest {digests(again)[-1]}, expected {digests(wanted)[-1]}")


def check_supervisor_killed_early(folder):
    """The supervisor's process dies while it starts. Before the first commit the run starts anew, after it a successor
    takes over: nothing is lost."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.until("the supervisor has an entry", lambda: (one.run / "processes/supervisor.json").exists())
    os.kill(one.deciding()["pid"], signal.SIGKILL)
    one.until("the front reports it", lambda: re.search("before the first commit: the run starts again|a successor takes "
                                                        "over", one.out.read_text()))
    one.reaches(5)
    one.goes_on(wanted, "a supervisor's process that was killed at the start")
    for left in ("credentials", "order", "description.json", "rendezvous.json"):
        if (one.run / left).exists():
            raise one.fails(f"the ended run left '{left}'")


def check_supervisor_killed_in_first_save(folder):
    """The supervisor's process is killed while it writes the first checkpoint. The run goes on, and nothing staged is
    left."""
    save = folder / "save"
    one = job(folder, *LONG, "--save", save, "--save-interval", 1, "--keep-last", 2, "--plant-death",
              "checkpointer@1:save:kill")
    one.reaches(5)
    one.goes_on(judge(folder), "a supervisor's process that was killed in the first save")
    if len(supervisors_deaths(one)) != 1:
        raise one.fails("the supervisor was not killed once")
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if newest != one.steps()[-1]["iteration"] or list(save.glob(".iter_*")):
        raise one.fails(f"iteration {newest} is saved, and the folder has {sorted(x.name for x in save.iterdir())}")


def check_supervisor_crashed(folder):
    """The supervisor's process crashes while it starts. The crash would come again, so the run ends. If a successor was
    ready already, it takes over."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.until("the supervisor has an entry", lambda: (one.run / "processes/supervisor.json").exists())
    os.kill(one.deciding()["pid"], signal.SIGSEGV)
    said = one.until("the front reports it", lambda: re.search("was killed by SIGSEGV; (nothing was saved|a successor takes "
                                                               "over)", one.out.read_text()))
    if said[1] == "nothing was saved":
        one.ends(3)
        require_lost(one, "was killed by SIGSEGV")
    else:
        one.reaches(5)
        one.goes_on(wanted, "a supervisor's process that crashed at the start")


def check_front_stopped(folder):
    """SHOWN-1: a stopped front (Ctrl-Z) delays nothing, and shows all lines when it continues."""
    wanted = judge(folder)
    one = job(folder, *HALF, "--suspicion-seconds", 1)
    one.reaches(5)
    one.process.send_signal(signal.SIGSTOP)
    one.until("the run ends without its front", lambda: one.status()["ended"])
    one.process.send_signal(signal.SIGCONT)
    one.ends()
    require_same(one, wanted, "a front that stands still", until=LONG_STEPS // 2)
    if one.out.read_text().count(" iteration ") != (one.run / "logs/supervisor.log").read_text().count(" iteration "):
        raise one.fails("the front has not shown all lines")


def check_all_alone(folder):
    """If all processes that could start a new supervisor die at once, the others end by themselves."""
    one = job(folder, *ENDLESS, "--suspicion-seconds", 0.5)
    one.reaches(5)
    agent, = one.processes("agent")
    lost = (agent["pid"], one.deciding()["pid"], one.process.pid)  # children first, as in `dies`
    for how in (signal.SIGSTOP, signal.SIGKILL):  # stops all first, so that none reacts to another's death
        for pid in lost:
            os.kill(pid, how)
    one.process.wait()
    end = time.monotonic() + PATIENCE  # ten suspicion timeouts are 5 s; the limit is for slow machines
    while one.left() and time.monotonic() < end:
        time.sleep(0.05)
    if one.left() or shared_memory() - one.shared or one.ports & listening():
        raise one.fails(f"left processes {one.left()}, shared memory {shared_memory() - one.shared}")
    if one.status()["state"] != "died":
        raise one.fails(f"the status is {one.status()}")


def check_signalled(folder):
    """The front forwards each signal once, and the run ends in order. A second signal ends it at once."""
    for how in (signal.SIGINT, signal.SIGHUP):
        one = job(folder, *ENDLESS, "--save", folder / how.name)
        one.reaches(3)
        one.process.send_signal(how)
        one.ends()
        if f"{how.name}: finishing iteration" not in one.text():
            raise one.fails(f"the output lacks {how.name}")
    # Schedulers may signal every process of a job: that does not count as a second signal.
    for how in (signal.SIGTERM, signal.SIGUSR1):
        save = folder / f"all-{how.name}"
        one = job(folder, *ENDLESS, "--save", save)
        one.reaches(3)
        for pid in {one.process.pid, *one.left()}:
            os.kill(pid, how)
        one.ends()
        if not (save / "latest_checkpointed_iteration.txt").exists():
            raise one.fails(f"{how.name} to all processes: no checkpoint")
    # The run leaves children from before `exec` alone, and works with SIGCHLD ignored.
    done = subprocess.run(["bash", "-c", 'trap "" CHLD; sleep 300 >/dev/null 2>&1 & echo $!; exec "$@"', "bash", cli_test.PROGRAM,
                           *map(str, [*JOB, *PIPELINE, "--train-iters", 3, "--processes", 2])],
                          capture_output=True, text=True, timeout=PATIENCE)
    sleeper = int(done.stdout.split()[0])
    try:
        os.kill(sleeper, signal.SIGKILL)
    except ProcessLookupError:
        raise wrong("the run ended a foreign process")
    if done.returncode != 0:
        raise wrong(f"with SIGCHLD ignored: exit code {done.returncode}: {done.stderr}")
    one = job(folder, *ENDLESS)
    one.reaches(3)
    os.kill(one.deciding()["pid"], signal.SIGSTOP)  # so that the first signal cannot end the run
    one.process.send_signal(signal.SIGINT)
    one.until("the first signal is delivered", lambda: not pending(one.process.pid))  # otherwise the kernel merges both
    one.process.send_signal(signal.SIGINT)
    one.ends(128 + signal.SIGINT)
    if one.status()["ended"] is None or "SIGINT" not in one.status()["ended"]["reason"]:
        raise one.fails(f"the status is {one.status()}")


def shown_after_front(one, run):
    """Kills the front and follows a run with a temporary folder to its end. `troupe wait` reports whether it saw the
    end in time. The run is stopped until `troupe wait` follows it."""
    out, err = (one.folder / f"wait-{x}.txt" for x in ("out", "err"))
    with held(one.node(1)):
        one.process.kill()
        one.process.wait()
        killed_at = one.steps()[-1]["iteration"]
        with open(out, "w") as to, open(err, "w") as errors:
            follower = subprocess.Popen([cli_test.PROGRAM, "wait", "--run", run], stdout=to, stderr=errors)
        end = time.monotonic() + PATIENCE
        while not out.read_text() and follower.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
    try:
        code = follower.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        follower.kill()
        raise one.fails(f"`troupe wait` did not end within {PATIENCE} s")
    newest = max((int(x) for x in re.findall(r"iteration +(\d+)/", out.read_text())), default=0)
    if (code, "before its end was seen" in err.read_text()) not in ((0, False), (2, True)) or newest < killed_at + 20:
        raise one.fails(f"`troupe wait` ended with {code} after iteration {newest}:\n{err.read_text()}")


def check_temporary(folder):
    """A run without --run and --save removes its folder at its end, whichever process was killed."""
    for killed in (None, "front", "supervisor"):
        one = job(folder, *LONG, "--suspicion-seconds", 100, temporary=True)
        one.reaches(5)
        told, = set(re.findall(r"--run '(.*?)'`", one.out.read_text()))
        if pathlib.Path(told) != one.run:
            raise one.fails(f"the run's folder is {one.run}, but it reports {told}")
        if killed == "front":
            shown_after_front(one, told)
            one.leaves_nothing()
        elif killed == "supervisor":
            os.kill(one.deciding()["pid"], signal.SIGKILL)
            one.ends()
        else:
            one.ends()
        if one.steps()[-1]["iteration"] != LONG_STEPS:
            raise one.fails(f"the last step is {one.steps()[-1]}")
        if left := list(one.above.iterdir()):
            raise one.fails(f"({killed} killed) left behind: {left}")


def check_temporary_without_successor(folder):
    """The temporary folder is also removed if no process can replace the supervisor, and the front is gone."""
    for how in ("its successors fail", "the agent is killed, too"):
        one = job(folder, *LONG, "--suspicion-seconds", 1, temporary=True)
        one.reaches(5)
        one.process.kill()
        one.process.wait()
        pids = [one.deciding()["pid"]]
        if how == "its successors fail":
            (one.run / "order").unlink()
        else:
            pids += [x["pid"] for x in one.processes("agent")]
        for what in (signal.SIGSTOP, signal.SIGKILL):  # stops all first, so that none reacts to another's death
            for pid in pids:
                os.kill(pid, what)
        one.leaves_nothing()
        if left := list(one.above.iterdir()):
            raise one.fails(f"({how}) left behind: {left}: {[str(x) for at in left for x in at.rglob('*')]}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
