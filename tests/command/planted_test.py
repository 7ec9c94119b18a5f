"""Faults injected into runs of several processes: wrong bits, and deaths of keepers and shard writers. Run by ctest.

    planted_test.py PROGRAM NAME...   runs the named checks, or all
"""

import sys

import cli_test
from cli_test import works
from process_runs import PIPELINE, job, require_same, require_same_files


def check_wrong_bits(folder):
    """With four replicas, the process with other bits is replaced. With two, a repeated comparison decides."""
    def events(one, kind):
        return [x for x in one.records() if x.get("event") == kind]

    def accuses(one, who, verdict):
        told = events(one, "wrong bits")
        if [(x["who"], x["verdict"]) for x in told] != [(who, verdict)]:
            raise one.fails(f"the events are {told}")

    four = ["--world-size", 4, "--train-iters", 12]
    wanted = job(folder, *four, processes=1).ends()
    one = job(folder, *four, "--plant-death", "lane:2.0@6:reduce:wrong-bits", processes=4).ends()
    require_same(one, wanted, "with wrong bits")
    logs = [(one.run / "logs" / f"node-{n}.log").read_text() for n in range(4)]
    if ["(incarnation 2)" in x for x in logs] != [False, False, True, False]:
        raise one.fails("not exactly process 2 was replaced")
    accuses(one, "stage:2.0", "outvoted")
    if not (told := events(one, "restart")) or told[0]["who"] != "process:2" or len(told) != 1:
        raise one.fails(f"restarts: {told}")
    two = ["--world-size", 2, "--train-iters", 12]
    wanted = job(folder, *two, processes=1).ends()
    death = "lane:1.0@6:reduce:wrong-bits"
    one = job(folder, *two, "--plant-death", death, death).ends()
    require_same(one, wanted, "with wrong bits twice")
    accuses(one, "stage:1.0", "persistent")
    if [x["who"] for x in events(one, "restart")] != ["replicas", "process:0"]:
        raise one.fails(f"restarts: {events(one, 'restart')}")
    one = job(folder, *two, "--verify-fraction", 1, "--plant-death", "lane:0.0@5:forward:wrong-bits").ends()
    require_same(one, wanted, "with a wrong forward pass")
    accuses(one, "stage:0.0", "transient")
    death = "lane:1.0@5:weight-gradient:wrong-bits"
    one = job(folder, *two, "--verify-fraction", 1, "--plant-death", death).ends()
    require_same(one, wanted, "with a wrong weight gradient")
    accuses(one, "stage:1.0", "transient")
    one = job(folder, *two, "--verify-fraction", 0.5).ends()
    require_same(one, wanted, "with half of its passes computed again")
    if told := events(one, "wrong bits"):
        raise one.fails(f"the events are {told}")


def check_wrong_moments(folder):
    """A wrong bit in a moment is detected like one in a weight. One on its way to a keeper is refused and resent."""
    two = ["--world-size", 2, "--train-iters", 12]
    wanted = job(folder, *two, processes=1).ends()
    deaths = ["lane:1.0@4:updated:wrong-moment", "lane:0.0@8:updated:wrong-second-moment"]
    one = job(folder, *two, "--plant-death", *deaths).ends()
    require_same(one, wanted, "with wrong moments")
    told = [(x["who"], x["verdict"]) for x in one.records() if x.get("event") == "wrong bits"]
    if told != [("stage:1.0", "transient"), ("stage:0.0", "transient")]:
        raise one.fails(f"the events are {told}")
    one = job(folder, *two, "--plant-death", "keeper@5:redeem:wrong-bits").ends()
    require_same(one, wanted, "with a state that was damaged on its way to its keeper")
    if one.restarts() or "arrived damaged: " not in one.text():
        raise one.fails(f"the damage is not reported, or caused a restart: {one.restarts()}")


def check_keeper_planted(folder):
    """A keeper dies after it has pulled states, or after it has acknowledged them: alone, by hanging, or with its
    process."""
    words = [*PIPELINE, "--train-iters", 20]
    wanted = job(folder, *words, processes=1).ends()
    one = job(folder, *words, "--plant-death", "keeper@4:redeem", "keeper@9:acknowledged").ends()
    require_same(one, wanted, "deaths of keepers")
    told = [(x["event"], x["who"].partition(":")[0]) for x in one.records() if "event" in x]
    if told != [("replaced", "keeper")] * 2:
        raise one.fails(f"the events are {told}")
    one = job(folder, *words, "--suspicion-seconds", 3, "--plant-death", "keeper@4:redeem:hang").ends()
    require_same(one, wanted, "a keeper that hangs")
    if not (told := [x for x in one.records() if x.get("event") == "replaced" and x["who"].startswith("keeper")]):
        raise one.fails(f"the events are {[x for x in one.records() if 'event' in x]}")
    if "no progress" not in told[0]["why"]:
        raise one.fails(f"the reason is {told}")
    one = job(folder, *words, "--plant-death", "keeper@5:redeem:kill", "keeper@12:acknowledged:kill").ends()
    require_same(one, wanted, "deaths of processes whose keeper was working")
    if len(one.restarts()) != 2 or one.text().count("has ended: killed by SIGKILL") != 2:
        raise one.fails(f"restarts: {one.restarts()}")


def check_shard_writer_planted(folder):
    """A shard writer dies between two files: alone, by hanging, or with its process. No step is lost, and visible
    checkpoints are complete."""
    words = [*PIPELINE, "--train-iters", 20, "--save-interval", 5]
    judged = folder / "judged"
    wanted = job(folder, *words, "--save", judged, processes=1).ends()
    for how in ("throw", "hang", "kill"):
        save = folder / f"save-{how}"
        one = job(folder, *words, "--suspicion-seconds", 3, "--save", save,
                  "--plant-death", f"shard_writer@5:save:{how}").ends()
        require_same(one, wanted, f"the death of a shard writer by {how}")
        for at in save.glob("iter_*"):
            works("checkpoint", "verify", at)
        # Manifests differ: they have the generation, which deaths increase.
        require_same_files(judged / "iter_0000020", save / "iter_0000020", "*.safetensors")
        if any(x.name.endswith(".partial") for x in save.iterdir()):
            raise one.fails(f"a partial checkpoint is left: {sorted(save.iterdir())}")
        told = [(x["event"], x["who"].partition(":")[0]) for x in one.records() if "event" in x]
        if (("restart", "process") if how == "kill" else ("replaced", "shard_writer")) not in told:
            raise one.fails(f"the events are {told}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
