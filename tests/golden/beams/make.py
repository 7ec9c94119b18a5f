#!/usr/bin/env python3
"""Writes golden.json: beam searches of transformers over made-up logits.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers
    /tmp/venv/bin/python tests/golden/beams/make.py

golden.json has the versions, and cases with their settings, sequences and scores. A sequence is without the prompt,
with the end token. tests/runtime/inference/beam_search_test.cpp makes the same logits.
"""

import itertools
import json
import pathlib

import torch
import transformers
from transformers.modeling_outputs import CausalLMOutput

MASK = 0xFFFFFFFF


def logit(case, tokens, word):
    """A multiple of 2^-20 below 8, from the last two tokens, their number and the word."""
    x = tokens[-1] * 7919 + tokens[-2] * 104729 + len(tokens) * 1299721 + word * 15485863 + case["salt"] * 32452843
    for factor in (2246822519, 3266489917):
        x = ((x & MASK) ^ ((x & MASK) >> 15)) * factor & MASK
    return (x >> 9) / 2.0**20 + (case["end_bias"] if word in case["ends"] else 0)


class MadeUp(transformers.PreTrainedModel, transformers.GenerationMixin):
    config_class = transformers.PretrainedConfig

    def __init__(self, case):
        config = transformers.PretrainedConfig(vocab_size=case["vocabulary"])
        super().__init__(config)
        self.case = case
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, **_):
        words = range(self.case["vocabulary"])
        rows = [[logit(self.case, row, word) for word in words] for row in input_ids.tolist()]
        return CausalLMOutput(logits=torch.tensor(rows, dtype=torch.float32)[:, None, :])


def searched(case):
    found = MadeUp(case).generate(
        torch.tensor([case["prompt"]]),
        num_beams=case["beams"],
        num_return_sequences=case["beams"],
        max_new_tokens=case["most"],
        length_penalty=case["length_penalty"],
        early_stopping={"full": True, "likely": False, "never": "never"}[case["stop"]],
        eos_token_id=case["ends"] or None,
        pad_token_id=case["vocabulary"] - 1,
        do_sample=False,
        use_cache=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    out = []
    for row, score in zip(found.sequences.tolist(), found.sequences_scores.tolist()):
        tokens = row[len(case["prompt"]) :]
        if at := [t for t, token in enumerate(tokens) if token in case["ends"]]:
            tokens = tokens[: at[0] + 1]
        out.append({"tokens": tokens[: case["most"]], "score": score})
    return out


def main():
    transformers.logging.set_verbosity_error()
    cases = []
    grid = itertools.product((2, 3, 5), (1.0, 0.0, 2.0, -0.5), ("likely", "full", "never"), (-1.0, 3.0, 6.0))
    several = itertools.product((2, 4), (1.0, 0.0), ("likely", "full", "never"), (1.0, 4.0))
    ends = [[1]] * 108 + [[1, 7, 12]] * 24
    for salt, (beams, penalty, stop, bias) in enumerate(itertools.chain(grid, several)):
        case = {
            "salt": salt,
            "vocabulary": 19,
            "prompt": [3, 5, salt % 7][: 2 + salt % 2],
            "most": 4 + salt % 9,
            "ends": [] if salt % 10 == 9 else ends[salt],
            "end_bias": bias,
            "beams": beams,
            "length_penalty": penalty,
            "stop": stop,
        }
        case["texts"] = searched(case)
        cases.append(case)
    to = pathlib.Path(__file__).with_name("golden.json")
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    rows = ",\n".join(json.dumps(case) for case in cases)
    to.write_text(f'{{"made_by": {json.dumps(versions)}, "cases": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
