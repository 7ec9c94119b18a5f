"""Data sets as a user meets them: whose ids they are, merged, blended. Run by ctest.

    datasets_test.py PROGRAM NAME...   runs the named checks, or all
"""

import sys

import cli_test
from cli_test import refuses, works

SMALL = ["--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 2, "--lr", 1e-3,
         "--eval-iters", 0, "--split", "100,0,0", "--threads-per-worker", 1, "--dry-run"]
TEXTS = {"a": "The actor bows.\n\nThe stage is dark, and the actor waits.\n\n" * 100,
         "b": "A zebra crossed the quiet square.\n\nNobody saw it go.\n\n" * 100}


def made(folder, name):
    """The prefix of a data set, and the tokenizer that it was made by."""
    text, tok = folder / f"{name}.txt", folder / f"tok_{name}"
    text.write_text(TEXTS[name])
    works("tokenizer", "train", "--input", text, "--vocab-size", 280, "--output", tok)
    works("preprocess", "--input", text, "--output-prefix", folder / name, "--tokenizer", tok, "--append-eod")
    return folder / f"{name}_text_document", tok


def check_manifest(folder):
    a, tok_a = made(folder, "a")
    b, tok_b = made(folder, "b")
    train = ["train", "gpt", *SMALL]
    works(*train, "--data-path", a, "--tokenizer", tok_a)
    refuses(f"'{a}' was written by another tokenizer", *train, "--data-path", a, "--tokenizer", tok_b)
    refuses(f"'{b}' was written by another tokenizer", *train, "--data-path", 1, a, 2, b, "--tokenizer", tok_a)
    by_part = [word for word in train if word not in ("--split", "100,0,0")]
    refuses(f"'{b}' was written by another tokenizer", *by_part, "--train-data-path", a, "--valid-data-path", b,
            "--tokenizer", tok_a)
    works(*train, "--data-path", a, b, "--tokenizer-type", "NullTokenizer", "--vocab-size", 280)
    manifest = b.with_name(b.name + ".manifest.json")
    whole = manifest.read_text()
    manifest.write_text(whole[:20])
    refuses("it is damaged", *train, "--data-path", b, "--tokenizer", tok_b)
    manifest.unlink()
    works(*train, "--data-path", a, b, "--tokenizer", tok_a)
    (folder / "talk.jsonl").write_text('{"messages": [{"role": "user", "content": "a"},'
                                       ' {"role": "assistant", "content": "b"}]}\n' * 40)
    works("conversations", "--input", folder / "talk.jsonl", "--output-prefix", folder / "talk",
          "--format", "identity", "--tokenizer", tok_a)
    talk = folder / "talk_conversations"
    works(*train, "--sft", "--data-path", talk, "--tokenizer", tok_a)
    refuses(f"'{talk}' was written by another tokenizer", *train, "--sft", "--data-path", talk, "--tokenizer", tok_b)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
