"""Data sets through the command line: their tokenizers, merging, blending. Run by ctest.

    datasets_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import sys

import cli_test
from cli_test import refuses, works, wrong

SMALL = ["--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 2, "--lr", 1e-3,
         "--eval-iters", 0, "--split", "100,0,0", "--threads-per-worker", 1, "--dry-run"]
TEXTS = {"a": "The actor bows.\n\nThe stage is dark, and the actor waits.\n\n" * 100,
         "b": "A zebra crossed the quiet square.\n\nNo one saw it go.\n\n" * 100}


def made(folder, name):
    """Makes a data set and its tokenizer. Returns its prefix and the tokenizer's folder."""
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


def check_merge(folder):
    a, tok_a = made(folder, "a")
    b, tok_b = made(folder, "b")
    merge = ["merge-datasets", "--output-prefix", folder / "out/all"]
    refuses("--input DIR|PREFIX... is missing", *merge)
    refuses("--output-prefix PREFIX is missing", "merge-datasets", "--input", a)
    refuses("different tokenizers", *merge, "--input", a, b)
    refuses("there is no", *merge, "--input", folder / "gone")
    refuses("no data set in the folder", *merge, "--input", tok_a)
    refuses("it is the input", "merge-datasets", "--input", a, "--output-prefix", folder / "out/.." / a.name)
    refuses("data sets with images are not supported", *merge, "--input", a, "--multimodal")
    said = works(*merge, "--input", a, a)
    if "400 documents" not in said or "2 data sets" not in said or "no manifest" in said:
        raise wrong(f"a merge prints {said!r}")
    alone = a.with_suffix(".bin").read_bytes()
    if (folder / "out/all.bin").read_bytes() != 2 * alone:
        raise wrong("the merged .bin is not the concatenation of its parts")
    train = ["train", "gpt", *SMALL, "--data-path", folder / "out/all"]
    works(*train, "--tokenizer", tok_a)
    refuses("written by another tokenizer", *train, "--tokenizer", tok_b)
    b.with_name(b.name + ".manifest.json").unlink()
    said = works(*merge, "--input", folder / "out", b, "--output-prefix", folder / "again/both")
    if "no manifest" not in said or sorted(x.name for x in (folder / "again").iterdir()) != ["both.bin", "both.idx"]:
        raise wrong(f"a merge with a data set of an unknown tokenizer prints {said!r}")
    index = folder / "out/all.idx"
    index.write_bytes(index.read_bytes()[:-1])
    refuses(str(index), *merge, "--input", folder / "out", b, "--output-prefix", folder / "again/x")
    if len(list((folder / "again").iterdir())) != 2:
        raise wrong("a refused merge left files behind")


def check_blends(folder):
    a, tok = made(folder, "a")
    train = ["train", "gpt", *SMALL, "--tokenizer", tok, "--data-path"]
    works(*train, 0.3, a, 7, a)
    for weight in ("0", "-1", "nan", "inf", "1e999", "1e-999"):
        refuses(f"the weight {weight} of '{a}'", *train, 1, a, weight, a)
    refuses("'much' stands where the weight", *train, 1, a, "much", a)
    refuses("add the missing word", *train, 1, a, a)
    refuses("put each weight before its prefix", *train, a, 1, a, 2)
    refuses("the sum of the weights is inf", *train, 1e308, a, 1e308, a)
    refuses("is empty", *train, 1, "")
    refuses("'0,5' is not a weight", *train, "0,5", a, "0,5", a)
    refuses("'50%' is not a weight", *train, "50%", a, "50%", a)
    (folder / "words").write_text(f"1 {a} 0 {a}")
    refuses("the weight 0", *train[:-1], "--data-args-path", folder / "words")


def check_sizes(folder):
    """Refuses a vocabulary that is smaller than the data need, from a flag or a tokenizer."""
    a, tok = made(folder, "a")
    works("tokenizer", "train", "--input", folder / "a.txt", "--vocab-size", 270, "--output", folder / "less")
    train = ["train", "gpt", *(x for x in SMALL if x != "--dry-run"), "--data-path", a]
    refuses("is outside the vocabulary of 257 ids", *train, "--tokenizer-type", "NullTokenizer", "--vocab-size", 257)
    a.with_name(a.name + ".manifest.json").unlink()  # the manifest would cause an earlier error about the tokenizer
    refuses("is outside the vocabulary of 270 ids", *train, "--tokenizer", folder / "less")
    works(*train, "--tokenizer", tok)


def check_no_answers(folder):
    """Refuses conversations without anything to learn: names the line, and leaves no files."""
    tok = made(folder, "a")[1]
    good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    write = ["conversations", "--strict", "--format", "identity", "--tokenizer", tok, "--output-prefix", folder / "out/talk"]
    (folder / "out").mkdir()
    for says, line in [("no message of the role assistant", good.replace("assistant", "user")),
                       ("no answer with a text", good.replace('"b"', '""')),
                       ("list of messages is empty", '{"messages": []}'),
                       ("is not a conversation", '{"text": "a"}'),
                       ("has no text under", good.replace('"content": "b"', '"content": 3')),
                       ("is not JSON", good[:20])]:
        (folder / "talk.jsonl").write_text(good + line)
        refuses(says, *write, "--input", folder / "talk.jsonl")
        refuses("talk.jsonl', line 2", *write, "--input", folder / "talk.jsonl")
        if list((folder / "out").iterdir()):
            raise wrong(f"{line} left files behind")
    (folder / "talk.jsonl").write_text("")
    refuses("talk.jsonl", *write, "--input", folder / "talk.jsonl")


def check_components(folder):
    """Every command that opens a tokenizer.json refuses one with an unknown component."""
    text, hub = folder / "a.txt", folder / "hub"
    text.write_text(TEXTS["a"])
    works("tokenizer", "train", "--input", text, "--vocab-size", 280, "--output", folder / "tok")
    vocabulary = json.loads((folder / "tok/vocab.json").read_text())
    whole = {"version": "1.0", "added_tokens": [], "normalizer": None,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
             "post_processor": None, "decoder": {"type": "ByteLevel"},
             "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    hub.mkdir()
    (hub / "tokenizer_config.json").write_text('{"eos_token": "!"}')
    flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", hub]
    commands = [["tokenizer", "encode", *flags, "--text", "x"],
                ["preprocess", "--input", text, "--output-prefix", folder / "out", *flags],
                ["conversations", "--input", text, "--output-prefix", folder / "out", "--format", "identity", *flags],
                ["train", "gpt", *SMALL, "--mock-data", *flags]]
    (hub / "tokenizer.json").write_text(json.dumps(whole))
    works(*commands[0])
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model"):
        for value in ({"type": "Quantum"}, {"type": "Sequence", part + "s": [{"type": "Quantum"}]}):
            (hub / "tokenizer.json").write_text(json.dumps({**whole, part: value}))
            for command in commands:
                refuses(f"tokenizer.json', {part}", *command)
            if value["type"] == "Quantum":
                refuses("'Quantum' is not supported", *commands[0])
    if list(folder.glob("out*")):
        raise wrong("a refused tokenizer left files behind")


def check_sentences(folder):
    """A T5 learns from sentences with sentinels, also from its own export. Texts that were not split are refused."""
    (folder / "text.jsonl").write_text((json.dumps({"text": "The actor bows. The stage waits."}) + "\n") * 50)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "actor", "bows",
                                                 "stage", "waits", "."]) + "\n")
    wordpiece = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", folder / "vocab.txt"]
    for how in ([], ["--split-sentences"]):
        works("preprocess", "--input", folder / "text.jsonl", "--output-prefix", folder / "data", *wordpiece, *how)
    train = ["train", "t5", "--encoder-seq-length", 16, "--decoder-seq-length", 12, "--micro-batch-size", 2,
             "--train-iters", 1, "--lr", 1e-3, "--eval-iters", 0, "--split", "100,0,0", "--threads-per-worker", 1]
    new = [*train, "--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2, "--t5-form", "v1.0", *wordpiece]
    split = ["--data-path", folder / "data_text_sentence"]
    refuses("were not split into sentences", *new, "--data-path", folder / "data_text_document",
            "--vocab-extra-ids", 5)
    refuses("give 2 with --vocab-extra-ids", *new, *split)
    works(*new, *split, "--vocab-extra-ids", 5, "--save", folder / "run")
    works("checkpoint", "export", folder / "run", "--hf", folder / "hub")
    exported = [*train, *split, "--load-hf", folder / "hub"]
    works(*exported, "--vocab-extra-ids", 5)
    refuses("has 11 tokens besides 6 of --vocab-extra-ids, but the model of --load-hf has 16", *exported,
            "--vocab-extra-ids", 6)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
