"""All processes of a run die, and it goes on from what they had written to local disks (LOCAL-4). Run by ctest.

    local_disk_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
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
from process_runs import ENDLESS, JOBS, LONG, PATIENCE, PIPELINE, is_stopped, job, judge, require_same, with_flags


def check_local_disk(folder):
    """Processes that keep each other's states die at once: the run goes on from what they had written to the local
    disk, at most that many steps back; from an older one, or the checkpoint, where the newest is damaged."""
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
            one.until("it has stopped", lambda: is_stopped(at["pid"]))  # before that it may write another step
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
        told = re.findall(r"the run goes on from iteration (\d+) (?:from )?(.*)", one.out.read_text())
        if not told or (not damaged and (told[0][1].split(",")[0] != "the local disk" or int(told[0][0]) % 10)):
            raise one.fails(f"it went on from {told}")
        if damaged and "is damaged" not in one.text():
            raise one.fails("nobody tells of the damage")
        left = {x.parent.name: sorted(y.name for y in x.parent.iterdir()) for x in stored()}
        if any(len(x) > 2 for x in left.values()):
            raise one.fails(f"on the local disk are {left}")


def stored(local):
    """The steps there, by process."""
    found = collections.defaultdict(set)
    for x in local.glob("run-*/process-*/step-*"):
        found[x.parent.name].add(x)
    return found


def stored_by_both(local):
    found = [{int(x.name.removeprefix("step-")) for x in steps} for steps in stored(local).values()]
    return sorted(found[0] & found[1]) if len(found) == 2 else []


def stored_and_committed(one, local):
    """Of the steps that both have there those that the ledger has: processes that are stopped one after the other may
    leave one that the supervisor has not committed."""
    file = one.run / "ledger.jsonl"
    text = file.read_text() if file.exists() else ""
    lines = [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]
    newest = max((x["committed"]["iteration"] for x in lines if "committed" in x), default=0)
    return [x for x in stored_by_both(local) if x <= newest]


def cold(folder, name, saved=0, base=LONG):
    """A run that goes on from what it saves, has saved that iteration, and has written its states to the local disk
    since, which it does every 10 steps."""
    local, save = folder / f"local-{name}", folder / f"save-{name}"
    one = job(folder, *base, "--save", save, "--load", save, "--save-interval", 1000000, "--exit-interval",
              saved or 1000000, "--non-persistent-save-interval", 10, "--non-persistent-local-ckpt-dir", local)
    if saved:
        one.ends()
        one.start("--exit-interval", 1000000)
    one.until("both have written a step", lambda: [x for x in stored_and_committed(one, local) if x > saved])
    return one, local


COLD = re.compile(r"the run before is gone .*goes on from iteration (\d+) (.*?)(?:, \d+ iterations? run again)?\n")


def resumed(one, source):
    """From which iteration it has told that it goes on, from there."""
    told = one.until("it goes on", lambda: COLD.findall(one.out.read_text()))
    if len(told) != 1 or told[0][1] != source:
        raise one.fails(f"it went on from {told}, and not {source}")
    return int(told[0][0])


def require_sound_ledger(one):
    works("ledger", "--run", one.run, "--check")


def check_cold_start(folder):
    """COLD-2: front, supervisor, agent and nodes are killed at once, twice: the same command goes on from the states on
    the local disk, beyond the newest checkpoint, to the same bits; each step is once in the log."""
    wanted = judge(folder)
    one, local = cold(folder, "cold", saved=20)
    for death in (1, 2):
        newest = []
        one.dies(lambda: newest.extend(stored_and_committed(one, local)))
        one.start()
        if resumed(one, "from the local disk") != newest[-1]:
            raise one.fails(f"both have written {newest}")
        one.until("both have written another step",
                  lambda: [x for x in stored_and_committed(one, local) if x > newest[-1]])
        require_sound_ledger(one)
    one.ends()
    require_same(one, wanted, "two deaths of all processes")
    require_sound_ledger(one)
    events = [json.dumps(x) for x in one.restarts()]
    if len(events) != 2 or not all("the run before" in x and "local disk" in x for x in events):
        raise one.fails(f"the log tells of {events}")


def check_cold_damaged(folder):
    """LOCAL-2, MEMBER-6: after the death of all what is damaged on the local disk is told, and an older step is taken;
    where a process has none there, the checkpoint, or the start."""
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
    one.until("it goes on", lambda: "the run goes on from iteration" in one.out.read_text())
    one.goes_on(wanted, "local states that are damaged")
    require_sound_ledger(one)
    if "is damaged" not in one.text():
        raise one.fails("nobody tells of the damage")

    for saved, source in ((20, "from the checkpoint"), (0, "from the start of the run")):
        one, local = cold(folder, f"missing-{saved}", saved)
        one.dies(lambda: [shutil.rmtree(x) for x in local.glob("run-*/process-1")])
        one.start()
        if resumed(one, source) != saved:
            raise one.fails(f"it had saved {saved}")
        one.goes_on(wanted, f"the states of a process that are missing, {source}")
        require_sound_ledger(one)
        if "those of process 1 are missing" not in one.text():
            raise one.fails("nobody tells whose states are missing")


def check_cold_refused(folder):
    """COLD-1: states of another layout or job are not taken, and it is said why; nor those of a run that lives."""
    wanted = judge(folder)
    one, local = cold(folder, "other", saved=20)
    twice = subprocess.run(with_flags(one.command, "--save", folder / "twice", "--load", folder / "twice", "--log-file",
                                      folder / "twice.jsonl"), capture_output=True, text=True, timeout=PATIENCE)
    if twice.returncode != 2 or "another run lives there" not in twice.stderr:
        raise one.fails(f"in the folder of a run that lives it ends with {twice.returncode}: {twice.stderr}")
    one.dies()
    one.start("--processes", 4)
    one.until("it is told", lambda: re.search("are not taken: .* it had 2 of them, and .* is 4", one.out.read_text()))
    one.goes_on(wanted, "another layout")
    if COLD.search(one.out.read_text()):
        raise one.fails("it goes on from states of another layout")

    one, local = cold(folder, "foreign", base=ENDLESS)
    one.dies()
    before = one.steps()[0]
    ledger = (one.run / "ledger.jsonl").read_bytes()
    one.start("--seed", 7)
    one.until("it is told", lambda: "are not taken: this is another job" in one.out.read_text())
    one.until("it begins anew", lambda: [x for x in one.steps()[:1] if x["iteration"] == 1
                                         and x["state_digest"] != before["state_digest"]])
    if (one.run / "ledger.before.jsonl").read_bytes() != ledger:
        raise one.fails("the ledger of the run before is not kept as it was")
    if "seed: the run before 1234, this run 7" not in one.out.read_text():
        raise one.fails("it is not said what differs")
    one.process.terminate()
    one.ends()


def check_local_refused(folder):
    """A local disk that refuses costs no step, and is told once by each process."""
    wanted = judge(folder, *PIPELINE, "--train-iters", 40)
    in_the_way = folder / "a-file"
    in_the_way.write_text("")
    one = job(folder, *PIPELINE, "--train-iters", 40, "--non-persistent-save-interval", 5,
              "--non-persistent-local-ckpt-dir", in_the_way).ends()
    require_same(one, wanted, "a local disk that refuses")
    if one.text().count("are not on the local disk") != 2:
        raise one.fails("a local disk that refuses is not told once by each process")


if __name__ == "__main__":
    atexit.register(lambda: [one.stop() for one in JOBS])
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
