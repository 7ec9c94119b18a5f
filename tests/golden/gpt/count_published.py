#!/usr/bin/env python3
"""Counts the parameters of the published models in published.json with transformers, without memory for them.

    python3 count_published.py

Writes the counts into the file. Its fields of config.json are written by hand, not downloaded. The biases of
DeepSeek-V3's choice count: transformers has them as buffers, but files have them as tensors. Layers for further tokens
are no part of transformers' model.
"""
import json
from pathlib import Path

import torch
import transformers


def count(config):
    config = transformers.AutoConfig.for_model(**config)
    kind = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]  # imports its module, outside of "meta"
    with torch.device("meta"):
        model = kind(config)
    biases = sum(x.numel() for name, x in model.named_buffers() if name.endswith("e_score_correction_bias"))
    return sum(x.numel() for x in model.parameters()) + biases


def main():
    path = Path(__file__).with_name("published.json")
    all_of_them = json.loads(path.read_text())
    for name, model in all_of_them["models"].items():
        model["parameters"] = count(model["config"])
        print(f"{name}: {model['parameters']}", flush=True)
    all_of_them["certificate"] = dict(script="tests/golden/gpt/count_published.py", torch=torch.__version__,
                                      transformers=transformers.__version__)
    compact = json.JSONEncoder(separators=(",", ":")).encode
    rows = ",\n".join(f"    {json.dumps(name)}: {compact(model)}" for name, model in all_of_them["models"].items())
    path.write_text(f'{{\n  "certificate": {compact(all_of_them["certificate"])},\n  "models": {{\n{rows}\n  }}\n}}\n')


if __name__ == "__main__":
    main()
