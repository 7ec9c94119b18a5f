"""What a machine with a GPU is to show, after the programs are there: called by gpu.sh.

    gpu_run.py --bin FOLDER --out FOLDER [--part 1|2] [--peer FILE] [--smoke] [--seconds N]

Part 1: doctor, the tests of kernels on the device, every operation's speed, losses against the CPU,
compute-sanitizer. Part 2: training steps against PyTorch, two stages on one GPU against one. Every
command has a limit of its own and the whole has one; what fails or does not fit in is said, and the
rest goes on. Full logs lie in the folder --out; the table is printed last. Only Python's standard library
is used; the peer is a script that trains the same models with PyTorch and prints one JSON object.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

# What is compared, with GPT-2's or Llama's layers. Vocabulary: one less, and the end of a document.
MODELS = {
    "gpt2": dict(layers=[12], hidden=768, heads=12, T=1024, vocab=50304, batches=[16, 32]),
    "1.3b": dict(layers=[24], hidden=2048, heads=16, T=2048, vocab=50304, batches=[4]),
    "llama": dict(layers=[20, 16, 12], hidden=4096, heads=32, groups=8, ffn=14336, T=4096, vocab=128256, batches=[1]),
}
SMOKE = {
    "gpt2": dict(layers=[2], hidden=32, heads=2, T=16, vocab=96, batches=[2, 4]),
    "llama": dict(layers=[2], hidden=32, heads=4, groups=2, ffn=48, T=16, vocab=96, batches=[2]),
}


class bench:
    def __init__(self, o):
        self.o = o
        self.bin = pathlib.Path(o.bin).resolve()
        self.out = pathlib.Path(o.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.ends = time.monotonic() + o.seconds
        self.steps, self.dropped = (5, 2) if o.smoke else (14, 4)
        self.rows = []
        self.failed = 0

    def row(self, what, value, goal="", ok=None, must=False):
        """ok: whether the goal is reached; None: there is none, or it says nothing here. must: of what is right or
        wrong, not fast or slow: a miss is a failure."""
        self.failed += must and ok is False
        self.rows.append((what, value, goal, "" if ok is None else "yes" if ok else "NO"))
        print(f"  {what}: {value}", flush=True)

    def left_out(self, what, why):
        self.rows.append((what, "left out", why, ""))
        print(f"  {what}: left out, {why}", flush=True)

    def run(self, name, words, limit, env=None, ok=(0,)):
        """Standard output and error of a command, or None where it failed. Its log is kept."""
        left = self.ends - time.monotonic()
        if left < 5:
            self.left_out(name, "no time is left")
            return None
        began = time.monotonic()
        with open(self.out / f"{name}.log", "w") as log:
            child = subprocess.Popen([str(x) for x in words], stdout=log, stderr=subprocess.STDOUT, text=True,
                                     start_new_session=True, env={**os.environ, **self.libraries(words), **(env or {})})
            try:
                code = child.wait(min(limit, left))
            except subprocess.TimeoutExpired:
                code = None
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        text = (self.out / f"{name}.log").read_text(errors="replace")
        seconds = time.monotonic() - began
        print(f"[{name}] {'stopped at its limit' if code is None else f'exit code {code}'} after {seconds:.0f} s", flush=True)
        if code in ok:
            return text
        self.failed += 1
        last = [x for x in text.strip().splitlines() if x.strip()][-1:] or ["it said nothing"]
        why = f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}: {last[0][:90]}"
        self.rows.append((name, "FAILED", why, "NO"))
        return None

    def libraries(self, words):
        """For our programs alone: Python and PyTorch have their own."""
        ours = any(str(x).startswith(str(self.bin)) for x in words[:6])
        return {"LD_LIBRARY_PATH": self.o.libraries} if ours and self.o.libraries else {}

    def table(self):
        widths = [max([len(r[i]) for r in self.rows] + [4]) for i in range(3)]
        lines = ["", f"{'what':{widths[0]}}  {'value':{widths[1]}}  {'goal or reason':{widths[2]}}  reached"]
        lines += [f"{a:{widths[0]}}  {b:{widths[1]}}  {c:{widths[2]}}  {d}" for a, b, c, d in self.rows]
        text = "\n".join(x.rstrip() for x in lines)
        (self.out / f"table.{self.o.part}.txt").write_text(text + "\n")
        print(text, flush=True)


def device_words(b, *more):
    """Flags of a run on the GPU. A smoke test of a build without them runs on processors."""
    if b.o.smoke and not trains_on_devices(b):
        return ["--backend", "cpu", "--threads-per-worker", 1]
    return ["--backend", "cuda", "--product-choices", b.out / "products.json", *more]


def cannot_train(b, what):
    if b.o.smoke or trains_on_devices(b):
        return False
    b.left_out(what, "this build trains on processors only")
    return True


def trains_on_devices(b):
    words = [b.bin / "troupe", "train", "gpt", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **b.libraries(words)})
    at = done.stdout.find("--backend")
    return at >= 0 and "cuda" in done.stdout[at:at + 500]


def doctor(b):
    text = b.run("doctor", [b.bin / "troupe", "doctor", "--json"], 60)
    if text is None:
        return
    found = json.loads(text)["gpu"]
    for x in found.get("seen", []):
        b.row(f"device {x['number']}", f"{x['name']}, {x['compute_capability']}, {x['memory'] / 2**30:.0f} GiB")
    if found.get("cuda"):
        b.row("CUDA", f"driver {found['cuda']['driver']}, plug-in {found['cuda']['runtime']}")
    b.row("libraries", ", ".join(p["library"] for p in found["plugins"].values() if p["library"]) or "none")
    b.row("attention", found["attention"] or "none")


def kernel_tests(b):
    program = b.bin / "test_kernels_device"
    if b.o.smoke or not program.exists():
        return b.left_out("tests of kernels", "not built here")
    text = b.run("test_kernels_device", [program, "~[emulated]"], 120, ok=(0, 77))
    if text is not None:
        b.row("tests of kernels", text.strip().splitlines()[-1][:80], "all pass", "SKIPPED" not in text)


def operations(b):
    smoke = ["--smoke"] if b.o.smoke else []
    text = b.run("bench_gpu", [b.bin / "bench_gpu", *smoke, "--json", b.out / "bench_gpu.json"], 200)
    b.run("bench_gpu_own", [b.bin / "bench_gpu", *smoke, "--only", "attention", "--json", b.out / "bench_gpu_own.json"], 60,
          env={"TROUPE_ATTENTION": "own"})
    if text is None:
        return
    found = json.loads((b.out / "bench_gpu.json").read_text())
    b.row("copy bandwidth", f"{found['copy_bytes_per_second'] / 1e9:.0f} GB/s")
    b.row("bf16 products of 8192", f"{found['matrix_flops_per_second'] / 1e12:.0f} TFLOP/s")
    bound = [x for x in found["lines"] if x["bound"] == "memory" and not x["failure"]]
    slow = sorted((x for x in bound if x["share"] < 0.8), key=lambda x: x["share"])
    b.row("memory-bound operations", f"{len(bound) - len(slow)} of {len(bound)} at 80 % of the copy", "all",
          None if b.o.smoke else not slow)
    for x in [] if b.o.smoke else slow[:8]:
        b.row(f"  {x['operation']} {x['model']}", f"{100 * x['share']:.0f} %", "80 %", False)
    for x in found["lines"]:
        if x["operation"].startswith("attention") and not x["failure"]:
            b.row(f"{x['operation']} {x['model']}", f"{100 * x['share']:.0f} % of the matrix rate")


def sanitizer(b):
    program = b.bin / "test_kernels_device"
    if b.o.smoke or not program.exists() or not shutil.which("compute-sanitizer"):
        return b.left_out("compute-sanitizer", "not built here, or no compute-sanitizer")
    for tool in ["memcheck", "racecheck"]:
        text = b.run(f"sanitizer_{tool}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", program,
                                           "~[emulated]", "--abort"], 60)
        if text is not None:
            b.row(f"compute-sanitizer {tool}", "no errors", "no errors", True)


def words_of(model, m, layers, batch, steps, more=()):
    words = ["train", "gpt", "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", m["vocab"] - 1,
             "--make-vocab-size-divisible-by", 1, "--num-layers", layers, "--hidden-size", m["hidden"],
             "--num-attention-heads", m["heads"], "--seq-length", m["T"], "--max-position-embeddings", m["T"],
             "--hidden-dropout", 0, "--attention-dropout", 0, "--micro-batch-size", batch, "--train-iters", steps,
             "--lr", 3e-4, "--weight-decay", 0.1, "--clip-grad", 1.0, "--eval-iters", 0, "--log-interval", 1, "--no-progress"]
    if model == "llama":
        words += ["--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope", "--disable-bias-linear",
                  "--untie-embeddings-and-output-weights", "--group-query-attention", "--num-query-groups", m["groups"],
                  "--ffn-hidden-size", m["ffn"]]
    return [*words, *more]


def train(b, name, model, m, layers, batch, steps, limit, more=()):
    """The log of a run, a list of steps, with the most memory that a worker took; or None."""
    log = b.out / f"{name}.jsonl"
    words = words_of(model, m, layers, batch, steps, more)
    if "--global-batch-size" not in words:
        words += ["--global-batch-size", batch]
    text = b.run(name, [b.bin / "troupe", *words, "--log-file", log], limit)
    if text is None:
        return None
    lines = [x for x in map(json.loads, log.read_text().splitlines()) if "lm_loss" in x]
    peak = re.search(r"memory of a worker: at most ([0-9.]+) (\w+)", text)
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return dict(lines=lines, peak=float(peak[1]) * scale.get(peak[2], 0) if peak else 0)


def tokens_per_second(b, run):
    return statistics.median(x["tokens_per_second"] for x in run["lines"][b.dropped:])


def losses(b):
    """The GPT of the first issue: on the GPU as on the CPU, and twice alike."""
    if cannot_train(b, "losses"):
        return
    m = dict(hidden=384, heads=6, T=256, vocab=65)
    layers, batch, steps = 6, 12, 100
    if b.o.smoke:
        m, layers, batch, steps = dict(hidden=32, heads=2, T=16, vocab=65), 2, 2, 6
    gpu = device_words(b)
    cpu = ["--backend", "cpu", "--threads-per-worker", min(os.cpu_count() or 1, 16)]
    runs = {name: train(b, f"loss_{name}", "gpt2", m, layers, batch, steps, limit, more) for name, more, limit in [
        ("cpu", cpu, 150), ("gpu", gpu, 60), ("again", gpu, 60), ("bf16", [*gpu, "--bf16"], 60),
        ("bf16_again", [*gpu, "--bf16"], 60)]}

    def far(a, c, n):
        return max(abs(x["lm_loss"] - y["lm_loss"]) / abs(x["lm_loss"]) for x, y in zip(runs[a]["lines"][:n], runs[c]["lines"][:n]))

    if runs["cpu"] and runs["gpu"]:
        for n, goal in [(20, 1e-4), (100, 1e-3)]:
            b.row(f"fp32 loss, {min(n, steps)} steps, GPU from CPU", f"{far('cpu', 'gpu', n):.1e}", f"{goal:.0e}", far("cpu", "gpu", n) <= goal,
                  must=True)
    if runs["cpu"] and runs["bf16"]:
        b.row(f"bf16 loss, {steps} steps, GPU from fp32 CPU", f"{far('cpu', 'bf16', steps):.1e}", "1e-02",
              far("cpu", "bf16", steps) <= 1e-2, must=True)
    for a, c in [("gpu", "again"), ("bf16", "bf16_again")]:
        if runs[a] and runs[c]:
            same = [x["state_digest"] == y["state_digest"] for x, y in zip(runs[a]["lines"], runs[c]["lines"])]
            b.row(f"digests of two runs, {a}", f"{sum(same)} of {len(same)} alike", "all",
                  all(same) and len(same) == steps, must=True)


def peer(b, name, model, m, layers, batch, limit, compiled):
    if not b.o.peer:
        return None
    words = [sys.executable, b.o.peer, "--layers", layers, "--hidden", m["hidden"], "--heads", m["heads"], "--seq", m["T"],
             "--vocab", m["vocab"], "--batch", batch, "--dtype", "bf16", "--attention", "flash", "--steps", b.steps,
             "--device", "cpu" if b.o.smoke else "cuda"]
    if model == "llama":
        words += ["--llama", "--kv-heads", m["groups"], "--ffn", m["ffn"]]
    text = b.run(name, words + (["--compile"] if compiled else []), limit)
    return None if text is None else json.loads(text.strip().splitlines()[-1])


def flops_per_token(model, m, layers):
    """As the peer counts: 6 for each parameter that multiplies, causal attention half."""
    D = m["hidden"] // m["heads"]
    groups, ffn = m.get("groups", m["heads"]), m.get("ffn", 4 * m["hidden"])
    layer = m["hidden"] * (m["heads"] + 2 * groups) * D + m["hidden"] ** 2 + m["hidden"] * ffn * (3 if model == "llama" else 2)
    return 6 * (layers * layer + m["vocab"] * m["hidden"]) + 6 * layers * m["T"] * m["hidden"]


def ceilings(b):
    """Of bf16 products in FLOP/s, of copies within the device in bytes/s; 0 where they failed."""
    file = b.out / "ceilings.json"
    smoke = ["--smoke"] if b.o.smoke else []
    if b.run("ceilings", [b.bin / "bench_gpu", *smoke, "--ceilings", "--json", file], 60) is None:
        return 0, 0
    found = json.loads(file.read_text())
    rate, copy = found["matrix_flops_per_second"], found["copy_bytes_per_second"]
    b.row("bf16 products of 8192", f"{rate / 1e12:.0f} TFLOP/s")
    return rate, copy


def one_model(b, model, m, rate, copy):
    big = model != "gpt2"
    for layers in m["layers"]:
        best = None
        for batch in m["batches"]:
            name = f"{model}_{layers}x{batch}"
            mine = train(b, name, model, m, layers, batch, b.steps, 90 if big else 45,
                         [*device_words(b), "--bf16"])
            if mine is None:
                continue
            rates = {"troupe": tokens_per_second(b, mine)}
            peaks = {"troupe": mine["peak"]}
            for compiled in [False] if b.o.smoke else [False, True]:
                kind = "compile" if compiled else "eager"
                theirs = peer(b, f"{name}_{kind}", model, m, layers, batch, 90 if big else 60, compiled)
                if theirs:
                    rates[kind], peaks[kind] = theirs["tokens_per_second"], theirs["peak_bytes"]
            best = dict(layers=layers, batch=batch, rates=rates, peaks=peaks)
            tell(b, model, m, best, rate)
        if best:
            return profile(b, model, m, best["layers"], best["batch"], rate, copy)


def tell(b, model, m, x, rate):
    name = f"{model}, {x['layers']} layers, T {m['T']}, batch {x['batch']}"
    rates, judged = x["rates"], not b.o.smoke
    b.row(f"{name}: tokens/s", ", ".join(f"{k} {v:.0f}" for k, v in rates.items()))
    others = {k: v for k, v in rates.items() if k != "troupe"}
    if others:
        ratio = rates["troupe"] / max(others.values())
        b.row(f"{name}: of the best PyTorch", f"{ratio:.2f}", "1.15", ratio >= 1.15 if judged else None)
        least = min(x["peaks"][k] for k in others)
        b.row(f"{name}: memory", ", ".join(f"{k} {v / 2**30:.1f}" for k, v in x["peaks"].items()) + " GiB", "no more than PyTorch's",
              x["peaks"]["troupe"] <= least if judged else None)
    if rate:
        mfu = {k: v * flops_per_token(model, m, x["layers"]) / rate for k, v in rates.items()}
        b.row(f"{name}: MFU of the measured rate", ", ".join(f"{k} {100 * v:.0f} %" for k, v in mfu.items()),
              "55 %" if model != "gpt2" else "", mfu["troupe"] >= 0.55 if judged and model != "gpt2" else None)


def profile(b, model, m, layers, batch, rate, copy):
    """Where the time of a step is left: the longest operations, beside what the device can do."""
    file = b.out / f"profile_{model}.json"
    name = f"{model}_profile"
    if train(b, name, model, m, layers, batch, b.steps, 90, [*device_words(b), "--bf16", "--profile-operations", file]) is None:
        return
    found = json.loads(file.read_text())
    for x in found["operations"][:8]:
        seconds = x["ms_per_step"] / 1e3
        flops, moved = (x[k] * x["calls_per_step"] / seconds for k in ["flops", "bytes"])
        compute = rate and flops / rate > (moved / copy if copy else 0)
        of = f"{100 * flops / rate:.0f} % of the matrix rate" if compute else f"{100 * moved / copy:.0f} % of the copy" if copy else ""
        sizes = " x ".join(map(str, x["extents"])) if any(x["extents"]) else ""
        b.row(f"profile of {model}: {x['name']} {sizes}".rstrip(), f"{100 * x['ms_per_step'] / found['step_ms']:.1f} % of a step, {of}")
    b.row(f"profile of {model}: between operations", f"{100 * found['between_ms'] / found['step_ms']:.1f} % of a step")


def stages(b, m):
    """The same batch of 8 micro-batches by one stage, and by two that share the GPU."""
    batch = m["batches"][0]
    common = [*device_words(b, "--devices", 0), "--bf16", "--global-batch-size", (2 if b.o.smoke else 8) * batch]
    rates = {}
    for n in [1, 2]:
        run = train(b, f"stages_{n}", "gpt2", m, m["layers"][0], batch, b.steps, 60, [*common, "--pipeline-model-parallel-size", n])
        if run is None:
            return
        rates[n] = tokens_per_second(b, run)
    ratio = rates[2] / rates[1]
    b.row("two stages on one GPU, of one", f"{ratio:.3f}", "0.97", None if b.o.smoke else ratio >= 0.97)


def steps(b):
    if cannot_train(b, "training steps"):
        return
    if not b.o.peer:
        b.left_out("PyTorch", "no --peer was given")
    rate, copy = ceilings(b)
    models = SMOKE if b.o.smoke else MODELS
    for model, m in models.items():
        one_model(b, model, m, rate, copy)
    stages(b, models["gpt2"])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--part", type=int, choices=[1, 2])
    a.add_argument("--peer", default="")
    a.add_argument("--libraries", default="", help="LD_LIBRARY_PATH of our programs")
    a.add_argument("--seconds", type=int, default=540)
    a.add_argument("--smoke", action="store_true")
    o = a.parse_args()
    parts = [o.part] if o.part else [1, 2]
    failed = 0
    if o.smoke:  # algorithms of products that an earlier emulator had
        (pathlib.Path(o.out) / "products.json").unlink(missing_ok=True)
    for o.part in parts:
        b = bench(o)
        for part in [doctor, kernel_tests, operations, losses, sanitizer] if o.part == 1 else [doctor, steps]:
            try:
                part(b)
            except Exception as e:  # the rest is to be measured all the same
                b.failed += 1
                b.rows.append((part.__name__, "FAILED", f"{type(e).__name__}: {e}"[:100], "NO"))
        b.table()
        # Of tiny models times say nothing, and so no goal of theirs is in the table.
        failed += b.failed + (sum(r[3] == "NO" for r in b.rows) if o.smoke else 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
