"""Processes of a run die or hang, also while they save; the run continues to the same bits. Run by ctest.

    process_deaths_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import MOCK, SMALL, refuses, works
from process_runs import (ENDLESS, JOBS, LONG, LONG_STEPS, PIPELINE, SHARED, held, is_same, job, judge, killed,
                          replaced, require_same, require_same_files)


def check_shards(folder):
    """A process is killed while it writes shards. Visible checkpoints are complete, and the run has the same bits."""
    words = [*PIPELINE, "--train-iters", 40, "--hidden-size", 256, "--use-distributed-optimizer", "--keep-last", 2]
    judged, save = folder / "judged", folder / "save"
    wanted = job(folder, *words, "--save", judged, "--save-interval", 40, processes=1).ends()
    one = job(folder, *words, "--save", save, "--save-interval", 1)
    writing = lambda: [x for x in save.glob(".*.partial") if any(x.iterdir())]  # noqa: E731
    killed_while = []
    for number, iteration in ((1, 3), (0, 12)):
        one.reaches(iteration)
        at = one.node(number)
        killed_while += [x.name for x in one.until("shards are being written", writing)]
        os.kill(at["pid"], signal.SIGKILL)
        replaced(one, number, at)
        newest = (save / "latest_checkpointed_iteration.txt").read_text().strip()
        if int(newest) < 1:
            raise one.fails(f"the newest checkpoint is {newest}")
    one.ends()
    print("shards: killed while writing", *killed_while)
    require_same(one, wanted, "deaths of processes that were writing")
    for at in save.glob("iter_*"):
        works("checkpoint", "verify", at)
    # Manifests differ: they have the generation, which deaths increase.
    require_same_files(judged / "iter_0000040", save / "iter_0000040", "*.safetensors")
    if any(x.name.endswith(".partial") for x in save.iterdir()):
        raise one.fails(f"a partial checkpoint is left: {sorted(save.iterdir())}")


def check_full_disk(folder):
    """The disk of checkpoints is full while several processes write. Training continues, and the error names the
    process."""
    save = folder / "save"
    save.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", save], capture_output=True).returncode != 0:
        print("skipped: no mount is allowed here")
        sys.exit(77)
    try:
        (save / "filler").write_bytes(bytes(2 << 20))
        wanted = judge(folder, *PIPELINE, "--train-iters", 12)
        one = job(folder, *PIPELINE, "--train-iters", 12, "--save", save, "--save-interval", 4).ends(2)
        require_same(one, wanted, "a full disk")
        for text in ("No space left on device", "training continues", "tried again", "process ", "on host '"):
            if text not in one.text():
                raise one.fails(f"the report of a full disk lacks '{text}'")
        if list(save.glob("iter_*")) or list(save.glob(".*.partial")):
            raise one.fails(f"a partial checkpoint is left: {sorted(save.iterdir())}")
        (save / "filler").unlink()
        job(folder, *PIPELINE, "--train-iters", 12, "--save", save, "--save-interval", 12).ends()
        works("checkpoint", "verify", save)
    finally:
        subprocess.run(["umount", "--lazy", save], check=True)


def check_killed(folder):
    """A process dies, and another one takes its place; the other process lives on."""
    wanted = judge(folder)
    one = job(folder, *LONG)
    one.reaches(10)
    beside = one.node(0)
    for deaths in (1, 2):
        one.reaches(one.steps()[-1]["iteration"] + 5)
        replaced(one, 1, killed(one, 1))
        one.until("the run continues", lambda: len(one.restarts()) == deaths)
    if not is_same(one.node(0), beside):
        raise one.fails(f"the other process was replaced: {beside}, then {one.node(0)}")
    one.goes_on(wanted, "two deaths of a process")
    told = [json.dumps(x) for x in one.restarts()]
    # The broken connection may be reported first, and the report of the host's agent too late.
    causes = ("killed by SIGKILL", "its connection is gone")
    if len(told) != 2 or not all('"who": "process:1"' in x and any(y in x for y in causes) for x in told):
        raise one.fails(f"the log has the restarts {told}")
    if one.text().count("has ended: killed by SIGKILL") != 2:
        raise one.fails("the host agent does not report two deaths")


def check_experts(folder):
    """A process dies whose experts no other rank holds. Its ranks continue from the states that their keeper has."""
    words = [*SHARED, "--train-iters", LONG_STEPS]
    wanted = judge(folder, *words)
    one = job(folder, *words)
    for number in (1, 0):
        one.reaches(one.steps()[-1]["iteration"] + 5 if one.steps() else 10)
        replaced(one, number, killed(one, number))
        one.until("the run continues", lambda: len(one.restarts()) == 2 - number)
    one.goes_on(wanted, "deaths of processes with experts")
    sources = [x.get("state_from") for x in one.restarts()]
    if sources != ["keeper", "keeper"]:
        raise one.fails(f"the run continued from {sources}")


def check_all_killed(folder):
    """After the death of all processes that keep states, the run resumes from the checkpoint, or from the start."""
    wanted = judge(folder)
    for more in ([], ["--save", folder / "save", "--save-interval", 5]):
        one = job(folder, *LONG, *more)
        one.reaches(10)
        all_of_them, before = one.processes(), time.time() - 0.2
        for at in all_of_them:
            os.kill(at["pid"], signal.SIGKILL)
        one.goes_on(wanted, f"the death of all processes at once {more}")
        if not one.restarts():
            raise one.fails("the log has no restart")
        saved = more and (folder / "save" / "iter_0000005" / "manifest.json").stat().st_mtime < before
        if saved and "from the checkpoint" not in one.out.read_text():
            raise one.fails("the run did not resume from its checkpoint")


def check_removed_folder(folder):
    """The folder of checkpoints, with the run's own folder, is removed while several processes save there. The
    supervisor's process locks it again, all processes save again, and the run ends normally."""
    save = folder / f"job-{len(JOBS)}" / "save"
    one = job(folder, *ENDLESS, "--save", save, "--save-interval", 2, run="save/.run")
    one.until("a checkpoint", lambda: list(save.glob("iter_*")))
    one.look()
    holder = one.deciding()["pid"]
    save.rename(folder / "removed")  # renamed first, as other processes write there
    shutil.rmtree(folder / "removed")
    one.until("the folder is locked again", lambda: "it is locked again" in one.out.read_text())
    one.until("a new checkpoint", lambda: list(save.glob("iter_*")))
    refuses(f"process {holder} is saving there", "train", "gpt", *SMALL, *MOCK, "--save", save)
    one.process.terminate()
    one.ends()
    works("checkpoint", "verify", save)


def check_save_vanishes(folder):
    """The folder of checkpoints vanishes while several processes write there. If it comes back, it is used again. If
    not, the run trains to its end and exits with 2."""
    wanted = judge(folder, *LONG)
    for comes_back in (True, False):
        mount = folder / f"mount-{comes_back}"
        mount.mkdir()
        save = mount / "save"
        one = job(folder, *LONG, "--save", save, "--save-interval", 5)
        one.until("a checkpoint", lambda: list(save.glob("iter_*")))
        save.rename(mount / "away")
        save.write_text("what is here is no folder")
        one.until("a refusal", lambda: "training continues" in one.out.read_text())
        if comes_back:
            save.unlink()
            (mount / "away").rename(save)
        one.ends(0 if comes_back else 2)
        require_same(one, wanted, f"a folder of checkpoints that vanishes, comes back: {comes_back}")
        if comes_back:
            works("checkpoint", "verify", save)
            if (save / "latest_checkpointed_iteration.txt").read_text().strip() != str(LONG_STEPS):
                raise one.fails("the last iteration is not saved")


def check_agent_killed(folder):
    """After each death of the host agent another agent adopts all processes."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 100)
    one.reaches(5)
    nodes = one.nodes()
    for iteration in (5, 12):
        one.reaches(iteration)
        with held(nodes[1]):
            agent, = one.processes("agent")
            os.kill(agent["pid"], signal.SIGKILL)
            one.until("another agent", lambda: [x for x in one.processes("agent") if x["pid"] != agent["pid"]])
            now = one.nodes()
            if len(now) != len(nodes) or not all(map(is_same, now, nodes)):
                raise one.fails(f"processes were replaced: {nodes}, then {now}")
    one.until("both processes are adopted twice", lambda: one.text().count("adopted 'node-") == 4)
    # The newest agent detects the death of a process that is not a child of any agent.
    one.reaches(20)
    os.kill(nodes[1]["pid"], signal.SIGKILL)
    replaced(one, 1, nodes[1])
    one.goes_on(wanted, "the deaths of two host agents")
    if len(one.restarts()) != 1:
        raise one.fails(f"expected one restart, the log has {one.restarts()}")
    for told in ("the host agent is gone", "has ended: its end was not seen by a parent"):
        if told not in one.text():
            raise one.fails(f"the logs lack '{told}'")


def check_without_recovery(folder):
    """With --recovery off a death ends the run early and in order, with that cause. An agent takes its nodes along."""
    save = folder / "save"
    one = job(folder, *PIPELINE, "--train-iters", 100000, "--recovery", "off", "--save", save, "--save-interval", 5)
    one.reaches(12)
    killed(one, 1)
    one.ends(3)
    told = one.status()["ended"]["reason"]
    if "process:1" not in told or "killed by SIGKILL" not in told:
        raise one.fails(f"the cause is {told!r}")
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if newest < 5:
        raise one.fails(f"the newest checkpoint is {newest}")
    works("checkpoint", "verify", save / f"iter_{newest:07}")
    one = job(folder, *ENDLESS, "--recovery", "off")
    one.reaches(5)
    agent, = one.processes("agent")
    os.kill(agent["pid"], signal.SIGKILL)
    one.ends(3)
    told = one.status()["ended"]["reason"]
    if "process:" not in told:
        raise one.fails(f"the cause of an agent's death is {told!r}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
