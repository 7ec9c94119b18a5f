"""Training steps of troupe and of PyTorch on the same models, and the comparison. gpu_run.py calls it."""

import json
import pathlib
import re
import statistics

from gpu_session import guarded, objects

# GPT-2's layers or Llama's. `layers`: the first count that fits both programs is compared. `limit`, `compile` and `eager`:
# seconds of one run of troupe, of compiled PyTorch and of eager PyTorch.
MODELS = {
    "gpt2": dict(layers=[12], hidden=768, heads=12, T=1024, vocab=50304, batches=[16, 32], limit=60, compile=120, eager=60),
    "1.3b": dict(layers=[24], hidden=2048, heads=16, T=2048, vocab=50304, batches=[4], limit=90, compile=150, eager=60),
    "llama": dict(layers=[20, 16, 12], hidden=4096, heads=32, groups=8, ffn=14336, T=4096, vocab=128256, batches=[1],
                  limit=150, compile=240, eager=90),
}
SMOKE = {
    "gpt2": dict(layers=[2], hidden=32, heads=2, T=16, vocab=96, batches=[2], limit=60, eager=60),
    "1.3b": dict(layers=[2], hidden=48, heads=2, T=16, vocab=96, batches=[2], limit=60, eager=60),
    "llama": dict(layers=[2], hidden=32, heads=4, groups=2, ffn=48, T=16, vocab=96, batches=[2], limit=60, eager=60),
}
# Variants of PyTorch, least memory first. The best one is the peer.
PEERS = {
    "compile": ["--compile", "--attention", "flash"],
    "compile_cudnn": ["--compile", "--attention", "cudnn"],
    "eager": ["--attention", "flash"],
    "eager_cudnn": ["--attention", "cudnn"],
}
NO_ROOM = "does not fit"
NO_KERNEL = "PyTorch has no kernel"


def models_of(b):
    return SMOKE if b.o.smoke else MODELS


def device_words(b, *more, choices="products.json"):
    """Flags of a run on the GPU. The first run measures the algorithms of products, later runs read them from the file."""
    return ["--backend", "cuda", "--product-choices", b.out / choices, *more]


def words_of(model, m, layers, batch, steps, more=()):
    words = ["train", m.get("family", "gpt"), "--mock-data", "--tokenizer-type", "NullTokenizer",
             "--vocab-size", m["vocab"], "--make-vocab-size-divisible-by", 1, "--num-layers", layers,
             "--hidden-size", m["hidden"], "--num-attention-heads", m["heads"], "--seq-length", m["T"],
             "--hidden-dropout", 0, "--attention-dropout", 0, "--micro-batch-size", batch, "--train-iters", steps,
             "--lr", 3e-4, "--weight-decay", 0.1, "--clip-grad", 1.0, "--eval-iters", 0, "--log-interval", 1, "--no-progress"]
    words += ["--decoder-seq-length", m["decoder"], "--t5-form", "v1.0"] if "decoder" in m \
        else ["--max-position-embeddings", m["T"]]
    if model == "llama":
        words += ["--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope", "--disable-bias-linear",
                  "--untie-embeddings-and-output-weights", "--group-query-attention", "--num-query-groups", m["groups"],
                  "--ffn-hidden-size", m["ffn"]]
    if "experts" in m:  # experts have no biases
        words += ["--num-experts", m["experts"], "--moe-router-topk", m["chosen"],
                  "--moe-router-load-balancing-type", "none",
                  *([] if model == "llama" else ["--disable-bias-linear", "--add-qkv-bias"])]
    return [*words, *more]


def steps_in(log):
    """The complete lines of a JSON log; a stopped run may leave half a line."""
    out = []
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if "lm_loss" in found:
            out.append(found)
    return out


def train(b, name, model, m, layers, batch, steps, limit, more=(), env=None, excuse=None):
    """Trains with troupe. Returns the steps and the peak memory of a worker in bytes (0: unknown), or None on failure.
    A run that was stopped counts if it did enough steps for a rate."""
    log = b.out / f"{name}.jsonl"
    words = words_of(model, m, layers, batch, steps, more)
    if "--global-batch-size" not in words:
        words += ["--global-batch-size", batch]
    text = b.run(name, [b.bin / "troupe", *words, "--log-file", log], limit, env=env, excuse=excuse)
    lines = steps_in(log)
    if text is None and len(lines) < b.dropped + 3:
        return None
    peak = re.search(r"peak memory per worker: ([0-9.]+) (\w+)", text or "")
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return dict(lines=lines, peak=float(peak[1]) * scale.get(peak[2], 0) if peak else 0)


def tokens_per_second(b, run):
    return statistics.median(x["tokens_per_second"] for x in run["lines"][b.dropped:])


def kinds_of_peer(b):
    """On a CPU, where the smoke run is, PyTorch has no cuDNN attention."""
    return [] if not b.o.peer else ["eager"] if b.o.smoke else list(PEERS)


def peer_words(b, model, m, layers, batch, steps, kind):
    device = "cpu" if b.o.smoke else "cuda"
    words = [b.o.peer_python, pathlib.Path(__file__).resolve().with_name("peer_on_device.py"), device, b.o.peer, "--layers", layers,
             "--hidden", m["hidden"], "--heads", m["heads"], "--seq", m["T"], "--vocab", m["vocab"], "--batch", batch,
             "--dtype", "bf16", "--steps", steps, "--device", device]
    if model == "llama":
        words += ["--llama", "--kv-heads", m["groups"], "--ffn", m["ffn"]]
    return words + PEERS[kind]


def no_room(text, code):
    """An excuse (session.end): out of memory, in the words of PyTorch or of troupe."""
    said = r"OutOfMemoryError|out of memory|on device \d+ .*needs? .*, and it has"
    return NO_ROOM if code is not None and re.search(said, text) else None


def why_not(kind):
    """The excuse of a variant of PyTorch. Only cuDNN's attention may lack a kernel: flash attention must run."""
    def excuse(text, code):
        lacks = code is not None and kind.endswith("cudnn") and "No available kernel" in text
        return NO_KERNEL if lacks else no_room(text, code)
    return excuse


def told_by_peer(text):
    return next((x for x in reversed(list(objects(text or ""))) if "tokens_per_second" in x), None)


def peers(b, model, m, layers, batch, kinds):
    """The result of each variant: the JSON that it printed, NO_ROOM, NO_KERNEL, or None on failure."""
    found = {}
    for kind in kinds:
        name, limit = f"{model}_{layers}x{batch}_{kind}", m["compile" if kind.startswith("compile") else "eager"]
        text = b.run(name, peer_words(b, model, m, layers, batch, b.steps, kind), limit, excuse=why_not(kind))
        found[kind] = why_not(kind)(b.log(name), b.codes.get(name)) if text is None else told_by_peer(text)
        if found[kind] == NO_ROOM and kind == kinds[0]:
            break  # The others need as much memory or more.
    return found


def flops_per_token(model, m, layers):
    """Six for each parameter that multiplies, and causal attention at half."""
    D = m["hidden"] // m["heads"]
    groups, ffn = m.get("groups", m["heads"]), m.get("ffn", 4 * m["hidden"])
    layer = m["hidden"] * (m["heads"] + 2 * groups) * D + m["hidden"] ** 2 + m["hidden"] * ffn * (3 if model == "llama" else 2)
    return 6 * (layers * layer + m["vocab"] * m["hidden"]) + 6 * layers * m["T"] * m["hidden"]


def ceilings(b):
    """The device's rate of bf16 products in FLOP/s and of copies in bytes/s; 0 on failure."""
    file = b.out / "ceilings.json"
    if b.run("ceilings", [b.bin / "bench_gpu", *(["--smoke"] if b.o.smoke else []), "--ceilings", "--json", file], 60) is None:
        return 0, 0
    found = json.loads(file.read_text())
    rate, copy = found["matrix_flops_per_second"], found["copy_bytes_per_second"]
    b.row("bf16 products of 8192", f"{rate / 1e12:.0f} TFLOP/s")
    b.row("copy bandwidth", f"{copy / 1e9:.0f} GB/s")
    return rate, copy


def one_model(b, model):
    """Trains the most layers that both programs have room for. Troupe runs first, because the time may run out."""
    m, profiled = models_of(b)[model], False
    rate, copy = guarded(b, ceilings) or (0, 0)
    if not b.o.peer:
        b.left_out("PyTorch", "no --peer was given")
    for layers in m["layers"]:
        excuse = None if layers == m["layers"][-1] else no_room  # Fewer layers may fit.
        mine = {}
        for batch in m["batches"]:
            run = train(b, f"{model}_{layers}x{batch}", model, m, layers, batch, b.steps, m["limit"],
                        [*device_words(b), "--bf16"], excuse=excuse)
            if run:
                mine[batch] = run
                tell(b, model, m, layers, batch, run, rate)
        if mine and not profiled:
            profiled = True
            guarded(b, profile, model, m, layers, max(mine, key=lambda batch: tokens_per_second(b, mine[batch])), rate, copy)
            if model == "gpt2":
                guarded(b, stages, m)
        if compare_all(b, model, m, layers, mine, rate):
            return


def compare_all(b, model, m, layers, mine, rate):
    """Compares at each batch. Returns whether both programs had room for this many layers."""
    kinds, fits, name = kinds_of_peer(b), bool(mine), f"{model}_{layers}x{m['batches'][0]}"
    if not mine and kinds and no_room(b.log(name), b.codes.get(name)):
        found = peers(b, model, m, layers, m["batches"][0], kinds[:1])[kinds[0]]
        theirs = "yes" if isinstance(found, dict) else "no" if found == NO_ROOM else "unknown"
        b.row(f"{model}: room for {layers} layers", f"troupe no, PyTorch {theirs}", "no more than PyTorch's",
              None if b.o.smoke or theirs == "unknown" else theirs == "no")
    for batch, run in mine.items():
        found = peers(b, model, m, layers, batch, kinds)
        ran = {kind: x for kind, x in found.items() if isinstance(x, dict)}
        if ran:
            compare(b, name_of(model, m, layers, batch), run, kinds, found, m, model, layers, rate)
            # Time is short: the next batch repeats only the fastest and the smallest.
            best = max(ran, key=lambda kind: ran[kind]["tokens_per_second"])
            least = min(ran, key=lambda kind: ran[kind]["peak_bytes"])
            kinds = [kind for kind in kinds if kind in (best, least) or kind not in ran]
        else:
            fits = fits and NO_ROOM not in found.values()
    return fits


def name_of(model, m, layers, batch):
    return f"{model}, {layers} layers, T {m['T']}, batch {batch}"


def share(model, m, layers, tokens, rate):
    return tokens * flops_per_token(model, m, layers) / rate


def tell(b, model, m, layers, batch, run, rate):
    name, mine = name_of(model, m, layers, batch), tokens_per_second(b, run)
    b.row(f"{name}: tokens/s", f"{mine:.0f}")
    b.row(f"{name}: peak memory", f"{run['peak'] / 2**30:.1f} GiB" if run["peak"] else "unknown")
    if rate:
        large, mfu = model != "gpt2", share(model, m, layers, mine, rate)
        b.row(f"{name}: MFU of the measured rate", f"{100 * mfu:.0f} %", "55 %" if large else "",
              mfu >= 0.55 if large and not b.o.smoke else None)


def compare(b, name, run, kinds, found, m, model, layers, rate):
    """A verdict needs a result of every variant, as the missing one may be the best; NO_ROOM and NO_KERNEL are results."""
    mine, theirs = tokens_per_second(b, run), {kind: x for kind, x in found.items() if isinstance(x, dict)}
    missing = [kind for kind in kinds if found.get(kind) is None]
    lacks = f"; {', '.join(missing)} is missing" if missing else ""
    judged = not missing and not b.o.smoke
    words = [f"{kind} {x['tokens_per_second']:.0f}" + (f" ({100 * share(model, m, layers, x['tokens_per_second'], rate):.0f} % MFU)"
                                                       if rate else "") for kind, x in theirs.items()]
    b.row(f"{name}: PyTorch, tokens/s", ", ".join(words + [f"{kind}: {x}" for kind, x in found.items() if isinstance(x, str)]))
    ratio = mine / max(x["tokens_per_second"] for x in theirs.values())
    b.row(f"{name}: of the best PyTorch", f"{ratio:.2f}", f"1.15{lacks}", ratio >= 1.15 if judged else None)
    peaks = {"troupe": run["peak"], **{kind: x["peak_bytes"] for kind, x in theirs.items()}}
    b.row(f"{name}: peak memory of each", ", ".join(f"{k} {v / 2**30:.1f}" for k, v in peaks.items()) + " GiB",
          f"no more than PyTorch's{lacks}",
          run["peak"] <= min(x["peak_bytes"] for x in theirs.values()) if judged and run["peak"] else None)


def profile(b, model, m, layers, batch, rate, copy):
    """The longest operations of a step, as a share of the device's rate."""
    file = b.out / f"profile_{model}.json"
    train(b, f"{model}_profile", model, m, layers, batch, b.steps, m["limit"],
          [*device_words(b), "--bf16", "--profile-operations", file])
    if not file.exists():
        return
    found = json.loads(file.read_text())
    for x in found["operations"][:8]:
        seconds = x["ms_per_step"] / 1e3
        flops, moved = (x[k] * x["calls_per_step"] / seconds for k in ["flops", "bytes"])
        of = max((flops / rate, "the matrix rate"), (moved / copy, "the copy")) if rate and copy else (0, "an unknown rate")
        sizes = " x ".join(map(str, x["extents"])) if any(x["extents"]) else ""
        b.row(f"profile of {model}: {x['name']} {sizes}".rstrip(),
              f"{100 * x['ms_per_step'] / found['step_ms']:.1f} % of a step, {100 * of[0]:.0f} % of {of[1]}")
    b.row(f"profile of {model}: between operations", f"{100 * found['between_ms'] / found['step_ms']:.1f} % of a step")


def stages(b, m):
    """Trains with the same 8 micro-batches on one stage, and on two stages that share the GPU."""
    batch, rates = m["batches"][0], {}
    for n in [1, 2]:
        run = train(b, f"stages_{n}", "gpt2", m, m["layers"][0], batch, b.steps, m["limit"],
                    [*device_words(b, "--devices", 0), "--bf16", "--global-batch-size", (2 if b.o.smoke else 8) * batch,
                     "--pipeline-model-parallel-size", n])
        if run is None:
            return
        rates[n] = tokens_per_second(b, run)
    ratio = rates[2] / rates[1]
    b.row("two stages on one GPU, of one", f"{ratio:.3f}", "0.97", None if b.o.smoke else ratio >= 0.97)
