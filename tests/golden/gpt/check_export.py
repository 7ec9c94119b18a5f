"""Compares a folder written by `troupe checkpoint export` with transformers. Needs torch and
transformers; README.md has the versions used.

    troupe checkpoint export RUN --hf DIR
    troupe eval --load RUN --input TEXT --logits FILE.safetensors
    python3 check_export.py DIR FILE.safetensors [--save BACK]

Prints the largest difference of the logits. Fails if it is above 1e-4, or if transformers misses a
tensor or does not read one. With --save, transformers writes the model again, for `troupe checkpoint
import --hf BACK`. If the folder has a tokenizer, it must encode and decode a text without a change.
"""

import argparse
import os
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TOLERANCE = 1e-4  # the promised tolerance; two fp32 implementations differ by about 1e-5 here


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("logits")
    parser.add_argument("--save")
    args = parser.parse_args()
    model, told = AutoModelForCausalLM.from_pretrained(
        args.folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    wrong = {key: value for key, value in told.items() if value}
    model.eval()
    ours = load_file(args.logits)
    with torch.no_grad():
        theirs = model(ours["tokens"].long()[None]).logits[0]
    worst = (theirs - ours["logits"]).abs().max().item()
    scale = theirs.abs().max().item()
    print(f"{model.config.model_type}: logits of {len(ours['tokens'])} tokens differ by at most "
          f"{worst:.2e}, the largest is {scale:.2f}; told at loading: {wrong or 'nothing'}")
    good = worst <= TOLERANCE and not wrong
    if os.path.exists(os.path.join(args.folder, "vocab.json")):
        tokenizer = AutoTokenizer.from_pretrained(args.folder)
        ids = ours["tokens"].tolist()
        text = tokenizer.decode(ids)
        back = tokenizer(text)["input_ids"]
        same = back == ids
        print(f"{type(tokenizer).__name__}: {len(ids)} ids to text and back: {same}")
        good = good and same
    if args.save:
        model.save_pretrained(args.save)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
