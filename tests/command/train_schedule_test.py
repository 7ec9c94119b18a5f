"""`troupe train gpt --pipeline-schedule`: resuming with another schedule, recording, refusals. Run by ctest.

    train_schedule_test.py PROGRAM CHECK
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
SMALL = """--num-layers 8 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1
    --global-batch-size 8 --lr 1e-3 --lr-decay-iters 4 --train-iters 4 --mock-data
    --tokenizer-type NullTokenizer --vocab-size 60 --eval-iters 0 --threads-per-worker 1
    --pipeline-model-parallel-size 2 --no-progress""".split()


def wrong(what, done):
    return AssertionError(f"{what}\n{' '.join(map(str, done.args))}: exit {done.returncode}\n"
                          f"{done.stdout}{done.stderr}")


def train(*words, code=0):
    done = subprocess.run([PROGRAM, "train", "gpt", *SMALL, *map(str, words)], capture_output=True,
                          text=True, timeout=120)
    if done.returncode != code:
        raise wrong(f"expected exit code {code}", done)
    return done


def digests(log):
    return {x["iteration"]: x["state_digest"] for x in map(json.loads, log.read_text().splitlines())}


def check_resumed(folder):
    """A run that is resumed with other schedules, also V-shaped and with virtual stages, has the same bits."""
    whole = folder / "whole.jsonl"
    train("--log-file", whole)
    save = folder / "save"
    train("--log-file", folder / "a.jsonl", "--save", save, "--exit-interval", 1,
          "--pipeline-schedule", "zb-v")
    for schedule, until in (("1f1b", 2), ("interleaved", 3), ("v-half", 4)):
        train("--log-file", folder / "b.jsonl", "--save", save, "--load", save, "--exit-interval", until,
              "--pipeline-schedule", schedule)
    if digests(folder / "b.jsonl")[4] != digests(whole)[4]:
        raise AssertionError("a run with three changes of its schedule has other bits")
    two = folder / "two"
    train("--log-file", folder / "c.jsonl", "--pipeline-schedule", "dualpipe")
    train("--log-file", folder / "d.jsonl", "--pipeline-schedule", "dualpipe", "--save", two,
          "--exit-interval", 2)
    train("--log-file", folder / "d.jsonl", "--pipeline-schedule", "dualpipe", "--save", two, "--load", two)
    if digests(folder / "c.jsonl")[4] != digests(folder / "d.jsonl")[4]:
        raise AssertionError("two copies of a model changed by saving and loading")


def check_recorded(folder):
    """The recorded schedule is a valid plan and can be run again. A run refuses to overwrite the plan that it reads."""
    plan = folder / "done.csv"
    train("--pipeline-schedule", "zb-h1", "--record-schedule", plan, "--log-file", folder / "a.jsonl")
    done = subprocess.run([PROGRAM, "schedule", "check", plan], capture_output=True, text=True)
    if done.returncode != 0:
        raise wrong("the record has complaints", done)
    train("--pipeline-schedule", plan, "--log-file", folder / "b.jsonl", "--save", folder / "save")
    if digests(folder / "a.jsonl") != digests(folder / "b.jsonl"):
        raise AssertionError("the recorded schedule gives other bits")
    text = plan.read_text()
    train("--pipeline-schedule", plan, "--record-schedule", plan, code=2)
    if plan.read_text() != text:
        raise AssertionError("the schedule was overwritten")


def check_nonfinite(folder):
    """A non-finite gradient on any rank skips the step, with several chunks and with two copies."""
    for schedule in ("zb-v", "interleaved", "dualpipe"):
        for rank in (0, 1):
            log = folder / f"{schedule}{rank}.jsonl"
            train("--pipeline-schedule", schedule, "--plant-fault", f"nan:0.{rank}@2",
                  "--on-nonfinite", "skip", "--log-file", log)
            seen = digests(log)
            if not (seen[1] == seen[2] != seen[3]):
                raise AssertionError(f"{schedule}, rank {rank}: {seen}")


def check_refused(folder):
    """Exit code 2 and one helpful error, before any worker starts."""
    def file(name, text):
        (folder / name).write_text(text)
        return folder / name

    rows = ",".join(f"0F{m},0B{m}" for m in range(8))
    cases = [
        (["zb-h3"], "there is no such schedule"),
        (["none.csv"], "none.csv"),
        (["none.lua"], "none.lua"),
        ([file("bad.csv", "0F0,0X0\n1F0,1B0\n")], "0X0"),
        ([file("few.csv", "0F0,0B0\n1F0,1B0\n")], "1 micro-batches, but a step has 8"),
        ([file("one.csv", rows + "\n")], "has 1 row"),
        ([file("way.csv", ",".join(f"0F{m}" for m in range(8)) + "\n"
               + ",".join(f"1F{m}" for m in range(8)) + "\n")], "no backward pass"),
        ([file("lost.csv", rows + "\n" + rows.replace("0F", "1F").replace("0B", "1B")[:-4] + "\n")], "micro-batch 7"),
        ([file("syntax.lua", "function plan(\n")], "syntax.lua:"),
        ([file("fails.lua", "function plan(rank)\n  return nothing.at_all\nend\n")], "fails.lua:2"),
        ([file("stuck.lua", "function next(state)\n  if state.rank == 0 then return state.ready[1] end\nend\n")],
         "rank 1"),
        (["dualpipe", "--global-batch-size", 3], "even"),
        (["interleaved", "--num-virtual-stages-per-pipeline-rank", 3], "8"),
        (["1f1b", "--num-virtual-stages-per-pipeline-rank", 2], "1f1b"),
        (["auto", "--pipeline-memory-limit", 0.1], "0.1"),
        (["auto", "--pipeline-times", "1,x,1"], "--pipeline-times"),
        (["dualpipe", "--overlap-grad-reduce"], "--overlap-grad-reduce"),
        ([file("ok.csv", rows + "\n" + rows.replace("0F", "1F").replace("0B", "1B") + "\n"),
          "--pipeline-memory-limit", 2], "--pipeline-memory-limit"),
    ]
    for words, text in cases:
        done = train("--pipeline-schedule", *words, "--save", folder / "save", code=2)
        if text not in done.stderr or done.stderr.count("error:") != 1:
            raise wrong(f"expected one error with '{text}'", done)
        if (folder / "save").exists():
            raise wrong("a refused run created its folder", done)


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items())
          if name.startswith("check_")}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in CHECKS:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        CHECKS[sys.argv[2]](pathlib.Path(scratch))
