"""What a machine with a GPU is to show, after the programs are there: called by gpu.sh.

    gpu_run.py --bin FOLDER --out FOLDER [--part PART,...] [--peer FILE] [--peer-python FILE] [--save FOLDER]
               [--libraries PATH] [--smoke] [--seconds N]

quick       whether all of it works: first what is right or wrong (doctor, tests of kernels, first losses of every
            model and digests of two runs, by cuDNN's attention and by ours), then what is fast or slow, then the peer
losses      against the CPU, and two runs alike
gpt2, 1.3b, llama    training steps against PyTorch; with gpt2 two stages on one GPU against one
kernels     the tests with nothing beside them, every operation's speed
sanitizer   compute-sanitizer on the tests of our own kernels

Every command has a limit of its own, every part has one, and --seconds is the most that all of them take; what
fails or does not fit in is said, and the rest goes on. Logs, and the table as it grows, lie in --out
below the part's name; --save FOLDER is given one archive and the table of each part after each command.
Only Python's standard library is used; the peer is a script that trains the same models with PyTorch and
prints one JSON object.
"""

import argparse
import functools
import json
import math
import os
import re
import shutil
import signal
import sys
import time

from gpu_models import (ceilings, device_words, kinds_of_peer, models_of, one_model, peer_words, told_by_peer,
                        tokens_per_second, train, trains_on_devices, why_not)
from gpu_session import objects, session


def doctor(b):
    text = b.run("doctor", [b.bin / "troupe", "doctor", "--json"], 60, ok=(0, 2))
    if text is None:
        return
    found = next((x["gpu"] for x in objects(text) if "gpu" in x), None)
    if found is None:
        return b.failure("doctor", "there is no JSON in what it said")
    for x in found.get("seen", []):
        b.row(f"device {x['number']}", f"{x['name']}, {x['compute_capability']}, {x['memory'] / 2**30:.0f} GiB")
    if found.get("cuda"):
        b.row("CUDA", f"driver {found['cuda']['driver']}, plug-in {found['cuda']['runtime']}")
    b.row("libraries", ", ".join(p["library"] for p in found["plugins"].values() if p["library"]) or "none")
    b.row("attention", found["attention"] or "none")


def machine(b):
    """For later readers of the figures."""
    text = b.run("machine", ["sh", "-c", "nvidia-smi || true; nproc; head -3 /proc/meminfo; df -h / /dev/shm; uname -a"], 20)
    total = re.search(r"MemTotal: *(\d+)", text or "")
    b.row("machine", f"{os.cpu_count()} processors, {int(total[1]) / 2**20 if total else 0:.0f} GiB")


def carried(b):
    """What gpu_rebuild.py wrote of plug-ins that were built elsewhere: of which text they are, and why there are no tests."""
    file = b.bin / "kernels.txt"
    return dict(line.split(": ", 1) for line in file.read_text().splitlines()[:3]) if file.exists() else {}


def kernels(b):
    """Which kernels the figures of this part are of."""
    told = carried(b)
    if told:
        shutil.copy(b.bin / "kernels.txt", b.out)
    b.row("kernels", told.get("kernels", "of this build"), told.get("differs", ""), False if told.get("differs") else None)


def program_of_tests(b):
    """None, and a failure, where there is none; of another text than the sources it is run all the same."""
    if b.o.smoke:
        return b.left_out("tests of kernels", "on the emulated device CTest runs them")
    program, why = b.bin / "test_kernels_device", carried(b).get("tests")
    if why or not program.exists():
        b.failure("tests of kernels: of these sources", why or f"there is no {program}: build the target test_kernels_device")
    return program if program.exists() else None


def begin_kernel_tests(b, limit):
    program = program_of_tests(b)
    return program and b.begin("test_kernels_device", [program, "~[emulated]", "--durations", "yes"], limit)


def failed_tests(log):
    """The names of cases that failed, and how, in order. Catch2 writes the name between two rules, with sections below
    it, before whatever it has to say of a case: also of one that is skipped, or only warns."""
    _, *found = re.split(r"^-{79}\n(.+)(?:\n.+)*?\n-{79}$", log, flags=re.MULTILINE)
    cases = {}
    for name, said in zip(found[::2], found[1::2]):
        if "SIGTERM" in said:
            cases[name] = "was running when it was stopped"
        elif ": FAILED:" in said or "due to a fatal error" in said:
            cases.setdefault(name, "fails")
    return cases


def end_kernel_tests(b, command):
    text = b.end(command, ok=(0, 77))
    if text is not None:
        return b.row("tests of kernels", text.strip().splitlines()[-1][:80], "all pass", "SKIPPED" not in text, must=True)
    if command is None:
        return None
    log = b.log("test_kernels_device")
    cases = list(failed_tests(log).items())
    for name, how in cases[:12]:
        b.row(f"  {name[:90]}", how, "passes", False)
    if cases[12:]:
        b.row(f"  and {len(cases) - 12} more", "fail", "pass", False)
    if b.codes["test_kernels_device"] is None:
        ended = re.findall(r"^[0-9.]+ s: (.+)$", log, re.MULTILINE)
        b.row("tests of kernels: the last that ended", ended[-1][:90] if ended else "none")


def kernel_tests(b):
    end_kernel_tests(b, begin_kernel_tests(b, 150))


def operations(b):
    smoke = ["--smoke"] if b.o.smoke else []
    file = b.out / "bench_gpu.json"
    b.run("bench_gpu", [b.bin / "bench_gpu", *smoke, "--json", file], 200)
    if file.exists():
        tell_operations(b, json.loads(file.read_text()))
    b.run("bench_gpu_own", [b.bin / "bench_gpu", *smoke, "--only", "attention", "--json", b.out / "bench_gpu_own.json"], 60,
          env={"TROUPE_ATTENTION": "own"})


def tell_operations(b, found):
    b.row("copy bandwidth", f"{found['copy_bytes_per_second'] / 1e9:.0f} GB/s")
    b.row("bf16 products of 8192", f"{found['matrix_flops_per_second'] / 1e12:.0f} TFLOP/s")
    bound = [x for x in found["lines"] if x["bound"] == "memory" and not x["failure"]]
    slow = sorted((x for x in bound if x["share"] < 0.8), key=lambda x: x["share"])
    judged = found["complete"] and not b.o.smoke
    b.row("memory-bound operations", f"{len(bound) - len(slow)} of {len(bound)} at 80 % of the copy",
          "all" if found["complete"] else "all; it was stopped before its end", not slow if judged else None)
    for x in [] if b.o.smoke else slow[:8]:
        b.row(f"  {x['operation']} {x['model']}", f"{100 * x['share']:.0f} %", "80 %", False)
    for x in found["lines"]:
        if x["operation"].startswith("attention") and not x["failure"]:
            order = ", summed in any order" if x["shape"].endswith("any order") else ""
            b.row(f"{x['operation']} {x['model']}{order}", f"{100 * x['share']:.0f} % of the matrix rate")


def sanitizer(b):
    if not shutil.which("compute-sanitizer"):
        return b.left_out("compute-sanitizer", "it is not on the path")
    program = program_of_tests(b)
    if program is None:
        return

    def so_far(text, code):
        """Of a run that was stopped: it is slow, and what it has not come to says nothing."""
        if code is None and not re.search(r"^========= (?!COMPUTE-SANITIZER)", text, re.MULTILINE):
            return f"stopped; tests without an error: {len(re.findall(r'^[0-9.]+ s: ', text, re.MULTILINE))}"

    for tool in ["memcheck", "racecheck"]:
        # The libraries' own calls and kernels are not ours to judge.
        text = b.run(f"sanitizer_{tool}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no",
                                           program, "~[emulated]~[linear]~[products]", "--durations", "yes"], 200, excuse=so_far)
        if text is not None:
            b.row(f"compute-sanitizer {tool}", "no errors", "no errors", True)


def far(a, c, n):
    return max(abs(x["lm_loss"] - y["lm_loss"]) / abs(x["lm_loss"]) for x, y in zip(a["lines"][:n], c["lines"][:n]))


def tell_digests(b, name, one, two, steps):
    same = [x["state_digest"] == y["state_digest"] for x, y in zip(one["lines"], two["lines"])]
    b.row(f"digests of two runs, {name}", f"{sum(same)} of {len(same)} alike", "all", all(same) and len(same) == steps, must=True)


def losses(b):
    """The GPT of the first issue: on the GPU as on the CPU, and twice alike."""
    m = dict(hidden=384, heads=6, T=256, vocab=65)
    layers, batch, steps = 6, 12, 100
    if b.o.smoke:
        m, layers, batch, steps = dict(hidden=32, heads=2, T=16, vocab=65), 2, 2, 6
    gpu = device_words(b)
    cpu = ["--backend", "cpu", "--threads-per-worker", min(os.cpu_count() or 1, 16)]
    runs = {name: train(b, f"loss_{name}", "gpt2", m, layers, batch, steps, limit, more) for name, more, limit in [
        ("gpu", gpu, 60), ("cpu", cpu, 150), ("again", gpu, 60), ("bf16", [*gpu, "--bf16"], 60),
        ("bf16_again", [*gpu, "--bf16"], 60)]}
    for what, name, n, goal in [("fp32", "gpu", 20, 1e-4), ("fp32", "gpu", 100, 1e-3), ("bf16", "bf16", 100, 1e-2)]:
        n = min(n, steps)
        if all(runs[x] and len(runs[x]["lines"]) >= n for x in ["cpu", name]):
            value = far(runs["cpu"], runs[name], n)
            b.row(f"{what} loss, {n} steps, GPU from fp32 CPU", f"{value:.1e}", f"{goal:.0e}", value <= goal, must=True)
    for one, two in [("gpu", "again"), ("bf16", "bf16_again")]:
        if runs[one] and runs[two]:
            tell_digests(b, one, runs[one], runs[two], steps)


def few_steps(b, name, model, layers=None, n=2, more=(), env=None):
    """Whether it trains at all: the first loss is that of weights which know nothing."""
    m = models_of(b)[model]
    words = [model, m, layers or m["layers"][-1], m["batches"][0], n]
    flags = [*device_words(b), "--bf16", *more]
    # No speed is read off these runs, and one that is stuck is not to take the time of the others.
    run = train(b, name, *words, 60, flags, env)
    if run is None:
        # A kernel's failure is often noticed by a later operation: one at a time, by its own. Once, for
        # the others most likely fail alike.
        if b.codes.get(name) is not None and not any(x.endswith("one_by_one") for x in b.codes):
            if train(b, f"{name}_one_by_one", *words, 60, flags, {**(env or {}), "CUDA_LAUNCH_BLOCKING": "1"}):
                b.row(f"{name}: one kernel at a time", "trains: what fails depends on the order of things", "trains either way", False)
        return None
    found = [x["lm_loss"] for x in run["lines"]]
    # Logits have a variance of hidden x 0.02^2, half of which the logarithm of their sum gains.
    first = math.log(m["vocab"]) + m["hidden"] * 2e-4
    b.row(f"{name}: loss", ", ".join(f"{x:.3f}" for x in found), f"{first:.1f} at first",
          len(found) == n and abs(found[0] - first) < 0.5, must=True)
    if run["peak"]:
        b.row(f"{name}: peak memory", f"{run['peak'] / 2**30:.1f} GiB")
    return run


def by_each_attention(b, n=3):
    """GPT-2 twice by the library's attention and twice by ours on tensor cores: each alike, and both near each other."""
    found = {}
    for by, env in [("own", {"TROUPE_ATTENTION": "own"}), ("cudnn", {"TROUPE_ATTENTION": "" if b.o.smoke else "cudnn"})]:
        found[by] = guarded(b, few_steps, f"quick_gpt2_{by}", "gpt2", n=n, env=env)
        again = guarded(b, few_steps, f"quick_gpt2_{by}_again", "gpt2", n=n, env=env) if found[by] else None
        if again:
            tell_digests(b, f"gpt2, {by}", found[by], again, n)
    if all(found.values()):
        value = far(found["own"], found["cudnn"], n)
        b.row("loss by cuDNN's attention, from ours", f"{value:.1e}", "1e-02", value <= 1e-2, must=True)


def begin_peers(b):
    """One compiled, the other by cuDNN's attention: between them they touch all that the peer needs."""
    kinds = [x for x in kinds_of_peer(b) if x in ("compile", "eager_cudnn")] or kinds_of_peer(b)
    m = models_of(b)["gpt2"]
    return {kind: b.begin(f"peer_{kind}", peer_words(b, "gpt2", m, 1, m["batches"][0], 5, kind), 100) for kind in kinds}


def end_peers(b, commands):
    for kind, command in commands.items():
        text = b.end(command, excuse=why_not(kind))
        said = told_by_peer(text)
        if text is not None and said is None:
            b.failure(f"peer, one layer, {kind}", "there is no JSON with tokens_per_second in what it said")
        elif said:
            b.row(f"peer, one layer, {kind}", f"runs, PyTorch {said.get('torch', 'of no name')}")


def peers_run(b):
    end_peers(b, begin_peers(b))


def quick_speed(b):
    """With products that are chosen while nothing else runs."""
    m = models_of(b)["gpt2"]
    run = train(b, "quick_speed", "gpt2", m, m["layers"][-1], m["batches"][0], b.steps, 40,
                [*device_words(b, choices="products_alone.json"), "--bf16"])
    if run:
        b.row("quick_speed: tokens/s of gpt2", f"{tokens_per_second(b, run):.0f}")


def guarded(b, step, *words, **more):
    """What an exception ends is that step; the rest is to be measured all the same."""
    try:
        return step(b, *words, **more)
    except Exception as e:
        b.failure(" ".join([step.__name__, *(x for x in words if isinstance(x, str))]), f"{type(e).__name__}: {e}")


def quick(b):
    """Everything once, right before fast: where the time does not suffice, it is speed that is not known. The tests of
    kernels go on beside the first runs, and the peer's variants beside each other: of neither a time is told. What is
    timed has the machine to itself."""
    guarded(b, machine)
    guarded(b, doctor)
    tests = guarded(b, begin_kernel_tests, 150)
    guarded(b, by_each_attention)
    guarded(b, few_steps, "quick_1.3b", "1.3b")
    guarded(b, few_steps, "quick_llama", "llama", layers=2 if b.o.smoke else 4)
    guarded(b, few_steps, "quick_two_stages", "gpt2",
            more=["--devices", 0, "--global-batch-size", 2 * models_of(b)["gpt2"]["batches"][0], "--pipeline-model-parallel-size", 2])
    guarded(b, end_kernel_tests, tests)
    guarded(b, ceilings)
    guarded(b, quick_speed)
    guarded(b, peers_run)


def trainable(part):
    @functools.wraps(part)
    def run(b):
        if trains_on_devices(b):
            return part(b)
        b.left_out(b.part, "this build trains on processors only")
    return run


def steps(b):
    one_model(b, b.part)


# What each does, and the seconds that it may take. `quick` asks what is right or wrong before what is fast or slow; after
# it the order is free.
PARTS = {
    "quick": ([quick], 240),
    "losses": ([doctor, trainable(losses)], 300),
    **{model: ([doctor, trainable(steps)], seconds) for model, seconds in [("gpt2", 400), ("1.3b", 400), ("llama", 560)]},
    "kernels": ([doctor, kernel_tests, operations], 420),
    "sanitizer": ([sanitizer], 410),
}
# Tiny models: the third one differs from the others in its numbers alone.
SMOKE_PARTS = ["quick", "losses", "gpt2", "llama", "kernels"]


def parts_of(text):
    found = text.split(",")
    for x in found:
        if x not in PARTS:
            raise argparse.ArgumentTypeError(f"'{x}' is none of {', '.join(PARTS)}")
    return found


def measure(o, part, ends):
    """How many things failed."""
    pieces, seconds = PARTS[part]
    b = session(o, part, min(ends, time.monotonic() + (300 if o.smoke else seconds)))
    try:
        for piece in [kernels, *pieces]:
            guarded(b, piece)
    finally:
        b.close()
    # Of tiny models times say nothing, and so no goal of theirs is in the table.
    return b.failed + (sum(r[3] == "NO" for r in b.rows) if o.smoke else 0)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--part", type=parts_of)
    a.add_argument("--peer", default="")
    a.add_argument("--peer-python", default=sys.executable, help="the Python that has the newest PyTorch")
    a.add_argument("--save", default="")
    a.add_argument("--libraries", default="", help="LD_LIBRARY_PATH of our programs")
    a.add_argument("--seconds", type=int, default=86400)
    a.add_argument("--smoke", action="store_true")
    o = a.parse_args()
    ends = time.monotonic() + o.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of close()
    return 1 if sum(measure(o, part, ends) for part in o.part or (SMOKE_PARTS if o.smoke else PARTS)) else 0


if __name__ == "__main__":
    sys.exit(main())
