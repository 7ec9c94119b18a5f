#!/usr/bin/env python3
"""Compares the texts that `troupe generate` and transformers write with T5s, greedily and by beam search.

    check_generate.py PROGRAM [--prompts 200]

Needs what make_golden.py needs, and tokenizers. For both forms of transformers, t5_model.py writes a model with random
weights, and both programs read its folder. Fails if a text or an end differs, or if scores differ by more than 1e-4.
The cache of transformers 5 has as many layers as the encoder, too few for these decoders, so it computes without one.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import safetensors.torch
import tokenizers
import torch
import transformers

import make_golden
import t5_model

FORMS = ("t5_v1_0", "t5_v1_1")
TOKENS = 16
SEARCHES = ([], ["--beam-size", 4], ["--beam-size", 3, "--length-penalty", 0, "--early-stopping", "true"],
            ["--beam-size", 5, "--length-penalty", 2, "--early-stopping", "never", "--return-beams", 3])
WORDS = ["<pad>", "</s>", "<unk>", *(f"w{i}" for i in range(3, 95)), "<extra_id_0>"]
SPECIAL = [x for x in WORDS if x.startswith("<")]


def write_tokenizer(folder):
    """Each token is a word, so that a text has one way to be tokens."""
    model = tokenizers.models.Unigram([(x if x in SPECIAL else "▁" + x, -1.0) for x in WORDS], unk_id=2)
    out = tokenizers.Tokenizer(model)
    out.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    out.decoder = tokenizers.decoders.Metaspace()
    out.add_special_tokens(SPECIAL)
    out.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=out, pad_token="<pad>", eos_token="</s>",
                                         unk_token="<unk>").save_pretrained(folder)


def words_of(text):
    for special in SPECIAL:
        text = text.replace(special, f" {special} ")
    return text.split()


def ours(program, folder, words):
    line = [program, "generate", "--load", folder, "--prompts", folder / "prompts.txt", "--tokens", TOKENS,
            *(words or ["--greedy"])]
    done = subprocess.run([str(x) for x in line], check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    return [[(words_of(x["text"]), x["finish_reason"] == "end_of_document", x.get("score"))
             for x in line.get("beams", [line])] for line in lines]


def theirs(model, prompts, words):
    flags = dict(zip(words[::2], words[1::2]))
    count = flags.get("--return-beams", 1)
    settings = dict(num_beams=flags.get("--beam-size", 1), num_return_sequences=count)
    if words:
        settings |= dict(length_penalty=float(flags.get("--length-penalty", 1)),
                         early_stopping={"true": True, "never": "never"}.get(flags.get("--early-stopping"), False))
    out = []
    for prompt in prompts:
        ids = torch.tensor([[WORDS.index(x) for x in prompt] + [1]])
        with torch.no_grad():
            found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                                   use_cache=False, return_dict_in_generate=True, output_scores=True, **settings)
        scores = found.sequences_scores.tolist() if words else [None]
        texts = []
        for row, score in zip(found.sequences.tolist(), scores):
            ended = 1 in row[1:]
            row = row[1:row.index(1, 1)] if ended else row[1:]
            texts.append(([WORDS[x] for x in row], ended, score))
        out.append(texts)
    return out


def equal(one, other):
    """Differences of fp32 sums change scores of 16 tokens near 10 by less than 1e-4."""
    return len(one) == len(other) and all(
        a[:2] == b[:2] and (b[2] is None or abs(a[2] - b[2]) <= 1e-4 * (1 + abs(b[2]))) for a, b in zip(one, other))


def write_model(case, folder):
    """The model of a golden case, changed so that texts depend on the prompt, and that some of them end."""
    t5_model.write_model(case, folder)
    file = folder / "model.safetensors"
    values = safetensors.torch.load_file(file)
    for name, x in values.items():
        if name.endswith("EncDecAttention.o.weight"):
            x *= 4
        elif name == ("lm_head.weight" if "lm_head.weight" in values else "shared.weight"):
            x[1] *= 2
    safetensors.torch.save_file(values, file, metadata={"format": "pt"})


def check(program, case, count, folder):
    write_model(case, folder)
    write_tokenizer(folder)
    model = make_golden.Hub(case, folder, torch.float32).model
    model.generation_config.update(decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    draw = random.Random(case)
    prompts = [[f"w{draw.randint(3, 94)}" for _ in range(draw.randint(1, 24))] for _ in range(count)]
    (folder / "prompts.txt").write_text("".join(" ".join(x) + "\n" for x in prompts))
    good = True
    for words in SEARCHES:
        mine, other = ours(program, folder, words), theirs(model, prompts, words)
        wrong = [i for i in range(count) if i >= len(mine) or not equal(mine[i], other[i])]
        ended = sum(x[0][1] for x in other)
        texts = len({tuple(x[0][0]) for x in other})
        print(f"{case} {' '.join(map(str, words)) or 'greedy'}: {count - len(wrong)} of {count} equal; {ended} ended, "
              f"{texts} different texts", flush=True)
        for i in wrong[:3]:
            print(f"  prompt {i}: {mine[i:i + 1]}\n  transformers: {other[i]}")
        good = good and not wrong and len(mine) == count
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--prompts", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    good = True
    for case in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            good = check(args.program, case, args.prompts, Path(folder)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
