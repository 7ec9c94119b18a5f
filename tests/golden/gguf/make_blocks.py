#!/usr/bin/env python3
"""Writes blocks.json: rows of numbers, their blocks in GGUF's types, and the numbers that the blocks stand for.

    make_blocks.py            # needs the packages gguf and numpy

Origin: the package gguf (llama.cpp's gguf-py), whose numpy code is the reference of ggml's formats. Floats are in
hexadecimal. It has no writer of Q4_K, Q5_K and Q6_K: there the blocks are random bytes with finite factors.
"""

import importlib.metadata
import json
import pathlib

import gguf
import numpy as np
from gguf import quants

FACTORS = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # offsets of the halves in a block


def blocks_of(random, kind):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    out = random.integers(0, 256, (2, size), dtype=np.uint8)
    for at in FACTORS[kind.name]:
        out[:, at:at + 2] = random.normal(0, 0.01, (2, 1)).astype(np.float16).view(np.uint8)
    return out


def main():
    random = np.random.default_rng(1234)
    cases = []
    for name in ("F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        kind = gguf.GGMLQuantizationType[name]
        values = None
        if name in FACTORS:
            blocks = blocks_of(random, kind)
        else:
            values = random.normal(0, 0.1, (3, 64)).astype(np.float32)
            values[1, :32] = 0
            values[2, 5] = -3.5
            blocks = quants.quantize(values, kind).reshape(3, -1)
        read = quants.dequantize(blocks, kind).astype(np.float32)
        cases.append({"type": name, "values": None if values is None else values.tobytes().hex(),
                      "blocks": blocks.tobytes().hex(), "read": read.tobytes().hex()})
    text = json.dumps({"origin": f"gguf {importlib.metadata.version('gguf')}, numpy {np.__version__}", "cases": cases},
                      indent=1)
    pathlib.Path(__file__).with_name("blocks.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
