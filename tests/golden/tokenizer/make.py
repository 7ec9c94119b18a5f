"""Makes golden.json, the reference for runtime/tokenizer: words, merges and encodings by Hugging Face's
`tokenizers`, and words by the `regex` package, for which GPT-2's expression was written.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3 regex
    /tmp/golden/bin/python tests/golden/tokenizer/make.py

Each run writes the same file except for its date. The tests need neither package.
"""

import datetime
import importlib.metadata
import json
import pathlib
import platform
import random
import unicodedata

import regex
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

EXPRESSION = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
VOCABULARY_SIZE = 360  # 256 bytes, 103 tokens by merges, <|endoftext|>

TRAINING = [
    "Once upon a time there was an actor who could not keep a secret. The actor told the stage, "
    "and the stage told the loader, and the loader told the checkpointer.\n",
    "Whatever the supervisor heard, the supervisor wrote down: \"Committed 17, committed 18.\"\n",
    "They're sure that we've heard it; I'm not. She'd said that he'll be late, hasn't she?\n",
    "Der Vorhang fällt, das Stück ist aus. Öffnet die Türen! Ü, Ö, Ä und ß.\n",
    "Сцена пуста, актёры ушли. Сцена ждёт актёров.\n",
    "幕が上がる。役者が出る。幕が下りる。\n",
    "for (int i = 0; i < 10; ++i) {\n    total += values[i];\n    }\n\n\treturn total;\n",
    "aaaaaaaaaa aaaa aaa aaaaaaa abababab ababab abab 111111 11111 222 2222\n",
]

TEXTS = [
    "",
    " ",
    "   ",
    "a",
    "The actor told the stage.",
    "the stage  the   loader\n\n\nthe checkpointer \n",
    "  leading and trailing  ",
    "I'm sure they're here, we've won, he'll go, she'd stay, it's mine, don't!",
    "I'M SURE THEY'RE HERE",
    "''s 's'' 'sad 'tis 'd'd",
    "x=1;y=22;z=3.14159e-26",
    "Öffnet die Türen: das Stück fällt aus.",
    "Сцена ждёт актёров",
    "幕が上がる、役者が出る。",
    "emoji 😀😀 and 👩‍👩‍👧 and flags 🇩🇪",
    "combining e\u0301 a\u0308o and x\u0489",
    "no-break\u00a0space\u00a0\u00a0two, ideographic\u3000\u3000space, line\u2028separator",
    "next\u0085line, ogham\u1680space, mongolian\u180evowel, zero\u200bwidth",
    "control \x1c\x1d\x1e\x1f and \x00 and \x7f",
    "tabs\t\tand\r\nreturns\r\n",
    "numbers ½ ² Ⅷ ٣ ५ 1,000,000",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa abababababababababa",
    "not special <|endoftext|> here",
    "<|endoftext|>",
]


def random_texts(count):
    """Strings over characters that Unicode 14 and later agree on."""
    rng = random.Random(17)
    unassigned = {"Cn", "Cs", "Co"}
    several = [" ", " ", "\n", "\t", "'", "s", "t", "re", "ll", "\u00a0", "\u3000", "a", "B", "7"]
    texts = []
    for _ in range(count):
        pieces = []
        while len(pieces) < 30:
            if rng.random() < 0.6:
                pieces.append(rng.choice(several))
                continue
            character = chr(rng.randrange(1, rng.choice([0x80, 0x3100, 0x20000])))
            if unicodedata.category(character) not in unassigned:
                pieces.append(character)
        texts.append("".join(pieces))
    return texts


def main():
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = cut
    tokenizer.train_from_iterator(
        TRAINING,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY_SIZE - 1,
            min_frequency=2,
            special_tokens=[],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    assert len(tokens) == VOCABULARY_SIZE - 1, len(tokens)

    cases = []
    for text in TEXTS + random_texts(40):
        words = regex.findall(EXPRESSION, text)
        assert "".join(words) == text
        theirs = [text[begin:end] for _, (begin, end) in cut.pre_tokenize_str(text)]
        assert words == theirs, (text, words, theirs)
        cases.append({"text": text, "words": words, "ids": tokenizer.encode(text).ids})

    versions = {name: importlib.metadata.version(name) for name in ["tokenizers", "regex"]}
    golden = {
        "birth": {
            "made_by": "tests/golden/tokenizer/make.py",
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(),
            "unicode_of_python": unicodedata.unidata_version,
            **versions,
        },
        "vocabulary_size": VOCABULARY_SIZE,
        "training": TRAINING,
        "tokens": tokens + ["<|endoftext|>"],
        "merges": [" ".join(merge) for merge in model["merges"]],
        "cases": cases,
    }
    path = pathlib.Path(__file__).with_name("golden.json")
    path.write_text(json.dumps(golden, indent=0, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
