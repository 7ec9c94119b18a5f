"""Compares a folder written by `troupe checkpoint export` with transformers. Needs torch and
transformers; README.md has the versions used.

    troupe checkpoint export RUN --hf DIR
    troupe eval --load RUN --input TEXT --logits FILE.safetensors
    python3 check_export.py DIR FILE.safetensors [--save BACK]

Prints the largest difference of the logits. Fails if it is above 1e-4, or if transformers misses a
tensor or does not read one. With --save, transformers writes the model again, for `troupe checkpoint
import --hf BACK`. If the folder has a tokenizer, it must encode and decode a text without a change.

    python3 check_export.py --troupe PROGRAM CASE ...

does all of it for golden cases. `hf_model.py` writes the model, the program imports it and exports it
in many small files, transformers reads these and writes its own, and the program imports and exports
again. Both exports must have equal elements.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import hf_model

TOLERANCE = 1e-4  # the promised tolerance; two fp32 implementations differ by about 1e-5 here


def compare(folder, logits, save):
    model, told = AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    wrong = {key: value for key, value in told.items() if value}
    model.eval()
    ours = load_file(logits)
    with torch.no_grad():
        theirs = model(ours["tokens"].long()[None]).logits[0]
    worst = (theirs - ours["logits"]).abs().max().item()
    scale = theirs.abs().max().item()
    print(f"{model.config.model_type}: logits of {len(ours['tokens'])} tokens differ by at most "
          f"{worst:.2e}, the largest is {scale:.2f}; told at loading: {wrong or 'nothing'}")
    good = worst <= TOLERANCE and not wrong
    if os.path.exists(os.path.join(folder, "vocab.json")):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = ours["tokens"].tolist()
        text = tokenizer.decode(ids)
        back = tokenizer(text)["input_ids"]
        same = back == ids
        print(f"{type(tokenizer).__name__}: {len(ids)} ids to text and back: {same}")
        good = good and same
    if save:
        model.save_pretrained(save)
    return good


def elements(folder):
    return {name: x for file in Path(folder).glob("*.safetensors") for name, x in load_file(file).items()}


def there_and_back(program, case, folder):
    """Imports, exports and compares the model of a case, and does so again with transformers' files."""
    def troupe(*what):
        subprocess.run([program, *map(str, what)], check=True, stdout=subprocess.DEVNULL)

    hf_model.write_model(case, folder / "model")
    ids = hf_model.tokens(case, 1, 0, 0)
    (folder / "ids.txt").write_text(" ".join(map(str, ids * 4)))
    troupe("checkpoint", "import", "--hf", folder / "model", "--save", folder / "run")
    troupe("checkpoint", "export", folder / "run", "--hf", folder / "export", "--shard-size", 2e-5)
    troupe("eval", "--load", folder / "run", "--input", folder / "ids.txt", "--logits", folder / "logits.safetensors")
    good = compare(folder / "export", folder / "logits.safetensors", folder / "back")
    troupe("checkpoint", "import", "--hf", folder / "back", "--save", folder / "run2")
    troupe("checkpoint", "export", folder / "run2", "--hf", folder / "again")
    ours, again = elements(folder / "export"), elements(folder / "again")
    same = ours.keys() == again.keys() and all(torch.equal(x, again[name]) for name, x in ours.items())
    files = len(list((folder / "export").glob("*.safetensors")))
    print(f"{case}: {len(ours)} tensors in {files} files; back from transformers: {'equal' if same else 'DIFFERENT'}")
    return good and same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", metavar="DIR FILE, or CASE")
    parser.add_argument("--save")
    parser.add_argument("--troupe")
    args = parser.parse_args()
    if not args.troupe and len(args.names) != 2:
        parser.error("give a folder and a file of logits, or --troupe and cases")
    if not args.troupe:
        return 0 if compare(*args.names, args.save) else 1
    good = True
    for case in args.names:
        with tempfile.TemporaryDirectory() as folder:
            good = there_and_back(args.troupe, case, Path(folder)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
