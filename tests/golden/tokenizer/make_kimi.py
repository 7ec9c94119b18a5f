#!/usr/bin/env python3
"""Makes kimi.json beside itself: ids of a small tiktoken.model by the tokenizer code of Moonlight and Kimi.

    /tmp/golden/bin/python tests/golden/tokenizer/make_kimi.py     # with tiktoken, as for make_models.py

The tokens are those of tokenizer_models.json, and pairs of Chinese characters. The expression and the names of special
tokens follow tokenization_kimi.py of moonshotai/Kimi-K2-Instruct.
"""

import base64
import datetime
import importlib.metadata
import json
import pathlib
import random

import tiktoken

NOT_HAN = r"&&[^\p{Han}]]"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + NOT_HAN, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + NOT_HAN
SUFFIX, BEFORE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[^\r\n\p{L}\p{N}]?"
WORDS = "|".join([r"[\p{Han}]+", BEFORE + UPPER + "*" + LOWER + "+" + SUFFIX, BEFORE + UPPER + "+" + LOWER + "*" + SUFFIX,
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
HAN, NAMED = "\u4e2d\u6587\u6df7\u5408\u5b57\u7b26\u3005", {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 9: "[EOT]"}


def some_texts(count):
    """Texts of few characters, so that each alternative of the expression meets the others."""
    random.seed(1)
    letters = HAN + "\u3001\u30fcaB\u00e9\u01c5\u02b0\u0301\u3042\u30ab\u05d0 \t\n\r1\u0664'sTl.,!/<|"
    return ["".join(random.choices(letters, k=random.randint(1, 24))) for _ in range(count)]


def main():
    here = pathlib.Path(__file__)
    models = json.loads(here.with_name("tokenizer_models.json").read_text())
    tokens = [base64.b64decode(x) for x in models["tiktoken"]["tokens"]]
    tokens += [(a + b).encode() for a in HAN[:4] for b in HAN[:4] if a != b]
    specials = {NAMED.get(i, f"<|reserved_token_{len(tokens) + i}|>"): len(tokens) + i for i in range(256)}
    by = tiktoken.Encoding("kimi", pat_str=WORDS, mergeable_ranks={x: i for i, x in enumerate(tokens)},
                           special_tokens=specials)
    texts = models["texts"] + some_texts(300) + ["[BOS]a<|im_end|>b[EOT]<|reserved_token_%d|>" % (len(tokens) + 255)]
    cases = [[by.encode(x, allowed_special="all"), by.encode_ordinary(x)] for x in texts]
    certificate = {"script": "tests/golden/tokenizer/" + here.name, "date": datetime.date.today().isoformat(),
                   "tiktoken": importlib.metadata.version("tiktoken")}
    with open(here.with_name("kimi.json"), "w") as out:
        json.dump({"certificate": certificate, "tokens": [base64.b64encode(x).decode() for x in tokens],
                   "named": {str(len(tokens) + i): name for i, name in NAMED.items()}, "texts": texts, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
