"""Training steps of troupe and of the peer, the same models: what gpu_run.py compares."""

import json
import os
import pathlib
import re
import statistics
import subprocess

from gpu_session import objects

# What is compared, with GPT-2's or Llama's layers. `limit` of a run of ours in seconds, of the peer with and
# without compiling; `layers`: the most that fits is taken.
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
WRAPPER = pathlib.Path(__file__).resolve().with_name("peer_on_device.py")
# Its variants, those first that need the least memory; the best one counts.
PEERS = {
    "compile": ["--compile", "--attention", "flash"],
    "compile_cudnn": ["--compile", "--attention", "cudnn"],
    "eager": ["--attention", "flash"],
    "eager_cudnn": ["--attention", "cudnn"],
}
WORTH = 0.85  # of the best one at the batch before: below it a variant is not tried at the next batch
NO_ROOM = "does not fit"
NO_KERNEL = "PyTorch has none"


def models_of(b):
    return SMOKE if b.o.smoke else MODELS


def trains_on_devices(b):
    words = [b.bin / "troupe", "train", "gpt", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **b.libraries(words)})
    at = done.stdout.find("--backend")
    return at >= 0 and "cuda" in done.stdout[at:at + 500]


def device_words(b, *more, choices="products.json"):
    """Flags of a run on the GPU. Of one file of choices: what the first run measures, the others take."""
    return ["--backend", "cuda", "--product-choices", b.out / choices, *more]


def words_of(model, m, layers, batch, steps, more=()):
    words = ["train", "gpt", "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", m["vocab"],
             "--make-vocab-size-divisible-by", 1, "--num-layers", layers, "--hidden-size", m["hidden"],
             "--num-attention-heads", m["heads"], "--seq-length", m["T"], "--max-position-embeddings", m["T"],
             "--hidden-dropout", 0, "--attention-dropout", 0, "--micro-batch-size", batch, "--train-iters", steps,
             "--lr", 3e-4, "--weight-decay", 0.1, "--clip-grad", 1.0, "--eval-iters", 0, "--log-interval", 1, "--no-progress"]
    if model == "llama":
        words += ["--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope", "--disable-bias-linear",
                  "--untie-embeddings-and-output-weights", "--group-query-attention", "--num-query-groups", m["groups"],
                  "--ffn-hidden-size", m["ffn"]]
    return [*words, *more]


def steps_in(log):
    """Those that are there in full: the run may have been stopped in the middle of a line."""
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
    """The log of a run, a list of steps, with the most memory that a worker took (0: not known); or None. Of a run that
    was stopped, what it did is taken if that is more than its first steps. `excuse`: as of session.end."""
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


def peer_words(b, model, m, layers, batch, steps, kind):
    device = "cpu" if b.o.smoke else "cuda"
    words = [b.o.peer_python, WRAPPER, device, b.o.peer, "--layers", layers, "--hidden", m["hidden"], "--heads", m["heads"],
             "--seq", m["T"], "--vocab", m["vocab"], "--batch", batch, "--dtype", "bf16", "--steps", steps, "--device", device]
    if model == "llama":
        words += ["--llama", "--kv-heads", m["groups"], "--ffn", m["ffn"]]
    return words + PEERS[kind]


def kinds_of_peer(b):
    """On a processor, where the smallest models are tried, there is no attention by cuDNN."""
    return [] if not b.o.peer else ["eager"] if b.o.smoke else list(PEERS)


def no_room(text, code):
    """As the peer says it, and as our program does before or while it trains."""
    said = r"OutOfMemoryError|out of memory|on device \d+ .*needs? .*, and it has"
    return NO_ROOM if code is not None and re.search(said, text) else None


def why_not(kind):
    """An excuse for a variant of the peer that does not train. Only of cuDNN's attention: without flash attention
    PyTorch is not what is to be compared with."""
    def excuse(text, code):
        lacks = code is not None and kind.endswith("cudnn") and "No available kernel" in text
        return NO_KERNEL if lacks else no_room(text, code)
    return excuse


def told_by_peer(text):
    return next((x for x in reversed(list(objects(text or ""))) if "tokens_per_second" in x), None)


def peer(b, name, model, m, layers, batch, kind):
    """What it printed, NO_ROOM, NO_KERNEL, or None where it failed."""
    words, limit = peer_words(b, model, m, layers, batch, b.steps, kind), m["compile" if kind.startswith("compile") else "eager"]
    name = f"{name}_{kind}"
    text = b.run(name, words, limit, excuse=why_not(kind))
    return why_not(kind)(b.log(name), b.codes.get(name)) if text is None else told_by_peer(text)


def peers(b, model, m, layers, batch, kinds):
    """What each of these variants said, by its name."""
    found = {}
    for kind in kinds:
        found[kind] = peer(b, f"{model}_{layers}x{batch}", model, m, layers, batch, kind)
        if found[kind] == NO_ROOM and kind == kinds[0]:
            break  # the others need as much or more
    return found


def worth_trying(b, name, kinds, found):
    """Which of them may be the best at the next batch, too, in speed or in memory: time is short. Those that were not
    seen stay."""
    seen = {k: x for k, x in found.items() if isinstance(x, dict)}
    best, least = (f((x[what] for x in seen.values()), default=0) for f, what in [(max, "tokens_per_second"), (min, "peak_bytes")])
    slow = [k for k in kinds if k in seen and seen[k]["tokens_per_second"] < WORTH * best and seen[k]["peak_bytes"] > least]
    if slow:
        b.left_out(f"{name}: {', '.join(slow)}", f"slower than {100 * WORTH:.0f} % of the best one at the batch before, and not the least in memory")
    return [k for k in kinds if k not in slow]


def flops_per_token(model, m, layers):
    """As the peer counts: 6 for each parameter that multiplies, causal attention half."""
    D = m["hidden"] // m["heads"]
    groups, ffn = m.get("groups", m["heads"]), m.get("ffn", 4 * m["hidden"])
    layer = m["hidden"] * (m["heads"] + 2 * groups) * D + m["hidden"] ** 2 + m["hidden"] * ffn * (3 if model == "llama" else 2)
    return 6 * (layers * layer + m["vocab"] * m["hidden"]) + 6 * layers * m["T"] * m["hidden"]


def ceilings(b):
    """Of bf16 products in FLOP/s, of copies within the device in bytes/s; 0 where they failed."""
    file = b.out / "ceilings.json"
    if b.run("ceilings", [b.bin / "bench_gpu", *(["--smoke"] if b.o.smoke else []), "--ceilings", "--json", file], 60) is None:
        return 0, 0
    found = json.loads(file.read_text())
    rate, copy = found["matrix_flops_per_second"], found["copy_bytes_per_second"]
    b.row("bf16 products of 8192", f"{rate / 1e12:.0f} TFLOP/s")
    b.row("copy bandwidth", f"{copy / 1e9:.0f} GB/s")
    return rate, copy


def one_model(b, model):
    """Ours first, for it is what the machine is lent for. The most layers that both can train."""
    m = models_of(b)[model]
    rate, copy = ceilings(b)
    if not b.o.peer:
        b.left_out("PyTorch", "no --peer was given")
    told = False
    for layers in m["layers"]:
        # Where fewer layers follow, having no room is no failure.
        excuse = no_room if layers != m["layers"][-1] else None
        mine = {}
        for batch in m["batches"]:
            run = train(b, f"{model}_{layers}x{batch}", model, m, layers, batch, b.steps, m["limit"],
                        [*device_words(b), "--bf16"], excuse=excuse)
            if run:
                mine[batch] = run
                tell(b, model, m, layers, batch, run, rate)
        if not mine:
            compare_room(b, model, m, layers)
            continue
        if not told:
            told = True
            profile(b, model, m, layers, max(mine, key=lambda batch: tokens_per_second(b, mine[batch])), rate, copy)
            if model == "gpt2":
                stages(b, m)
        if compare_all(b, model, m, layers, mine, rate):
            return


def compare_room(b, model, m, layers):
    """Where ours did not train for want of room: whether the variant of the peer that needs least does."""
    batch, kinds = m["batches"][0], kinds_of_peer(b)
    name = f"{model}_{layers}x{batch}"
    if not kinds or not no_room(b.log(name), b.codes.get(name)):
        return
    found = peer(b, name, model, m, layers, batch, kinds[0])
    theirs = "yes" if isinstance(found, dict) else "no" if found == NO_ROOM else "not known"
    b.row(f"{model}: room for {layers} layers", f"ours no, PyTorch {theirs}", "no more than PyTorch's",
          None if b.o.smoke or theirs == "not known" else theirs == "no")


def compare_all(b, model, m, layers, mine, rate):
    """Of so many layers, at each batch. Whether the peer had room for them."""
    fits, kinds, found = True, kinds_of_peer(b), {}
    for batch, run in mine.items():
        if found:
            kinds = worth_trying(b, name_of(model, m, layers, batch), kinds, found)
        found = peers(b, model, m, layers, batch, kinds)
        ran = any(isinstance(x, dict) for x in found.values())
        fits = fits and (ran or NO_ROOM not in found.values())
        if ran:
            compare(b, name_of(model, m, layers, batch), run, kinds, found, m, model, layers, rate)
    return fits


def name_of(model, m, layers, batch):
    return f"{model}, {layers} layers, T {m['T']}, batch {batch}"


def share(model, m, layers, tokens, rate):
    return tokens * flops_per_token(model, m, layers) / rate


def tell(b, model, m, layers, batch, run, rate):
    name, mine = name_of(model, m, layers, batch), tokens_per_second(b, run)
    b.row(f"{name}: tokens/s", f"{mine:.0f}")
    b.row(f"{name}: peak memory", f"{run['peak'] / 2**30:.1f} GiB" if run["peak"] else "not told")
    if rate:
        large = model != "gpt2"
        mfu = share(model, m, layers, mine, rate)
        b.row(f"{name}: MFU of the measured rate", f"{100 * mfu:.0f} %", "55 %" if large else "",
              mfu >= 0.55 if large and not b.o.smoke else None)


def compare(b, name, run, kinds, found, m, model, layers, rate):
    """A verdict only where every variant of the peer ran, had no room, or has no kernel: the best one may be what is missing."""
    mine, theirs = tokens_per_second(b, run), {k: x for k, x in found.items() if isinstance(x, dict)}
    missing = [k for k in kinds if found.get(k) is None]
    lacks = f"; {', '.join(missing)} is missing" if missing else ""
    judged = not missing and not b.o.smoke
    words = [f"{k} {x['tokens_per_second']:.0f}" + (f" ({100 * share(model, m, layers, x['tokens_per_second'], rate):.0f} % MFU)"
                                                    if rate else "") for k, x in theirs.items()]
    b.row(f"{name}: PyTorch, tokens/s", ", ".join(words + [f"{k}: {x}" for k, x in found.items() if isinstance(x, str)]))
    ratio = mine / max(x["tokens_per_second"] for x in theirs.values())
    b.row(f"{name}: of the best PyTorch", f"{ratio:.2f}", f"1.15{lacks}", ratio >= 1.15 if judged else None)
    peaks = {"troupe": run["peak"], **{k: x["peak_bytes"] for k, x in theirs.items()}}
    b.row(f"{name}: peak memory of each", ", ".join(f"{k} {v / 2**30:.1f}" for k, v in peaks.items()) + " GiB",
          f"no more than PyTorch's{lacks}",
          run["peak"] <= min(x["peak_bytes"] for x in theirs.values()) if judged and run["peak"] else None)


def profile(b, model, m, layers, batch, rate, copy):
    """Where the time of a step is left: the longest operations, beside what the device can do."""
    file = b.out / f"profile_{model}.json"
    train(b, f"{model}_profile", model, m, layers, batch, b.steps, m["limit"],
          [*device_words(b), "--bf16", "--profile-operations", file])
    if not file.exists():
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
        run = train(b, f"stages_{n}", "gpt2", m, m["layers"][0], batch, b.steps, m["limit"],
                    [*common, "--pipeline-model-parallel-size", n])
        if run is None:
            return
        rates[n] = tokens_per_second(b, run)
    ratio = rates[2] / rates[1]
    b.row("two stages on one GPU, of one", f"{ratio:.3f}", "0.97", None if b.o.smoke else ratio >= 0.97)
