"""Measures troupe on a machine with a GPU and compares it with PyTorch. gpu.sh calls it; PARTS lists what it does.

Every command has a limit, every part has one, and --seconds limits all of them together. A command that fails or has no
time becomes a row, and the rest goes on. Needs only Python's standard library; --peer is a script that trains the same
models with PyTorch and prints one JSON object.
"""

import argparse
import json
import math
import os
import re
import shutil
import signal
import sys
import time

from gpu_models import (ceilings, device_words, kinds_of_peer, models_of, one_model, peer_words, told_by_peer,
                        tokens_per_second, train, why_not)
from gpu_session import guarded, objects, session


def machine(b):
    text = b.run("machine", ["sh", "-c", "nvidia-smi || true; nproc; head -3 /proc/meminfo; df -h / /dev/shm; uname -a"], 20)
    total = re.search(r"MemTotal: *(\d+)", text or "")
    b.row("machine", f"{os.cpu_count()} processors, {int(total[1]) / 2**20 if total else 0:.0f} GiB")
    commit = b.bin / "commit"  # gpu_carry.sh wrote it.
    b.row("programs", f"carried, of commit {commit.read_text().strip()}" if commit.exists() else "built here")


def said_by_doctor(b):
    return next((x["gpu"] for x in objects(b.log("doctor")) if "gpu" in x), None)


def seen_devices(b):
    return (said_by_doctor(b) or {}).get("seen", [])


def doctor(b):
    if b.run("doctor", [b.bin / "troupe", "doctor", "--json"], 60, ok=(0, 2)) is None:
        return
    found = said_by_doctor(b)
    if found is None:
        return b.failure("doctor", "no JSON in its output")
    for x in found.get("seen", []):
        b.row(f"device {x['number']}", f"{x['name']}, {x['compute_capability']}, {x['memory'] / 2**30:.0f} GiB")
    if found.get("cuda"):
        b.row("CUDA", f"driver {found['cuda']['driver']}, plug-in {found['cuda']['runtime']}")
    b.row("libraries", ", ".join(p["library"] for p in found["plugins"].values() if p["library"]) or "none")
    b.row("attention", found["attention"] or "none")


def program_of_tests(b):
    program = b.bin / "test_kernels_device"
    if b.o.smoke:
        return b.left_out("tests of kernels", "CTest runs them on the emulated device")
    return program if program.exists() else b.failure("tests of kernels", f"there is no {program}")


def begin_kernel_tests(b):
    program = program_of_tests(b)
    return program and b.begin("test_kernels_device", [program, "~[emulated]", "--durations", "yes"], 150)


def failed_tests(log):
    """The cases that failed, in order, and how. Catch2 writes a case's name between two rules, above its messages; a case
    that is skipped or warns has such a title, too."""
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
    cases = list(failed_tests(b.log("test_kernels_device")).items()) if command else []
    for name, how in cases[:12]:
        b.row(f"  {name[:90]}", how, "passes", False)
    if cases[12:]:
        b.row(f"  and {len(cases) - 12} more", "fail", "pass", False)


def kernel_tests(b):
    end_kernel_tests(b, begin_kernel_tests(b))


def operations(b):
    program = [b.bin / "bench_gpu", *(["--smoke"] if b.o.smoke else [])]
    file = b.out / "bench_gpu.json"
    b.run("bench_gpu", [*program, "--json", file], 200)
    if file.exists():
        tell_operations(b, json.loads(file.read_text()))
    b.run("bench_gpu_own", [*program, "--only", "attention", "--json", b.out / "bench_gpu_own.json"], 60, env={"TROUPE_ATTENTION": "own"})


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


def slow_but_clean(text, code):
    """The sanitizer is slow: being stopped is no failure if it reported no error so far."""
    if code is None and not re.search(r"^========= (?!COMPUTE-SANITIZER)", text, re.MULTILINE):
        return f"stopped; tests without an error: {len(re.findall(r'^[0-9.]+ s: ', text, re.MULTILINE))}"


def sanitizer(b):
    if not shutil.which("compute-sanitizer"):
        return b.left_out("compute-sanitizer", "it is not on the path")
    program = program_of_tests(b)
    for tool in ["memcheck", "racecheck"] if program else []:
        # Reported API errors and products are cuBLAS's own.
        text = b.run(f"sanitizer_{tool}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no",
                                           program, "~[emulated]~[linear]~[products]", "--durations", "yes"], 200, excuse=slow_but_clean)
        if text is not None:
            b.row(f"compute-sanitizer {tool}", "no errors", "no errors", True)


def far(a, c, n):
    """The largest relative difference of losses over the first n steps."""
    return max(abs(x["lm_loss"] - y["lm_loss"]) / abs(x["lm_loss"]) for x, y in zip(a["lines"][:n], c["lines"][:n]))


def tell_digests(b, name, one, two, steps):
    same = [x["state_digest"] == y["state_digest"] for x, y in zip(one["lines"], two["lines"])]
    b.row(f"digests of two runs, {name}", f"{sum(same)} of {len(same)} equal", "all", all(same) and len(same) == steps, must=True)


def losses(b):
    """The small GPT on the GPU against the CPU, and two runs against each other."""
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
    """Trains n steps; the first loss must be that of random weights."""
    m = models_of(b)[model]
    words = [model, m, layers or m["layers"][-1], m["batches"][0], n, 60, [*device_words(b), "--bf16", *more]]
    run = train(b, name, *words, env)
    if run is None:
        # A later operation often reports a kernel's failure. With blocking launches the kernel itself does. Once is enough.
        if b.codes.get(name) is not None and not any(x.endswith("one_by_one") for x in b.codes):
            if train(b, f"{name}_one_by_one", *words, {**(env or {}), "CUDA_LAUNCH_BLOCKING": "1"}):
                b.row(f"{name}: one kernel at a time", "trains: the failure depends on order", "trains either way", False)
        return None
    found = [x["lm_loss"] for x in run["lines"]]
    # Logits have the variance hidden x 0.02^2; the logarithm of their sum grows by half of it.
    first = math.log(m["vocab"]) + m["hidden"] * 2e-4
    b.row(f"{name}: loss", ", ".join(f"{x:.3f}" for x in found), f"{first:.1f} at first",
          len(found) == n and abs(found[0] - first) < 0.5, must=True)
    if run["peak"]:
        b.row(f"{name}: peak memory", f"{run['peak'] / 2**30:.1f} GiB")
    return run


def by_each_attention(b, n=3):
    """Trains GPT-2 twice by our attention on tensor cores and twice by cuDNN's: equal digests each, near losses of both."""
    found = {}
    for by, env in [("own", {"TROUPE_ATTENTION": "own"}), ("cudnn", {"TROUPE_ATTENTION": "" if b.o.smoke else "cudnn"})]:
        found[by] = guarded(b, few_steps, f"quick_gpt2_{by}", "gpt2", n=n, env=env)
        again = guarded(b, few_steps, f"quick_gpt2_{by}_again", "gpt2", n=n, env=env) if found[by] else None
        if again:
            tell_digests(b, f"gpt2, {by}", found[by], again, n)
    if all(found.values()):
        value = far(found["own"], found["cudnn"], n)
        b.row("loss by cuDNN's attention, from ours", f"{value:.1e}", "1e-02", value <= 1e-2, must=True)


def quick_speed(b):
    """Chooses the algorithms of products anew, as nothing else runs now."""
    m = models_of(b)["gpt2"]
    run = train(b, "quick_speed", "gpt2", m, m["layers"][-1], m["batches"][0], b.steps, 40,
                [*device_words(b, choices="products_alone.json"), "--bf16"])
    if run:
        b.row("quick_speed: tokens/s of gpt2", f"{tokens_per_second(b, run):.0f}")


def peers_run(b):
    """Runs one layer of PyTorch compiled and by cuDNN's attention at once: together they need all that the peer needs."""
    m, kinds = models_of(b)["gpt2"], kinds_of_peer(b)
    commands = {kind: b.begin(f"peer_{kind}", peer_words(b, "gpt2", m, 1, m["batches"][0], 5, kind), 100)
                for kind in kinds if kind in ("compile", "eager_cudnn") or len(kinds) == 1}
    for kind, command in commands.items():
        text = b.end(command, excuse=why_not(kind))
        said = told_by_peer(text)
        if said:
            b.row(f"peer, one layer, {kind}", f"runs, PyTorch {said.get('torch', 'of unknown version')}")
        elif text is not None:
            b.failure(f"peer, one layer, {kind}", "no JSON with tokens_per_second in its output")


def quick(b):
    """Runs everything once, correctness before speed. Kernel tests run beside the first losses; what is timed runs alone."""
    guarded(b, machine)
    guarded(b, doctor)
    tests = guarded(b, begin_kernel_tests)
    guarded(b, by_each_attention)
    guarded(b, few_steps, "quick_1.3b", "1.3b")
    guarded(b, few_steps, "quick_llama", "llama", layers=2 if b.o.smoke else 4)
    guarded(b, few_steps, "quick_two_stages", "gpt2",
            more=["--devices", 0, "--global-batch-size", 2 * models_of(b)["gpt2"]["batches"][0], "--pipeline-model-parallel-size", 2])
    guarded(b, end_kernel_tests, tests)
    guarded(b, ceilings)
    guarded(b, quick_speed)
    guarded(b, peers_run)


def in_processes(b, name, devices, layout, processes, more=()):
    """Trains GPT-2 in one process and in several, with each kind of collectives; equal digests, also after a death."""
    m, n = models_of(b)["gpt2"], b.steps
    batch = m["batches"][0]
    words = ["--backend", "cuda", "--product-choices", "none", "--bf16", "--devices", ",".join(map(str, devices)),
             "--global-batch-size", 8 * batch, *layout]
    runs = {}
    for kind, flags in [("alone", []), *((by, ["--processes", processes, "--collectives", by]) for by in ["local", *more]),
                        ("killed", ["--processes", processes, "--plant-death", "lane:0.0@4:forward:kill"])]:
        run = runs[kind] = train(b, f"{name}_{kind}", "gpt2", m, m["layers"][-1], batch, n, 60, [*words, *flags])
        if run and runs["alone"] and kind != "alone":
            tell_digests(b, f"{name}, {kind}", runs["alone"], run, n)
        if run and kind != "killed":
            b.row(f"{name}, {kind}: tokens/s", f"{tokens_per_second(b, run):.0f}")


def processes(b):
    """Two processes share one GPU; where there are several GPUs, each gets a process."""
    for name, layout in [("two_replicas", []), ("two_stages", ["--pipeline-model-parallel-size", 2])]:
        guarded(b, in_processes, name, [0], ["--world-size", 2, *layout], 2)
    count = len(seen_devices(b))
    if count < 2:
        return b.left_out("several GPUs", "there is one")
    guarded(b, in_processes, "each_gpu", range(count), ["--world-size", count], count, ["nccl"])


def steps(b):
    one_model(b, b.part)


# The steps of each part and its limit in seconds.
PARTS = {
    "quick": ([quick], 240),
    "losses": ([doctor, losses], 300),
    "gpt2": ([doctor, steps], 400),
    "1.3b": ([doctor, steps], 400),
    "llama": ([doctor, steps], 560),
    "kernels": ([doctor, kernel_tests, operations], 420),
    "sanitizer": ([sanitizer], 410),
    "processes": ([doctor, processes], 420),
}
SMOKE_PARTS = ["quick", "losses", "gpt2", "llama", "kernels"]


def parts_of(text):
    found = text.split(",")
    for x in found:
        if x not in PARTS:
            raise argparse.ArgumentTypeError(f"'{x}' is none of {', '.join(PARTS)}")
    return found


def measure(o, part, ends):
    """Runs one part and returns the number of failures. The smoke run has no goals of speed, so a missed goal is one."""
    pieces, seconds = PARTS[part]
    b = session(o, part, min(ends, time.monotonic() + (300 if o.smoke else seconds)))
    try:
        for piece in pieces:
            guarded(b, piece)
    finally:
        b.close()
    return sum(r[3] == "NO" for r in b.rows) if o.smoke else b.failed


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--part", type=parts_of)
    a.add_argument("--peer", default="")
    a.add_argument("--peer-python", default=sys.executable, help="the Python with the newest PyTorch")
    a.add_argument("--save", default="")
    a.add_argument("--libraries", default="", help="LD_LIBRARY_PATH of our programs")
    a.add_argument("--seconds", type=int, default=86400)
    a.add_argument("--smoke", action="store_true")
    o = a.parse_args()
    ends = time.monotonic() + o.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Runs close(), which saves the logs.
    return 1 if sum(measure(o, part, ends) for part in o.part or (SMOKE_PARTS if o.smoke else PARTS)) else 0


if __name__ == "__main__":
    sys.exit(main())
