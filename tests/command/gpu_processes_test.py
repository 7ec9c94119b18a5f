"""`troupe train --backend cuda` over several processes, on emulated devices. Run by ctest:

    gpu_processes_test.py PROGRAM PLUGINS NAME...   runs the named checks, or all
"""

import json
import sys

import cli_test
from cli_test import works
from process_runs import job, killed, replaced, require_same

PLUGINS = sys.argv[2]
MODEL = ("train gpt --mock-data --tokenizer-type NullTokenizer --vocab-size 63 --num-layers 2 --hidden-size 32 "
         "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 "
         "--global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads-per-worker 1 "
         "--straggler-ratio 0 --backend cuda --product-choices none --lr-decay-iters 40").split()
BOTH = "local", "nccl"  # --collectives
PIPELINE = ["--world-size", 4, "--pipeline-model-parallel-size", 2]  # a process for each stage
TENSOR = ["--world-size", 4, "--tensor-model-parallel-size", 2]  # a process for each replica


def run(folder, *words, processes=2, iterations=4, devices=4, environment=None):
    there = {"TROUPE_PLUGINS": PLUGINS, "TROUPE_EMULATED_DEVICES": str(devices), "XDG_CACHE_HOME": str(folder / "cache"),
             **(environment or {})}
    return job(folder, "--train-iters", iterations, *words, processes=processes, environment=there, base=MODEL)


def judge(folder, *words, **more):
    return run(folder, *words, processes=1, **more).ends()


def require_one_restart(one):
    told = one.restarts()
    if len(told) != 1 or told[0].get("state_from") != "keeper":
        raise one.fails(f"expected one restart, from the keeper: the log has {told}")


def check_same_bits(folder):
    """Two processes have the bits of one, whichever ranks they share, in 32 and 16 bits, staged and by NCCL. Stages exchange
    tensors in the same way with both: `killed` has the other one."""
    for words, ways in ((PIPELINE, ["nccl"]), (["--world-size", 2, "--use-distributed-optimizer", "--bf16"], BOTH),
                        ([*TENSOR, "--overlap-grad-reduce"], BOTH)):
        wanted = judge(folder, *words, iterations=3)
        for by in ways:
            one = run(folder, *words, "--collectives", by, iterations=3).ends()
            require_same(one, wanted, f"two processes, {by}, {words}")


def check_saved(folder):
    """Two processes save, and one or two processes go on from there to the same bits."""
    wanted = judge(folder, *PIPELINE, iterations=6)
    save = folder / "save"
    run(folder, *PIPELINE, "--save", save, "--save-interval", 1, "--exit-interval", 3, iterations=6).ends()
    works("checkpoint", "verify", save / "iter_0000003")
    for processes in (1, 2):
        again = run(folder, *PIPELINE, "--load", save, processes=processes, iterations=6).ends()
        here, there = ([(x["iteration"], x["state_digest"]) for x in one.steps()] for one in (again, wanted))
        if here != there[3:]:
            raise again.fails(f"{processes} processes went on to {here} instead of {there[3:]}")


def check_verified(folder):
    """Passes that a replica in another process computes again have the same bits, and change none."""
    wanted = judge(folder, *TENSOR)
    one = run(folder, *TENSOR, "--verify-fraction", 1).ends()
    require_same(one, wanted, "verified passes")
    if one.restarts():
        raise one.fails(f"a pass was computed otherwise: {one.restarts()}")


def check_killed(folder):
    """A process is killed. Its ranks continue on devices with the states that their keeper has in host memory."""
    for words, by in ((PIPELINE, "local"), (TENSOR, "nccl")):
        wanted = judge(folder, *words, iterations=12)
        one = run(folder, *words, "--collectives", by, iterations=12)
        one.reaches(3)
        replaced(one, 1, killed(one, 1))
        one.until("the run continues", one.restarts)
        require_same(one.ends(), wanted, f"the death of a process, {by}")
        require_one_restart(one)


def check_planted(folder):
    """A process is killed, or a lane hangs, between the parts of a step. The failure detector finds the lane."""
    wanted = judge(folder, *TENSOR, iterations=6)
    for by, death in [("local", "lane:1.0.0@3:forward:kill"),
                      *((by, x) for by in BOTH for x in ("lane:0.0.1@3:reduce:kill", "lane:1.0.1@3:reduce:hang"))]:
        one = run(folder, *TENSOR, "--collectives", by, "--plant-death", death, iterations=6).ends()
        require_same(one, wanted, f"{by}, {death}")
        told = json.dumps(one.restarts())
        if len(one.restarts()) != 1 or death.endswith("hang") and "1.0.1" not in told:
            raise one.fails(f"{by}, {death}: the log has {told}")


def check_stuck(folder):
    """A device is stuck before an operation of NCCL, whose other ranks are in other processes: its lane is named."""
    stuck, words = folder / "stuck", ["--world-size", 2, "--collectives", "nccl", "--suspicion-seconds", 2]
    wanted = judge(folder, *words, iterations=8)
    one = run(folder, *words, iterations=8, environment={"TROUPE_EMULATED_STUCK": f"1@{stuck}"})
    one.reaches(2)
    stuck.touch()
    one.until("the lane is named", lambda: one.text().count("lane:1.0 shows no progress; wait graph:") == 1)
    stuck.unlink()
    require_same(one.ends(), wanted, "a stuck device")
    if "its device, at work before NCCL in '" not in one.text() or "lane:1.0" not in json.dumps(one.restarts()):
        raise one.fails(f"the lane of rank 1 is not named as the cause: {one.restarts()}")


def check_devices(folder):
    """Processes of a host have devices of their own, unless the devices are named. NCCL refuses shared ones."""
    one = run(folder, "--world-size", 2, devices=1)
    one.process.wait()
    if one.process.returncode == 0 or "belongs to another process of this run" not in one.text():
        raise one.fails(f"two processes on one device ended with {one.process.returncode}")
    one = run(folder, "--world-size", 2, "--devices", 0, "--collectives", "nccl", "--recovery", "off", devices=1)
    one.process.wait()
    if one.process.returncode == 0 or "NCCL" not in one.text():
        raise one.fails(f"NCCL on one device ended with {one.process.returncode}")
    named = ["--world-size", 2, "--devices", 0]
    require_same(run(folder, *named, devices=1).ends(), judge(folder, *named, devices=1), "a shared device")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[3:], globals()))
