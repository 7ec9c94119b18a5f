"""All processes of a run die, and it resumes from snapshots on local disks (LOCAL-4). Run by ctest.

    local_disk_test.py PROGRAM NAME...   runs the named checks, or all
"""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import cli_test
from cli_test import works
from process_runs import (ENDLESS, LONG, LONG_STEPS, PATIENCE, PIPELINE, SHARED, is_stopped, job, judge,
                          require_same, with_flags)


def check_local_disk(folder):
    """Processes that keep each other's states die at once. The run resumes from the newest local snapshot, which
    bounds the lost steps. If that is damaged, it resumes from an older one or from the checkpoint."""
    wanted = judge(folder)
    for damaged in (False, True):
        local = folder / f"local-{damaged}"
        one = job(folder, *LONG, "--save", folder / f"save-{damaged}", "--save-interval", 1000000,
                  "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", local)
        one.reaches(25)
        stored = lambda: [x for x in local.glob("run-*/process-*/step-*")]  # noqa: E731
        in_both = lambda: [x for x, n in collections.Counter(y.name for y in stored()).items() if n == 2]  # noqa: E731
        one.until("both have written a step", in_both)
        all_of_them = one.processes()
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGSTOP)
        for at in all_of_them:
            one.until("the process has stopped", lambda: is_stopped(at["pid"]))  # until then it may write another step
        if damaged:
            newest = max(in_both())
            for x in stored():
                if x.name == newest:
                    file = max(x.glob("rank-*.state"))
                    data = bytearray(file.read_bytes())
                    data[len(data) // 2] ^= 1
                    file.write_bytes(data)
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGKILL)
        one.ends()
        require_same(one, wanted, f"the death of processes that keep each other's states, damaged {damaged}")
        told = re.findall(r"the run continues from iteration (\d+) (?:from )?(.*)", one.out.read_text())
        if not told or (not damaged and (told[0][1].split(",")[0] != "the local disk" or int(told[0][0]) % 10)):
            raise one.fails(f"the run resumed from {told}")
        if damaged and "is damaged" not in one.text():
            raise one.fails("the damage is not reported")
        left = {x.parent.name: sorted(y.name for y in x.parent.iterdir()) for x in stored()}
        if any(len(x) > 2 for x in left.values()):
            raise one.fails(f"the local disk has {left}")


def stored(local):
    """Snapshots in that folder, by process."""
    found = collections.defaultdict(set)
    for x in local.glob("run-*/process-*/step-*"):
        found[x.parent.name].add(x)
    return found


def stored_by_both(local):
    found = [{int(x.name.removeprefix("step-")) for x in steps} for steps in stored(local).values()]
    return sorted(found[0] & found[1]) if len(found) == 2 else []


def stored_and_committed(one, local):
    """Steps that both processes stored and the ledger committed. Processes stop one after the other, so a stored step
    may be uncommitted."""
    file = one.run / "ledger.jsonl"
    text = file.read_text() if file.exists() else ""
    lines = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
    newest = max((x["committed"]["iteration"] for x in lines if "committed" in x), default=0)
    return [x for x in stored_by_both(local) if x <= newest]


def cold(folder, name, saved=0, base=LONG):
    """Starts a run that resumes from its own checkpoints. It has saved iteration `saved` and has written newer states
    to the local disk, one every 10 steps."""
    local, save = folder / f"local-{name}", folder / f"save-{name}"
    one = job(folder, *base, "--save", save, "--load", save, "--save-interval", 1000000, "--exit-interval",
              saved or 1000000, "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", local)
    if saved:
        one.ends()
        one.start("--exit-interval", 1000000)
    one.until("both have written a step", lambda: [x for x in stored_and_committed(one, local) if x > saved])
    return one, local


COLD = re.compile(r"the run before is gone .*continues from iteration (\d+) (.*?)(?:, \d+ iterations? run again)?\n")


def resumed(one, source):
    """Returns the iteration from which the run reports to resume; fails if it names another source."""
    told = one.until("the run resumes", lambda: COLD.findall(one.out.read_text()))
    if len(told) != 1 or told[0][1] != source:
        raise one.fails(f"the run resumed from {told}, expected {source}")
    return int(told[0][0])


def require_sound_ledger(one):
    works("ledger", "--run", one.run, "--check")


def check_cold_experts(folder):
    """Snapshots hold the experts of each rank, although all ranks are of other replicas."""
    words = [*SHARED, "--train-iters", LONG_STEPS]
    wanted = judge(folder, *words)
    one, local = cold(folder, "experts", base=words)
    newest = []
    one.dies(lambda: newest.extend(stored_and_committed(one, local)))
    one.start()
    if resumed(one, "from the local disk") != newest[-1]:
        raise one.fails(f"the run did not resume from the newest of {newest}")
    one.goes_on(wanted, "the death of all processes")


def check_cold_start(folder):
    """COLD-2: front, supervisor, agent and nodes are killed at once, twice. The same command resumes from local
    snapshots, past the newest checkpoint, to the same bits. The log has each step once."""
    wanted = judge(folder)
    one, local = cold(folder, "cold", saved=20)
    for death in (1, 2):
        newest = []
        one.dies(lambda: newest.extend(stored_and_committed(one, local)))
        one.start()
        if resumed(one, "from the local disk") != newest[-1]:
            raise one.fails(f"the run did not resume from the newest of {newest}")
        one.until("both have written another step",
                  lambda: [x for x in stored_and_committed(one, local) if x > newest[-1]])
        require_sound_ledger(one)
    one.ends()
    require_same(one, wanted, "two deaths of all processes")
    require_sound_ledger(one)
    events = [json.dumps(x) for x in one.restarts()]
    if len(events) != 2 or not all("the run before" in x and "local disk" in x for x in events):
        raise one.fails(f"the log has the events {events}")


def check_cold_damaged(folder):
    """LOCAL-2, MEMBER-6: after the death of all processes, damaged local snapshots are reported and older ones used.
    If a process has none, the run resumes from the checkpoint, or from the start."""
    wanted = judge(folder)

    def damage():
        newest = stored_and_committed(one, local)[-1]
        for x in set().union(*stored(local).values()):
            if x.name == f"step-{newest:07}":
                file = max(x.glob("rank-*.state"))
                data = bytearray(file.read_bytes())
                data[len(data) // 2] ^= 1
                file.write_bytes(data)

    one, local = cold(folder, "damaged")
    one.until("both have written two steps", lambda: len(stored_by_both(local)) == 2)
    one.dies(damage)
    one.start()
    one.until("the run resumes", lambda: "the run continues from iteration" in one.out.read_text())
    one.goes_on(wanted, "local states that are damaged")
    require_sound_ledger(one)
    if "is damaged" not in one.text():
        raise one.fails("the damage is not reported")

    for saved, source in ((20, "from the checkpoint"), (0, "from the start of the run")):
        one, local = cold(folder, f"missing-{saved}", saved)
        one.dies(lambda: [shutil.rmtree(x) for x in local.glob("run-*/process-1")])
        one.start()
        if resumed(one, source) != saved:
            raise one.fails(f"the run did not resume from {saved}")
        one.goes_on(wanted, f"the states of a process that are missing, {source}")
        require_sound_ledger(one)
        if "states of process 1 are missing" not in one.text():
            raise one.fails("the process with missing states is not named")


def check_cold_refused(folder):
    """COLD-1: a run refuses the states of another layout or job, with the reason, and those of a live run."""
    wanted = judge(folder)
    one, local = cold(folder, "other", saved=20)
    twice = subprocess.run(with_flags(one.command, "--save", folder / "twice", "--load", folder / "twice", "--log-file",
                                      folder / "twice.jsonl"), capture_output=True, text=True, timeout=PATIENCE)
    if twice.returncode != 2 or "another run uses it" not in twice.stderr:
        raise one.fails(f"in the folder of a live run: exit code {twice.returncode}: {twice.stderr}")
    one.dies()
    one.start("--processes", 4)
    one.until("the reason is logged", lambda: re.search("are not used: .* it had 2 processes, but .* is 4", one.out.read_text()))
    one.goes_on(wanted, "another layout")
    if COLD.search(one.out.read_text()):
        raise one.fails("the run resumed from states of another layout")

    one, local = cold(folder, "foreign", base=ENDLESS)
    one.dies()
    before = one.steps()[0]
    ledger = (one.run / "ledger.jsonl").read_bytes()
    one.start("--seed", 7)
    one.until("the reason is logged", lambda: "are not used: this is another job" in one.out.read_text())
    one.until("the run starts anew", lambda: [x for x in one.steps()[:1] if x["iteration"] == 1
                                         and x["state_digest"] != before["state_digest"]])
    if (one.run / "ledger.before.jsonl").read_bytes() != ledger:
        raise one.fails("the ledger of the previous run was not kept unchanged")
    if "seed: the run before 1234, this run 7" not in one.out.read_text():
        raise one.fails("the difference is not reported")
    one.process.terminate()
    one.ends()


def check_local_refused(folder):
    """A failing local disk does not affect the steps; each process reports it once."""
    wanted = judge(folder, *PIPELINE, "--train-iters", 40)
    in_the_way = folder / "a-file"
    in_the_way.write_text("")
    one = job(folder, *PIPELINE, "--train-iters", 40, "--non-persistent-save-interval", 5,
              "--non-persistent-local-ckpt-dir", in_the_way).ends()
    require_same(one, wanted, "a local disk that refuses")
    if one.text().count("are not on the local disk") != 2:
        raise one.fails("not exactly one report per process of a failing local disk")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
