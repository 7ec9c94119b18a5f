#!/usr/bin/env python3
"""Writes golden.json: next-token probabilities of transformers' logits processors over made-up logits.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers
    /tmp/venv/bin/python tests/golden/sampling/make.py

golden.json has the versions, and cases with their settings and the probabilities that are not 0.
tests/runtime/inference/sampling_test.cpp makes the same logits. Presence and frequency penalties are those of OpenAI's
API, which transformers does not have: they are computed here by its formula.
"""

import json
import pathlib
import random

import torch
import transformers
from transformers.generation import logits_process as processors

VOCABULARY = 37
MASK = 0xFFFFFFFF


def logit(salt, word):
    """A multiple of 2^-20 from -4 to 4."""
    x = word * 15485863 + salt * 32452843 + 1
    for factor in (2246822519, 3266489917):
        x = ((x & MASK) ^ ((x & MASK) >> 15)) * factor & MASK
    return (x >> 9) / 2.0**20 - 4


def probabilities(case):
    prompt, text = case["prompt"], case["text"]
    ids = torch.tensor([prompt + text])
    scores = torch.tensor([[logit(case["salt"], word) for word in range(VOCABULARY)]])
    if case["bias"]:
        scores = processors.SequenceBiasLogitsProcessor([[[i], x] for i, x in case["bias"]])(ids, scores)
    if case["repetition_penalty"] != 1:
        scores = processors.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
    for word in set(text):
        scores[0, word] -= text.count(word) * case["frequency_penalty"] + case["presence_penalty"]
    if case["temperature"] != 1:
        scores = processors.TemperatureLogitsWarper(case["temperature"])(ids, scores)
    if case["top_k"]:
        scores = processors.TopKLogitsWarper(case["top_k"])(ids, scores)
    if case["top_p"] < 1:
        scores = processors.TopPLogitsWarper(case["top_p"])(ids, scores)
    if case["min_p"]:
        scores = processors.MinPLogitsWarper(case["min_p"])(ids, scores)
    found = torch.softmax(scores.double(), -1)[0].tolist()
    return {word: p for word, p in enumerate(found) if p > 0}


def main():
    random.seed(3)
    cases = []
    for salt in range(60):
        text = [random.randrange(VOCABULARY) for _ in range(random.randrange(12))]
        case = {
            "salt": salt,
            "prompt": [random.randrange(VOCABULARY) for _ in range(1 + random.randrange(6))],
            "text": text + text[:3],
            "bias": [[i, random.choice([-3.5, 2.25, -100.0])] for i in random.sample(range(VOCABULARY), salt % 3)],
            "repetition_penalty": random.choice([1.0, 1.0, 1.25, 0.75]),
            "presence_penalty": random.choice([0.0, 0.0, 0.5, -0.25]),
            "frequency_penalty": random.choice([0.0, 0.0, 0.5, -0.125]),
            "temperature": random.choice([1.0, 0.5, 1.75]),
            "top_k": random.choice([0, 0, 3, 20]),
            "top_p": random.choice([1.0, 1.0, 0.5, 0.8]),
            "min_p": random.choice([0.0, 0.0, 0.0625, 0.25]),
        }
        case["probabilities"] = [[word, p] for word, p in probabilities(case).items()]
        cases.append(case)
    to = pathlib.Path(__file__).with_name("golden.json")
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    rows = ",\n".join(json.dumps(case) for case in cases)
    to.write_text(f'{{"made_by": {json.dumps(versions)}, "cases": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
