"""Compares tokens per second of `troupe generate` and of transformers, with the same model, in turn.

    PYTHON generate_against_transformers.py [--program FILE] [--layers 12] [--hidden 768] [--heads 12]
           [--vocab 50304] [--batch 1,8] [--type fp32,bf16] [--rounds 3] [--threads N]

PYTHON needs torch and transformers. transformers writes a GPT-2 with random weights, and troupe imports it. Both
continue prompts of about the same length greedily, with KV caches. The time of a short text is subtracted from that of
a long one, so loading does not count. Rates of a shared machine vary within minutes, so the result is the median of
the ratios within each round. The bandwidth is that of the weights read per token, relative to a copy.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SHORT, LONG = 8, 136  # tokens
WORDS = "the actor waits and the stage is dark until a message comes from far away to tell it what to do next "


def of_a_token(seconds):
    """Seconds per token, from the times of a short and a long text; the faster of two tries counts."""
    short, long = (min(seconds(tokens) for _ in range(2)) for tokens in (SHORT, LONG))
    if long <= short:
        sys.exit(f"{SHORT} tokens took {short:.3f} s and {LONG} {long:.3f} s: try a larger model, or a quieter machine")
    return (long - short) / (LONG - SHORT)


def run(words, **more):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def made(o, folder):
    """Makes the model and its checkpoint in folder/checkpoint. Returns the model of transformers."""
    text = folder / "text.txt"
    text.write_text(WORDS * 50)
    run([o.program, "tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", folder / "hub"])
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=o.layers, n_embd=o.hidden, n_head=o.heads, vocab_size=o.vocab,
                                       n_positions=1024, activation_function="gelu_new"))
    vocabulary = json.loads((folder / "hub" / "vocab.json").read_text())
    with torch.no_grad():  # greedy texts use only the tokenizer's ids and never end: other logits are 0
        model.transformer.wte.weight[len(vocabulary):] = 0
        model.transformer.wte.weight[vocabulary["<|endoftext|>"]] = 0
    model.save_pretrained(folder / "hub")
    run([o.program, "checkpoint", "import", "--hf", folder / "hub", "--save", folder / "checkpoint"])
    return model.eval()


def ours(o, folder, batch, kind):
    """Seconds per token of each text."""
    prompts = folder / "prompts.txt"
    prompts.write_text((WORDS.strip() + "\n") * batch)

    def seconds(tokens):
        began = time.perf_counter()
        lines = run([o.program, "generate", "--load", folder / "checkpoint", "--prompts", prompts, "--batch-size", batch,
                     "--tokens", tokens, "--greedy", "--threads", o.threads, *(["--bf16"] if kind == "bf16" else [])])
        if len(lines.splitlines()) != batch:
            sys.exit(f"{batch} prompts gave these answers:\n{lines[-1000:]}")
        return time.perf_counter() - began

    return of_a_token(seconds)


def theirs(model, ids, kind):
    def seconds(tokens):
        began = time.perf_counter()
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                                 do_sample=False, use_cache=True, pad_token_id=0)
        assert out.shape[1] == ids.shape[1] + tokens
        return time.perf_counter() - began

    return of_a_token(seconds)


def copy_rate(threads):
    x, y = torch.ones(1 << 26), torch.zeros(1 << 26)
    best = 1e9
    for _ in range(5):
        began = time.perf_counter()
        y.copy_(x)
        best = min(best, time.perf_counter() - began)
    return 2 * x.numel() * 4 / best


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--program", default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/troupe")
    for name, default in dict(layers=12, hidden=768, heads=12, vocab=50304, rounds=3, threads=os.cpu_count()).items():
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--batch", default="1,8")
    a.add_argument("--type", default="fp32,bf16")
    o = a.parse_args()
    torch.set_num_threads(o.threads)
    copied = copy_rate(o.threads)
    print(f"PyTorch {torch.__version__}, {o.threads} threads, copy {copied / 1e9:.1f} GB/s", flush=True)
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        model = made(o, folder)
        weights = sum(p.numel() for p in model.parameters()) - model.transformer.wpe.weight.numel()
        for kind in o.type.split(","):
            model = model.to(torch.bfloat16 if kind == "bf16" else torch.float32)
            for batch in map(int, o.batch.split(",")):
                ids = torch.randint(0, 300, (batch, 30))
                theirs(model, ids, kind)
                rounds = [(theirs(model, ids, kind), ours(o, folder, batch, kind)) for _ in range(o.rounds)]
                one, other = (statistics.median(x) for x in zip(*rounds))
                ratio = statistics.median(x / y for x, y in rounds)
                read = weights * (2 if kind == "bf16" else 4) / other
                print(f"{kind} batch {batch}: transformers {batch / one:8.1f}, troupe {batch / other:8.1f} tokens/s, "
                      f"ratio {ratio:.2f} ({' '.join(f'{x / y:.2f}' for x, y in rounds)}); weights read at "
                      f"{read / 1e9:.1f} GB/s, {100 * read / copied:.0f} % of a copy", flush=True)


if __name__ == "__main__":
    main()
