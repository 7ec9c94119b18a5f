"""Text before training: tokenizers, chat templates, documents and conversations. Run by ctest.

    text_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import re
import sys

import cli_test
from cli_test import MOCK, SMALL, refuses, tokenizer, works, wrong


def check_chat(folder):
    tok = tokenizer(folder)
    chat = ["tokenizer", "chat", "--tokenizer", tok]
    hello = b'[{"role": "user", "content": "Hi"}]'
    refuses("no chat template", *chat, text=hello)
    (tok / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "chat_template": [
        {"name": "default", "template":
         "{% if messages[0].role != 'user' %}{{ raise_exception('the user begins') }}{% endif %}"
         "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
         "{% if add_generation_prompt %}{{ 'A' if think else 'a' }}ssistant:{% endif %}"},
        {"name": "tool_use", "template": "{{ tools | tojson }}"}]}))
    def expect(text, *words, given=hello):
        found = works(*chat, *words, text=given)
        if found != text:
            raise wrong(f"tokenizer chat {words}: {found!r}, expected {text!r}")
    expect("user: Hi<|endoftext|>")
    expect("user: Hi<|endoftext|>Assistant:", "--add-generation-prompt", "--set", "think=true")
    expect("user: Hi<|endoftext|>assistant:", "--add-generation-prompt", "--set", "think=false", "x=y")
    expect("user: Hi", "--continue-final-message")
    (folder / "tools.json").write_text('[{"name": "é"}]')
    (folder / "own.jinja").write_text("own {{ messages | length }}\n")
    expect('[{"name": "é"}]', "--tools", folder / "tools.json")
    expect("own 1", "--tools", folder / "tools.json", "--template", folder / "own.jinja")
    expect('[{"name": "f"}]', given=b'{"messages": [{"role": "user"}], "tools": [{"name": "f"}]}')
    expect('[{"name": null}]', given=b'{"messages": [{"role": "user", "score": NaN}], "tools": [{"name": Infinity}]}')
    (folder / "messages.json").write_bytes(hello)
    expect("user: Hi<|endoftext|>", "--messages", folder / "messages.json", "--template", "default", given=b"")
    ids = works(*chat, "--ids", text=hello).split()
    whole = works("tokenizer", "encode", "--tokenizer", tok, "--special-tokens", "--text", "user: Hi<|endoftext|>")
    if ids != whole.split() or len(ids) != 9:
        raise wrong(f"ids of a prompt: {ids}, expected {whole}")
    refuses("the user begins", *chat, text=b'[{"role": "system", "content": "x"}]')
    refuses("not JSON", *chat, text=b"Hi")
    refuses("empty", *chat, text=b"[]")
    refuses("--set", *chat, "--set", "x", text=hello)
    refuses("only default, tool_use", *chat, "--template", "rag", text=hello)
    refuses("leave out one", *chat, "--continue-final-message", "--add-generation-prompt", text=hello)
    (folder / "own.jinja").write_text("\n{% include 'x' %}")
    refuses("line 2: the tag {% include %}", *chat, "--template", folder / "own.jinja", text=hello)


def check_tokenizer(folder):
    tok = tokenizer(folder)
    text = "The actor's naïve café \U0001F3AD\n"
    ids = works("tokenizer", "encode", "--tokenizer", tok, text=text.encode())
    if works("tokenizer", "decode", "--tokenizer", tok, text=ids.encode()) != text:
        raise wrong(f"decoding {ids} does not give the text back")
    refuses("--input", "tokenizer", "train", "--vocab-size", 300, "--output", folder / "x")
    refuses("from 257", "tokenizer", "train", "--input", folder / "text.txt", "--vocab-size", 200,
            "--output", folder / "x")
    refuses("cannot open", "tokenizer", "train", "--input", folder / "gone", "--vocab-size", 300,
            "--output", folder / "x")
    (folder / "blank.txt").write_text(" \n\n\n")
    (folder / "empty.txt").write_text("")
    for blank in ["blank.txt", "empty.txt"]:
        refuses("nothing to learn from", "tokenizer", "train", "--input", folder / blank,
                "--vocab-size", 300, "--output", folder / "x")
    if (folder / "x").exists():
        raise wrong("refused input left an output folder behind")
    refuses("300", "tokenizer", "decode", "--tokenizer", tok, "300")
    refuses("'a'", "tokenizer", "decode", "--tokenizer", tok, "a")
    refuses("there is no such folder", "tokenizer", "encode", "--tokenizer", folder / "gone", "--text", "x")
    (tok / "config.json").write_text('{"model_type": "qwen2"}')
    refuses("tokenizer.json", "tokenizer", "encode", "--tokenizer", tok, "--text", "x")
    (tok / "config.json").unlink()
    hub = ["--tokenizer-type", "HuggingFaceTokenizer"]
    refuses("--tokenizer-model FILE", "tokenizer", "encode", *hub, "--text", "x")
    refuses("exclude each other", "tokenizer", "encode", "--tokenizer", tok, *hub, "--tokenizer-model", tok,
            "--text", "x")
    refuses("--tokenizer-type HuggingFaceTokenizer", "tokenizer", "encode", "--tokenizer-model", tok,
            "--text", "x")
    refuses("--vocab-file", "tokenizer", "encode", *hub, "--vocab-file", "x", "--text", "x")
    if works("tokenizer", "encode", *hub, "--tokenizer-model", tok, "--text", "in") != works(
            "tokenizer", "encode", "--tokenizer", tok, "--text", "in"):
        raise wrong("a folder gives other ids as --tokenizer-model than as --tokenizer")
    refuses("there is no tokenizer in", "tokenizer", "encode", *hub, "--tokenizer-model", folder, "--text", "x")
    bert = folder / "bert"
    bert.mkdir()
    (bert / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nact\n##or\n")
    for choice in (["--tokenizer", bert],
                   ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", bert / "vocab.txt"]):
        for flags, ids in ([], "5 6 7"), (["--special-tokens"], "2 5 6 7 3"):
            if (found := works("tokenizer", "encode", *choice, *flags, "--text", "The Actor").strip()) != ids:
                raise wrong(f"'The Actor' has the ids {found}, not {ids}")
        for flags, text in ([], "the actor"), (["--special-tokens"], "[CLS] the actor [SEP]"):
            if (found := works("tokenizer", "decode", *choice, *flags, 2, 5, 6, 7, 3)) != text:
                raise wrong(f"2 5 6 7 3 are '{found}', not '{text}'")
    refuses("--vocab-file FILE", "tokenizer", "encode", "--tokenizer-type", "BertWordPieceCase", "--text", "x")
    refuses("a model of SentencePiece", "tokenizer", "encode", "--tokenizer-type", "SentencePieceTokenizer",
            "--tokenizer-model", bert / "vocab.txt", "--text", "x")
    (bert / "ranks").write_text("AA== 0\n")
    refuses("no pattern is given to split a text", "tokenizer", "encode", "--tokenizer-type", "TikTokenizer",
            "--tokenizer-model", bert / "ranks", "--text", "x")
    refuses("--tiktoken-pattern", "tokenizer", "encode", *hub, "--tokenizer-model", bert, "--tiktoken-pattern", "v1",
            "--text", "x")
    (tok / "merges.txt").write_text("nonsense without sense here\n")
    refuses("merges.txt", "tokenizer", "encode", "--tokenizer", tok, "--text", "x")


def check_preprocess(folder):
    tok = tokenizer(folder)
    good = ["--output-prefix", folder / "d", "--tokenizer", tok]
    refuses("--input", "preprocess", *good)
    refuses("gone", "preprocess", "--input", folder / "gone", *good)
    (folder / "bad.jsonl").write_text('{"text": "fine"}\n{"text": }\n')
    refuses("bad.jsonl", "preprocess", "--input", folder / "bad.jsonl", *good)
    (folder / "key.jsonl").write_text('{"body": "fine"}\n')
    refuses("text", "preprocess", "--input", folder / "key.jsonl", *good)
    (folder / "empty.txt").write_text("")
    refuses("", "preprocess", "--input", folder / "empty.txt", *good)
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    refuses("UTF-8", "preprocess", "--input", folder / "latin.txt", *good)
    refuses("cannot", "preprocess", "--input", folder / "text.txt", "--tokenizer", tok,
            "--output-prefix", folder / "text.txt" / "d")
    if list(folder.glob("d_*")):
        raise wrong("a refused run left files behind: " + str(list(folder.glob("d_*"))))
    (folder / "one.txt").write_text("one document\n")
    if "'.idx': 1 document, " not in (out := works("preprocess", "--input", folder / "one.txt", *good)):
        raise wrong(f"the output does not report one document:\n{out}")


def check_conversations(folder):
    tok = tokenizer(folder)
    good = ["--output-prefix", folder / "talks", "--tokenizer", tok]
    refuses("--input", "conversations", *good)
    line = '{"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b."}]}\n'
    (folder / "talks.jsonl").write_text(line * 30)
    (folder / "bad.jsonl").write_text(line + line.replace("assistant", "robot"))
    own = ["--format", "identity"]
    refuses("gone", "conversations", "--input", folder / "gone", *own, *good)
    refuses("bad.jsonl', line 2: the role 'robot'", "conversations", "--input", folder / "bad.jsonl", *own, *good)
    refuses("chat template", "conversations", "--input", folder / "talks.jsonl", *good)
    refuses("'odd'", "conversations", "--input", folder / "talks.jsonl", "--format", "odd", *good)
    refuses("--template", "conversations", "--input", folder / "talks.jsonl", *own, "--set", "a=1", *good)
    if list(folder.glob("talks_*")):
        raise wrong("a refused run left files behind: " + str(list(folder.glob("talks_*"))))
    if "30 conversations, " not in (out := works("conversations", "--input", folder / "talks.jsonl", *own, *good)):
        raise wrong(f"the output does not report 30 conversations:\n{out}")
    (folder / "mixed.json").write_text(f'[{line},\n{{"messages": []}},\n{line}]')
    mixed = ["conversations", "--input", folder / "mixed.json", *own, "--output-prefix", folder / "mixed", "--tokenizer", tok]
    if "skipped 1 conversation in which there is nothing to learn: record 2 (line 3) of '" not in (out := works(*mixed)):
        raise wrong(f"the output does not report a skipped conversation:\n{out}")
    refuses("record 2 (line 3): its list of messages is empty", *mixed, "--strict")
    tuned = ["train", "gpt", *SMALL, "--sft", "--tokenizer", tok, "--split", "90,10,0"]
    said = works(*tuned, "--data-path", folder / "talks_conversations", "--dry-run")
    if not (found := re.search(r"of the samples of an epoch ([0-9.]+) % is padding", said)) or float(found[1]) >= 100:
        raise wrong(f"the share of padding is not reported:\n{said}")
    works(*tuned, "--data-path", folder / "talks_conversations")
    refuses("is a file of conversations", *tuned, "--data-path", folder / "talks.jsonl")
    refuses("not a data set of conversations", *tuned, "--data-path", folder / "talks_conversations_answers")
    refuses("--sft", *tuned, "--data-path", folder / "talks_conversations", "--eod-mask-loss")
    works(*tuned, "--data-path", folder / "talks_conversations", "--calculate-per-token-loss")


def check_fim(folder):
    """Cuts samples if the tokenizer has the tokens; otherwise the error names all missing tokens."""
    tok = tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d", "--tokenizer", tok,
          "--append-eod")
    train = ["train", "gpt", *SMALL, "--tokenizer", tok, "--data-path", folder / "d_text_document", "--split", "1,0,0"]
    refuses("has no such token: --fim-prefix-token '<fim-prefix>', --fim-middle-token '<fim-middle>', "
            "--fim-suffix-token '<fim-suffix>', --fim-pad-token '<fim-pad>'; name", *train, "--fim-data")
    tokens = ["--fim-prefix-token", "P", "--fim-middle-token", "M", "--fim-suffix-token", "S", "--fim-pad-token", "Q"]
    losses = [works(*train, *more, "--log-interval", 1, "--log-format", "megatron").split("lm loss:")[1].split("|")[0]
              for more in ([], ["--fim-data", *tokens], ["--fim-data", *tokens])]
    if losses[0] == losses[1] or losses[1] != losses[2]:
        raise wrong(f"the first losses without FIM, with it, and again are {losses}")
    refuses("add it, or leave them out", *train, "--fim-rate", 0.9)
    refuses("--fim-rate", *train, "--fim-data", *tokens, "--fim-rate", 1.5)
    refuses("are two kinds of samples", *train, "--fim-data", *tokens, "--sft")
    refuses("needs text to cut", "train", "gpt", *SMALL, "--tokenizer", tok, "--mock-data", "--fim-data", *tokens)
    works(*train, "--fim-data", *tokens, "--calculate-per-token-loss")


def check_null_tokenizer(folder):
    """Ids are words: a blank separates the prompt from its continuation."""
    works("train", "gpt", *SMALL, *MOCK, "--save", folder / "run")
    text = works("generate", "--load", folder / "run", "--prompt", "1 2", "--tokens", 2, "--greedy")
    if not text.startswith("1 2 "):
        raise wrong(f"prompt and continuation are glued: {text}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
