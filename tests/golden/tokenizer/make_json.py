"""Makes tokenizer_json.json, the reference for runtime/tokenizer/json_tokenizer: parts of tokenizer.json files of
the named models around a small byte-level BPE, with ids by Hugging Face's `tokenizers`.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3 regex
    /tmp/golden/bin/python tests/golden/tokenizer/make_json.py

Each run writes the same file except for its date. Texts use only characters of Unicode 3.2:
libraries treat later ones by the tables of their own Unicode version (docs/formats/tokenizer.md).
"""

import datetime
import importlib.metadata
import json
import pathlib
import random
import unicodedata

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from make import TEXTS, TRAINING  # also needs the package regex

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + REST)
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*" + REST)


def token(content, special=True, **more):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special,
            "special": special, **more}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normalizers(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = dict(BYTES, use_regex=True)
END = token("<|endoftext|>")

KINDS = {
    "gpt2": {"pre_tokenizer": GPT2, "added": [END]},
    "roberta": {"pre_tokenizer": dict(GPT2, add_prefix_space=True), "added": [END, token("<mask>", lstrip=True)]},
    "llama3": {"pre_tokenizer": sequence(split(LLAMA3), BYTES), "added": [token("<|begin_of_text|>"), END],
               "ignore_merges": True},
    "qwen2": {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence(split(QWEN), BYTES),
              "added": [END, token("<|im_start|>"), token("<think>", False), token("e\u0301t\u00e9", False)]},
    "o200k": {"pre_tokenizer": sequence(split(O200K), BYTES), "added": [END]},
    "deepseek": {"normalizer": normalizers(),
                 "pre_tokenizer": sequence(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                                           split(DEEPSEEK), BYTES),
                 "added": [token("<\uff5cend\u2581of\u2581sentence\uff5c>"), token("stage", False, single_word=True),
                           token("<|endoftext|>", lstrip=True, rstrip=True)]},
    "parts": {"normalizer": normalizers({"type": "NFKC"}, {"type": "Lowercase"}),
              "pre_tokenizer": sequence({"type": "Digits", "individual_digits": True},
                                        {"type": "Punctuation", "behavior": "MergedWithPrevious"}, GPT2),
              "added": [END]},
    "more parts": {"normalizer": normalizers({"type": "NFKD"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                                             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                                             {"type": "Prepend", "prepend": "_"}),
                   "pre_tokenizer": sequence({"type": "Punctuation", "behavior": "MergedWithNext"},
                                             {"type": "Digits", "individual_digits": False},
                                             {"type": "Whitespace"}, BYTES),
                   "added": [END]},
    "scripts": {"pre_tokenizer": sequence(split(r"\p{Han}+|[\p{Hiragana}\p{Katakana}]+"),
                                          split(r"[\w\p{M}]+$|^[^\w\s]+|\s+$"), split(r" ?[^(\s|[.,!?])]+"), BYTES),
                "added": [END, token("on", False, single_word=True), token("\n", False, rstrip=True)]},
    "other parts": {"normalizer": {"type": "NFD"},
                    "pre_tokenizer": sequence({"type": "WhitespaceSplit"},
                                              {"type": "Punctuation", "behavior": "Contiguous"},
                                              split("a", "Removed"), split("[tT]h|o", "MergedWithNext", True),
                                              dict(BYTES, add_prefix_space=True)),
                    "added": [END]},
}

MORE_TEXTS = [
    "kluge\n   foo  bar 12345",
    "<|im_start|>user\n<think>\u00e9t\u00e9 <|endoftext|>  e\u0301te\u0301</think>",
    "the stage, on stage; backstage stages stage",
    "<mask> a <mask><|begin_of_text|>x<\uff5cend\u2581of\u2581sentence\uff5c>",
    "HTTPServer's camelCaseWord I'LL I'\u017f DON'T x\u0130\u00df",
    "if (x>=10){return;}\n\n\n//////\r\n\t\tend",
    "\ufb01ne \u2460 \u212b \uff21\uff22\uff23 \uac00\u1100\u1161",
    "12 345 6789 1234567",
    "\u24b6on on\u200d \u00bdon, on; on\n \n \nx \u3001\u4e2d\u6587\u300c\u30ab\u30ca\u300d\u3072\u3089 \u2460\u24d0\u200cz",
]


def random_texts(count):
    rng, old = random.Random(29), unicodedata.ucd_3_2_0
    several = [" ", " ", "\n", "\r\n", "'s", "'LL", "12", "the", "Th", "<|endoftext|>", "e\u0301", "\u00a0", "a", "Q"]
    texts = []
    while len(texts) < count:
        pieces = []
        while len(pieces) < 25:
            character = chr(rng.randrange(1, rng.choice([0x80, 0x400, 0x3100, 0xa000])))
            if rng.random() < 0.5:
                pieces.append(rng.choice(several))
            elif old.category(character) not in {"Cn", "Cs", "Co"} and old.category(character) == unicodedata.category(character):
                pieces.append(character)
        texts.append("".join(pieces))
    return texts


def main():
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    trained.train_from_iterator(TRAINING, trainers.BpeTrainer(
        vocab_size=330, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    texts = TEXTS[4:] + MORE_TEXTS + random_texts(12)
    kinds = {}
    for name, parts in KINDS.items():
        added = [{"id": len(model["vocab"]) + i, **x} for i, x in enumerate(parts["added"])]
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                "normalizer": parts.get("normalizer"), "pre_tokenizer": parts["pre_tokenizer"],
                "post_processor": None, "decoder": dict(GPT2, add_prefix_space=True),
                "model": dict(model, ignore_merges=parts.get("ignore_merges", False))}
        theirs = Tokenizer.from_str(json.dumps(file))
        cases = []
        for text in texts:
            theirs.encode_special_tokens = False
            found = theirs.encode(text, add_special_tokens=False).ids
            theirs.encode_special_tokens = True
            plain = theirs.encode(text, add_special_tokens=False).ids
            cases.append([found] if plain == found else [found, plain])
        del file["model"]["vocab"], file["model"]["merges"]
        kinds[name] = {"file": file, "ids": cases}
    golden = {
        "birth": {"made_by": "tests/golden/tokenizer/make_json.py", "date": datetime.date.today().isoformat(),
                  "tokenizers": importlib.metadata.version("tokenizers")},
        "tokens": sorted(model["vocab"], key=model["vocab"].get),
        "merges": model["merges"],
        "texts": texts,
        "kinds": kinds,
    }
    path = pathlib.Path(__file__).with_name("tokenizer_json.json")
    path.write_text(json.dumps(golden, separators=(",", ":")).replace('"kinds":', '\n"kinds":').replace(']],', ']],\n') + "\n")


if __name__ == "__main__":
    main()
