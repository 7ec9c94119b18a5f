"""Compares training steps of troupe and PyTorch on this processor, with the same models, in turn.

    against_pytorch.py [--peer FILE] --python FILE [--program FILE] [--model NAME,...] [--type fp32,bf16]
                       [--rounds N] [--steps N] [--threads N] [--limit SECONDS] [--compile] [--json FILE]

--peer is a script that trains the same GPTs with PyTorch and prints a JSON object with "tokens_per_second" and
"peak_bytes". The peer of a BERT and of a T5 is families_step.py. --python is an interpreter with PyTorch. Each round
runs all variants of the peer (attention by plain products and fused; with --compile also compiled), then troupe.
Rates of a shared machine vary within minutes, so only ratios within a round count, and the best variant of a round is
its peer. Prints medians over rounds: tokens/s, the ratio, the peak memory of each process. A variant that exceeds
--limit, or that this PyTorch lacks, is reported and left out of later rounds. Needs only Python's standard library.

Models with experts choose 2 of 8 per token. Each variant of the peer then exists twice: a loop over experts, and a
grouped product, which is in bf16 also for fp32. Weights of the chosen experts, width, and losses are the same in both
programs: softmax over the chosen experts, no loss of the balance, no shared experts, no biases of experts. Initial
weights route the tokens. These points differ, and the script cannot remove them:

* Troupe's GPT with experts has biases of queries, keys and values, and none of the product after attention.
* Its GELU is exact (erf), the peer's has the tanh formula.
* Tokens of the peer are random, those of Troupe are Megatron-LM's mock data. So loads of experts differ.

A BERT and a T5 have half to all of their tokens in both programs, by other random numbers. Tokens/s count padding;
those of a T5 are the decoder's.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

from gpu_models import steps_in, words_of
from gpu_session import objects

MODELS = {
    "character": dict(layers=6, hidden=384, heads=6, T=256, vocab=65, batch=12),
    "gpt2": dict(layers=12, hidden=768, heads=12, T=256, vocab=50304, batch=4),
    "gpt2-long": dict(layers=12, hidden=768, heads=12, T=1024, vocab=50304, batch=1),
    "llama": dict(layers=12, hidden=768, heads=12, groups=4, ffn=3072, T=512, vocab=32000, batch=2),
    "experts": dict(layers=6, hidden=384, heads=6, T=256, vocab=65, batch=4, experts=8, chosen=2),
    "experts-llama": dict(layers=6, hidden=512, heads=8, groups=2, ffn=1024, T=256, vocab=8192, batch=4, experts=8,
                          chosen=2),
    "bert": dict(family="bert", layers=12, hidden=768, heads=12, T=256, vocab=30528, batch=4),
    "t5": dict(family="t5", layers=6, hidden=512, heads=8, T=512, decoder=128, vocab=32128, batch=4),
    "tiny-bert": dict(family="bert", layers=2, hidden=32, heads=2, T=16, vocab=96, batch=2),
    "tiny-t5": dict(family="t5", layers=2, hidden=32, heads=2, T=16, decoder=8, vocab=96, batch=2),
    "tiny": dict(layers=2, hidden=32, heads=2, T=16, vocab=65, batch=2),  # for trying this script
    "tiny-experts": dict(layers=2, hidden=32, heads=2, T=16, vocab=65, batch=2, experts=8, chosen=2),
}
PEER_OF_FAMILIES = pathlib.Path(__file__).resolve().with_name("families_step.py")
NO_KERNEL = r"has no attribute '_grouped_mm'|Could not run 'aten::_grouped_mm'"  # PyTorch's words
WARM_UP = 3  # uncounted steps of both programs
# PyTorch is fastest if it keeps freed memory; it gets as many threads as troupe.
KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184",
               "MALLOC_TOP_PAD_": "268435456"}


class left_out(Exception):
    """A variant of the peer has no result; the text says why."""


def run(words, limit, more_environment=None):
    """Returns the output and the peak memory in bytes. Raises left_out at the limit, or if PyTorch lacks the product.
    Exits if the command fails otherwise."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([str(x) for x in words], stdout=out, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(more_environment or {})})
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), os.kill(child.pid, signal.SIGKILL)))
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if late.is_set():
        raise left_out(f"longer than {limit:.0f} s")
    if child.returncode != 0 and re.search(NO_KERNEL, text):
        raise left_out("this PyTorch has no grouped product on a processor")
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {child.returncode}:\n{text[-2000:]}")
    return text, used.ru_maxrss * 1024


def variants(o, m):
    out = {"math": ["--attention", "math"], "fused": ["--attention", "flash"]}
    if "experts" in m:
        out = {f"{name}, {by}": [*words, "--experts-by", by] for by in ("loop", "grouped")
               for name, words in out.items()}
    if o.compile:
        out |= {f"{name}, compiled": [*words, "--compile"] for name, words in list(out.items())}
    return out


def peer(o, m, kind, variant):
    script = PEER_OF_FAMILIES if "family" in m else o.peer
    words = [o.python, script, "--layers", m["layers"], "--hidden", m["hidden"], "--heads", m["heads"], "--seq", m["T"],
             "--vocab", m["vocab"], "--batch", m["batch"], "--dtype", kind, "--steps", o.steps + WARM_UP, "--threads",
             o.threads, *variant]
    if "family" in m:
        words += ["--family", m["family"], "--decoder", m.get("decoder", 0)]
    if "groups" in m:
        words += ["--llama", "--kv-heads", m["groups"], "--ffn", m["ffn"]]
    if "experts" in m:
        words += ["--experts", m["experts"], "--topk", m["chosen"]]
    text, memory = run(words, o.limit, {"OMP_NUM_THREADS": str(o.threads), **KEPT_MEMORY})
    said = next(x for x in reversed(list(objects(text))) if "tokens_per_second" in x)
    return dict(rate=said["tokens_per_second"], memory=memory, torch=said.get("torch", "?"))


def ours(o, m, kind):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log.jsonl")
        words = words_of("llama" if "groups" in m else "gpt2", m, m["layers"], m["batch"], o.steps + WARM_UP)
        words += ["--global-batch-size", m["batch"], "--threads-per-worker", o.threads, "--log-file", log]
        try:
            _, memory = run([o.program, *words, *(["--bf16"] if kind == "bf16" else [])], o.limit)
        except left_out as why:
            sys.exit(f"troupe: {why}: raise --limit, or lower --steps")
        steps = steps_in(log)[WARM_UP:]
    return dict(rate=statistics.median(x["tokens_per_second"] for x in steps), memory=memory)


def compare(o, name, kind):
    m = MODELS[name]
    rounds, missing = [], {}
    for i in range(o.rounds):
        theirs = {}
        for variant, words in variants(o, m).items():
            if variant in missing:
                continue
            try:
                theirs[variant] = peer(o, m, kind, words)
            except left_out as why:
                missing[variant] = str(why)
                print(f"{name} {kind}: PyTorch, {variant}: {why}", flush=True)
        mine = ours(o, m, kind)
        if not theirs and rounds:
            break
        if not theirs:
            print(f"{name} {kind}: troupe {mine['rate']:.0f} tokens/s; no variant of PyTorch finished", flush=True)
            return dict(model=name, type=kind, troupe=mine["rate"], pytorch=None, left_out=missing)
        best = max(theirs, key=lambda x: theirs[x]["rate"])
        rounds.append(dict(variant=best, ratio=mine["rate"] / theirs[best]["rate"], mine=mine, theirs=theirs[best]))
        others = ", ".join(f"{variant} {x['rate']:.0f}" for variant, x in theirs.items() if variant != best)
        print(f"{name} {kind}, round {i + 1}: PyTorch {theirs[best]['rate']:.0f} ({best}; {others}), troupe "
              f"{mine['rate']:.0f} tokens/s: {rounds[-1]['ratio']:.2f}", flush=True)
    middle = lambda of: statistics.median(map(of, rounds))
    return dict(model=name, type=kind, torch=rounds[0]["theirs"]["torch"], variant=rounds[-1]["variant"],
                pytorch=middle(lambda x: x["theirs"]["rate"]), troupe=middle(lambda x: x["mine"]["rate"]),
                ratio=middle(lambda x: x["ratio"]), ratios=[round(x["ratio"], 3) for x in rounds],
                pytorch_bytes=middle(lambda x: x["theirs"]["memory"]),
                troupe_bytes=middle(lambda x: x["mine"]["memory"]), left_out=missing)


def processor():
    """Name of the processor, and its instruction sets that decide rates."""
    with open("/proc/cpuinfo") as file:
        said = dict(line.split(":", 1) for line in file if ":" in line)
    said = {key.strip(): value.strip() for key, value in said.items()}
    flags = said.get("flags", "").split()
    return said.get("model name", platform.processor()), [x for x in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if x in flags]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    a.add_argument("--peer")
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--program", default=root / "build/release/bin/troupe")
    a.add_argument("--model", default="character,gpt2,gpt2-long,llama")
    a.add_argument("--type", default="fp32,bf16")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=6)
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--limit", type=float, default=300)
    a.add_argument("--compile", action="store_true")
    a.add_argument("--json")
    o = a.parse_args()
    for name in o.model.split(","):
        if name not in MODELS:
            a.error(f"there is no model '{name}'; there are: {', '.join(MODELS)}")
        if "family" not in MODELS[name] and not o.peer:
            a.error(f"the model '{name}' needs --peer FILE: a script that trains GPTs")
    for kind in o.type.split(","):
        if kind not in ("fp32", "bf16"):
            a.error(f"there is no type '{kind}'; there are: fp32, bf16")
    name, instructions = processor()
    print(f"{name}, {' '.join(instructions)}; {o.threads} threads", flush=True)
    rows = [compare(o, model, kind) for model in o.model.split(",") for kind in o.type.split(",")]
    print(f"\n{'model':<14}{'type':<6}{'PyTorch':>10}{'troupe':>10}{'ratio':>7}  rounds")
    for x in rows:
        if x["pytorch"] is None:
            print(f"{x['model']:<14}{x['type']:<6}{'-':>10}{x['troupe']:>10.0f}")
        else:
            print(f"{x['model']:<14}{x['type']:<6}{x['pytorch']:>10.0f}{x['troupe']:>10.0f}{x['ratio']:>7.2f}  "
                  f"{' '.join(f'{r:.2f}' for r in x['ratios'])}; PyTorch {x['torch']}, {x['variant']}; "
                  f"{x['pytorch_bytes'] / 1e9:.2f} GB and {x['troupe_bytes'] / 1e9:.2f} GB"
                  + "".join(f"; without {variant}: {why}" for variant, why in x["left_out"].items()))
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(dict(processor=name, instructions=instructions, rows=rows), indent=1))


if __name__ == "__main__":
    main()
