"""Makes fim.json, the reference for runtime/data/fill_in_middle.hpp: an independent implementation of
Megatron-LM's GPTFIMDataset, over characters and with numpy's RandomState.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6
    /tmp/golden/bin/python tests/golden/data/fim.py

Uses the tokenizer of tests/support/byte_tokenizer.hpp: bytes, the pair "th" as 257, and special tokens
from 258 on. Each run writes the same file except for its date. The tests need no numpy.
"""

import codecs
import datetime
import itertools
import json
import pathlib

import numpy

EOD, PREFIX, MIDDLE, SUFFIX, PAD, FILE = range(258, 264)
NAMES = ["<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>", "<file>"]
SEED = 1234
broken = {}  # a private character for each part of a character that is cut off


def keep(error):
    part = error.object[error.start : error.end]
    return broken.setdefault(part, chr(0xE000 + len(broken))), error.end


codecs.register_error("keep", keep)


def characters(ids):
    data = b"".join(b"th" if i == 257 else bytes([i]) for i in ids if i < 258 and i != 256)
    return data.decode("utf-8", "keep")


def tokens(text):
    parts = {sign: part for part, sign in broken.items()}
    data = b"".join(parts.get(c) or c.encode() for c in text)
    out, at = [], 0
    while at < len(data):
        pair = data[at : at + 2] == b"th"
        out.append(257 if pair else data[at])
        at += 2 if pair else 1
    return out


def split(ids, at, keep):
    """Pieces between separators, each with whether a separator follows. Without `keep` drops empty ones except the last."""
    begin = 0
    for end, last in [(i, False) for i, x in enumerate(ids) if x == at] + [(len(ids), True)]:
        if last or keep or end > begin:
            yield ids[begin:end], not last
        begin = end + 1


def cut(ids, rate, case, rng):
    if not rng.binomial(1, rate):
        return ids
    text = characters(ids)
    if case["no_prefix"] and text.startswith(case["no_prefix"]):
        return ids
    a, b = sorted(rng.randint(low=0, high=len(text) + 1, size=2))
    prefix, middle, suffix = (tokens(x) for x in (text[:a], text[a:b], text[b:]))
    if rng.binomial(1, case["spm_rate"]):
        return [PREFIX, SUFFIX, *suffix, MIDDLE, *prefix, *middle]
    return [PREFIX, *prefix, SUFFIX, *suffix, MIDDLE, *middle]


def document(ids, case, rng):
    if not case["split"] or FILE not in ids:
        return cut(ids, case["rate"], case, rng)
    if not rng.binomial(1, case["rate"]):
        return ids
    out = []
    for part, follows in split(ids, FILE, True):  # Megatron-LM drops separators behind nothing
        if part or not follows:
            part = cut(part, case["fragment_rate"], case, rng)
        out += part + [FILE] * follows
    return out


def sample(number, ids, case):
    rng, out = numpy.random.RandomState(SEED + number), []
    for part, follows in split(ids, EOD, False):
        out += document(part, case, rng) + [EOD] * follows
    used = min(len(out), len(ids))
    return out[:used] + [PAD] * (len(ids) - used), used


def texts():
    words = tokens("the other path: wörds with \u4e16\u754c and \U0001f600, then nothing. ")
    yield (words * 2)[:90]
    yield [EOD, *words[:30], EOD, EOD, *words[3:40], EOD]
    yield [*words[:20], FILE, *words[5:25], FILE, FILE, *words[2:12], EOD, FILE, *words[:9]]
    yield [0xB8, 0x96, *words[:25], 262, 97, 0xF0, 0x9F]  # parts of characters, and a special token
    yield [120, EOD] * 8
    yield []


def main():
    cases = []
    for rate, spm, fragments, no_prefix in itertools.product(
        (0.5, 1.0, 0.0), (0.5, 0.0, 1.0, 0.7), (None, 0.5, 1.0), ("", "th")
    ):
        case = {"rate": rate, "spm_rate": spm, "split": fragments is not None,
                "fragment_rate": 0.5 if fragments is None else fragments, "no_prefix": no_prefix}  # fmt: skip
        case["samples"] = []
        for number, ids in enumerate(texts()):
            out, used = sample(number, ids, case)
            case["samples"].append({"in": ids, "out": [int(x) for x in out], "used": used})
        cases.append(case)
    about = {"made": str(datetime.date.today()), "numpy": numpy.__version__, "by": "tests/golden/data/fim.py"}
    rng = numpy.random.RandomState(SEED)
    draws = [[p, [int(rng.binomial(1, p)) for _ in range(40)]] for p in (0.0, 0.1, 0.5, 0.7, 0.999, 1.0)]
    whole = {"about": about, "seed": SEED, "names": NAMES, "draws": draws, "cases": cases}
    path = pathlib.Path(__file__).with_name("fim.json")
    path.write_text(json.dumps(whole, separators=(",", ":")) + "\n")


main()
