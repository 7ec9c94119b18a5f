"""The program as a user meets it: exit codes, and what is said about bad input. Run by ctest.

    cli_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = None
TEXT = "The actor bows.\n\nThe stage is dark, and the actor waits.\n\n" * 200


class wrong(Exception):
    pass


def run(*words, text=None, cwd=None):
    done = subprocess.run([PROGRAM, *map(str, words)], input=text, capture_output=True, timeout=240,
                          cwd=cwd)
    return done.returncode, done.stdout.decode("utf8", "replace"), done.stderr.decode("utf8", "replace")


def works(*words, text=None):
    code, out, err = run(*words, text=text)
    if code != 0:
        raise wrong(f"troupe {' '.join(map(str, words))}: exit code {code}\n{err}")
    return out


def refuses(says, *words, text=None):
    """Exit code 2, a message that has `says` on standard error, and no more than a few lines."""
    code, out, err = run(*words, text=text)
    what = f"troupe {' '.join(map(str, words))}: exit code {code}\n{err}"
    if code != 2 or says not in err or not err.startswith("troupe: "):
        raise wrong(f"{what}\nexpected exit code 2 and a message with '{says}'")


def tokenizer(folder):
    text = folder / "text.txt"
    text.write_text(TEXT)
    works("tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", folder / "tok")
    return folder / "tok"


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
            raise wrong(f"tokenizer chat {words} gives {found!r}, not {text!r}")
    expect("user: Hi<|endoftext|>")
    expect("user: Hi<|endoftext|>Assistant:", "--add-generation-prompt", "--set", "think=true")
    expect("user: Hi<|endoftext|>assistant:", "--add-generation-prompt", "--set", "think=false", "x=y")
    expect("user: Hi", "--continue-final-message")
    (folder / "tools.json").write_text('[{"name": "é"}]')
    (folder / "own.jinja").write_text("own {{ messages | length }}\n")
    expect('[{"name": "é"}]', "--tools", folder / "tools.json")
    expect("own 1", "--tools", folder / "tools.json", "--template", folder / "own.jinja")
    expect('[{"name": "f"}]', given=b'{"messages": [{"role": "user"}], "tools": [{"name": "f"}]}')
    (folder / "messages.json").write_bytes(hello)
    expect("user: Hi<|endoftext|>", "--messages", folder / "messages.json", "--template", "default", given=b"")
    ids = works(*chat, "--ids", text=hello).split()
    whole = works("tokenizer", "encode", "--tokenizer", tok, "--special-tokens", "--text", "user: Hi<|endoftext|>")
    if ids != whole.split() or len(ids) != 9:
        raise wrong(f"the ids of a prompt are {ids}, not {whole}")
    refuses("the user begins", *chat, text=b'[{"role": "system", "content": "x"}]')
    refuses("not JSON", *chat, text=b"Hi")
    refuses("empty", *chat, text=b"[]")
    refuses("--set", *chat, "--set", "x", text=hello)
    refuses("only default, tool_use", *chat, "--template", "rag", text=hello)
    refuses("leave out one", *chat, "--continue-final-message", "--add-generation-prompt", text=hello)
    (folder / "own.jinja").write_text("\n{% include 'x' %}")
    refuses("line 2: the tag {% include %}", *chat, "--template", folder / "own.jinja", text=hello)


SMALL = ["--num-layers", 2, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 6, "--lr", 1e-3,
         "--eval-iters", 1, "--eval-interval", 3, "--threads-per-worker", 1]
MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100]


def check_help(folder):
    for command in ["", "tokenizer", "tokenizer train", "tokenizer encode", "tokenizer decode", "tokenizer chat",
                    "preprocess", "conversations", "merge-datasets", "train", "train gpt", "plot", "checkpoint",
                    "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint diff",
                    "checkpoint export", "checkpoint import",
                    "eval", "generate", "layout", "completion", "completion bash", "manual", "memory", "doctor",
                    "schedule", "schedule plan", "schedule check", "schedule simulate"]:
        page = works(*command.split(), "--help")
        if not page.startswith(f"troupe {command}".strip() + ":"):
            raise wrong(f"the help of '{command}' does not begin with its name:\n{page[:200]}")
        if max(map(len, page.splitlines())) > 80:
            raise wrong(f"the help of '{command}' is wider than 80 columns")
    works("--version")
    if "--fp16" not in works("train", "gpt", "--help-megatron"):
        raise wrong("--help-megatron does not list --fp16")


def check_words(folder):
    refuses("did you mean 'train'?", "trian")
    refuses("needs a command: gpt", "train")
    refuses("did you mean --num-layers?", "train", "gpt", "--num-lyers", 3)
    refuses("is refused", "train", "gpt", "--fp8-format", "hybrid")
    refuses("--micro-batch-size is missing", "train", "gpt")
    refuses("'x' is a word too many", "generate", "x")


def check_output(folder):
    """Standard output that cannot be written is an error, too."""
    with open("/dev/full", "w") as full:
        for words in [["--help"], ["train", "gpt", "--dry-run", *map(str, SMALL + MOCK)]]:
            done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE)
            if done.returncode != 2 or b"standard output" not in done.stderr:
                raise wrong(f"{words[0]} > /dev/full: {done.returncode} {done.stderr}")
            if b"No space left" not in done.stderr:
                raise wrong(f"{words[0]} > /dev/full does not say why: {done.stderr}")


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
    refuses("vocab.json", "tokenizer", "encode", "--tokenizer", folder / "gone", "--text", "x")
    (tok / "config.json").write_text('{"model_type": "qwen2"}')
    refuses("tokenizer.json", "tokenizer", "encode", "--tokenizer", tok, "--text", "x")
    (tok / "config.json").unlink()
    hub = ["--tokenizer-type", "HuggingFaceTokenizer"]
    refuses("--tokenizer-model FILE", "tokenizer", "encode", *hub, "--text", "x")
    refuses("say it twice", "tokenizer", "encode", "--tokenizer", tok, *hub, "--tokenizer-model", tok,
            "--text", "x")
    refuses("--tokenizer-type HuggingFaceTokenizer", "tokenizer", "encode", "--tokenizer-model", tok,
            "--text", "x")
    refuses("--vocab-file", "tokenizer", "encode", *hub, "--vocab-file", "x", "--text", "x")
    if works("tokenizer", "encode", *hub, "--tokenizer-model", tok, "--text", "in") != works(
            "tokenizer", "encode", "--tokenizer", tok, "--text", "in"):
        raise wrong("a folder is found by its model otherwise than as a folder")
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
    refuses("nothing says how it cuts a text", "tokenizer", "encode", "--tokenizer-type", "TikTokenizer",
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
        raise wrong(f"one document is not told as one:\n{out}")


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
        raise wrong(f"30 conversations are not told:\n{out}")
    tuned = ["train", "gpt", *SMALL, "--sft", "--tokenizer", tok, "--split", "90,10,0"]
    said = works(*tuned, "--data-path", folder / "talks_conversations", "--dry-run")
    if not (found := re.search(r"of the samples of an epoch ([0-9.]+) % is padding", said)) or float(found[1]) >= 100:
        raise wrong(f"how much is padding is not told:\n{said}")
    works(*tuned, "--data-path", folder / "talks_conversations")
    refuses("is a file of conversations", *tuned, "--data-path", folder / "talks.jsonl")
    refuses("no data set of conversations", *tuned, "--data-path", folder / "talks_conversations_answers")
    refuses("--sft", *tuned, "--data-path", folder / "talks_conversations", "--eod-mask-loss")
    works(*tuned, "--data-path", folder / "talks_conversations", "--calculate-per-token-loss")


def check_fim(folder):
    """With a tokenizer that has the tokens, samples are cut; without them all are named."""
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


def check_dry_run(folder):
    page = works("train", "gpt", "--dry-run", *SMALL, *MOCK, "--pipeline-model-parallel-size", 2,
                 "--world-size", 4, "--micro-batch-size", 1)
    for expected in ["start       from iteration 0", "all ranks", "rank 3", "replica 1, stage 1", "0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "head"]:
        if expected not in page:
            raise wrong(f"'{expected}' is not in the dry run:\n{page}")
    if "this machine has" in page:
        raise wrong(f"a tiny model is said to be too large:\n{page}")
    page = works("train", "gpt", "--dry-run", *SMALL, *MOCK, "--world-size", 1, "--threads-per-worker", 1,
                 "--micro-batch-size", SMALL[SMALL.index("--global-batch-size") + 1])
    for expected in ["1 replica x 1 micro-batch x", "1 worker (", "1 tensor rank x 1 pipeline stage, 1 replica;",
                     "1 thread each", "1 micro-batch a worker"]:
        if expected not in page:
            raise wrong(f"'{expected}' is not in the dry run of one worker:\n{page}")


def check_too_large(folder):
    """What no memory can hold is refused before data are opened; a plan may be for another machine."""
    train = ["train", "gpt", *SMALL, *MOCK, "--seq-length", 100000000, "--position-embedding-type", "rope"]
    page = works(*train, "--dry-run")
    warning = [line for line in page.splitlines() if line.startswith("warning ")]
    for expected in ["TB, and this machine has", "--seq-length", "--recompute-granularity full", "more memory"]:
        if len(warning) != 1 or expected not in warning[0]:
            raise wrong(f"a dry run does not warn of '{expected}':\n{page}")
    refuses("TB, and this machine has", *train, "--save", folder / "run")
    if (folder / "run").exists():
        raise wrong("a refused run left a folder behind")
    if "--recompute-granularity" in works(*train, "--recompute-granularity", "full", "--recompute-method",
                                          "uniform", "--recompute-num-layers", 1, "--dry-run"):
        raise wrong("what is given already is asked for")


def check_layout(folder):
    """The sixteen ranks of Megatron-LM's own documentation, and what is said about what cannot be."""
    words = ["layout", "--world-size", 16, "--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 4]
    found = json.loads(works(*words, "--json"))
    pairs = [[2 * i, 2 * i + 1] for i in range(8)]
    expected = {"TP": pairs, "ETP": pairs, "CP": [[i] for i in range(16)],
                "DP": [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]],
                "PP": [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]],
                "TP-PP": [[0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]],
                "embedding": [[0, 12], [1, 13], [2, 14], [3, 15]],
                "position embedding": [[0], [1], [2], [3]]}
    for name, groups in expected.items():
        if found["groups"][name] != groups:
            raise wrong(f"{name}: {found['groups'][name]}, expected {groups}")
    if found["ranks"][13] != {"rank": 13, "tp": 1, "cp": 0, "dp": 0, "pp": 3, "etp": 1, "ep": 0, "edp": 0}:
        raise wrong(f"rank 13 stands at {found['ranks'][13]}")
    page = works(*words)
    if "TP-PP               [0,1,4,5,8,9,12,13] [2,3,6,7,10,11,14,15]\n" not in page:
        raise wrong(f"the page does not show the groups:\n{page}")
    golden = json.loads((pathlib.Path(__file__).parents[1] / "golden/layout/golden.json").read_text())
    names = {"tp": "TP", "cp": "CP", "dp": "DP", "dp-cp": "DP-CP", "pp": "PP", "tp-pp": "TP-PP", "expert ep": "EP",
             "expert tp": "ETP", "expert dp": "EDP", "embedding": "embedding",
             "position embedding": "position embedding"}
    for c in golden["layouts"]:
        groups = json.loads(works(
            "layout", "--world-size", c["world"], "--tensor-model-parallel-size", c["tp"],
            "--context-parallel-size", c["cp"], "--expert-model-parallel-size", c["ep"],
            "--expert-tensor-parallel-size", c["etp"], "--pipeline-model-parallel-size", c["pp"],
            "--order", c["order"], "--json"))["groups"]
        for theirs, ours in names.items():
            if groups.pop(ours) != c["groups"][theirs]:
                raise wrong(f"{ours} of {c} is not megatron-core's")
        if groups:
            raise wrong(f"nobody judges {list(groups)}")
    if json.loads(works(*words, "--use-tp-pp-dp-mapping", "--json"))["order"] != "tp-cp-ep-pp-dp":
        raise wrong("--use-tp-pp-dp-mapping does not give its order")
    refuses("would do: 16", *words, "--world-size", 15)
    refuses("is not an axis", *words, "--order", "tp-pp-xx")
    refuses("leaves out dp", *words, "--order", "tp-pp")
    refuses("let pp be last", *words, "--expert-model-parallel-size", 2, "--order", "tp-cp-ep-pp-dp")
    refuses("more than are drawn", "layout", "--tensor-model-parallel-size", 65536, "--context-parallel-size", 65536)


# What cannot be, the rule that is told, and what is offered instead: with it the run can start.
CUT = ["--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 32,
       "--micro-batch-size", 2, "--global-batch-size", 8, "--train-iters", 2, "--lr", 1e-3,
       "--eval-iters", 0, "--threads-per-worker", 1, *MOCK]
TP, PP, DP = "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--world-size"
STAGES, FIRST, LAST = ("--pipeline-model-parallel-layout", "--decoder-first-pipeline-num-layers",
                       "--decoder-last-pipeline-num-layers")
FULL = ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers"]
GROUPS = ["--group-query-attention", "--num-query-groups"]
IMPOSSIBLE = [
    ([TP, 8], "--num-attention-heads 4 is not a multiple of --tensor-model-parallel-size 8", [TP, 4]),
    ([TP, 3, "--num-attention-heads", 8], "--num-attention-heads 8 is not a multiple", [TP, 2]),
    ([TP, 4, *GROUPS, 2], "--num-query-groups 2 is not a multiple", [TP, 2]),
    ([TP, 4, *GROUPS, 2], "--num-query-groups 2 is not a multiple", [*GROUPS, 4]),
    ([TP, 2, *GROUPS, 1], "--num-query-groups 1 is not a multiple", [TP, 1]),
    ([*GROUPS, 3], "--num-query-groups 3 does not divide", [*GROUPS, 2]),
    ([TP, 4, "--ffn-hidden-size", 90], "--ffn-hidden-size 90 is not a multiple", ["--ffn-hidden-size", 92]),
    ([TP, 0], "--tensor-model-parallel-size '0'", [TP, 1]),
    (["--num-attention-heads", 3], "--hidden-size 64 is not a multiple of --num-attention-heads 3",
     ["--hidden-size", 63]),
    (["--hidden-size", 65], "--hidden-size 65 is not a multiple", ["--hidden-size", 64]),
    (["--position-embedding-type", "rope", "--kv-channels", 7], "is not an even number",
     ["--rotary-percent", 0.857143]),
    ([PP, 3], "does not divide --num-layers 4", [PP, 2]),
    ([PP, 3], "does not divide --num-layers 4", [STAGES, "Et|t|t*2L"]),
    ([PP, 8], "does not divide --num-layers 4", [STAGES, "E|t||t||t||tL"]),
    ([PP, 3, FIRST, 3], "that leaves 1 layers for 2 stages to share evenly", [FIRST, 2]),
    ([PP, 2, FIRST, 3, LAST, 2], "that is 5 layers on 2 stages", [FIRST, 2]),
    ([PP, 2, STAGES, "Et|tL"], "write 2 more t", [STAGES, "Et|tttL"]),
    ([PP, 3, STAGES, "Et|tttL"], "give it 2", [PP, 2]),
    ([STAGES, "Et|tttL"], "give it 2", [PP, 2]),
    ([DP, 3], "--global-batch-size 8 is not a multiple", ["--global-batch-size", 6]),
    ([DP, 8], "--global-batch-size 8 is not a multiple", ["--global-batch-size", 16]),
    (["--replicas-per-worker", 3], "the 3 data-parallel replicas", ["--global-batch-size", 6]),
    (["--global-batch-size", 7], "--global-batch-size 7 is not a multiple", ["--global-batch-size", 6]),
    ([DP, 3, PP, 2], "tensor 1 x context 1 x pipeline 2 = 2", [DP, 4]),
    ([DP, 6, TP, 4], "is not a multiple of tensor 4", [DP, 8]),
    ([DP, 2, TP, 2, PP, 2], "is not a multiple of tensor 2 x context 1 x pipeline 2", [DP, 4]),
    ([TP, 4, "--sequence-parallel", "--micro-batch-size", 1, "--seq-length", 30],
     "--seq-length 30 tokens over --tensor-model-parallel-size 4", ["--seq-length", 32]),
    (["--max-position-embeddings", 16], "positions are learned and --seq-length is 32",
     ["--max-position-embeddings", 32]),
    (["--overlap-param-gather", "--overlap-grad-reduce"], "--use-distributed-optimizer has sharded",
     ["--use-distributed-optimizer"]),
    (["--overlap-param-gather", "--use-distributed-optimizer"], "needs --overlap-grad-reduce",
     ["--overlap-grad-reduce"]),
    (["--recompute-granularity", "full"], "needs --recompute-method", [*FULL, 1]),
    ([*FULL, 5], "a pipeline stage has 4 layers", [*FULL, 4]),
    ([*FULL, 3, PP, 2], "a pipeline stage has 2 layers", [*FULL, 2]),
    (["--recompute-modules", "mlp"], "belongs to --recompute-granularity selective",
     ["--recompute-granularity", "selective"]),
    (["--context-parallel-size", 2], "does not cut samples", ["--context-parallel-size", 1]),
    (["--expert-model-parallel-size", 2], "has no mixture-of-experts", ["--expert-model-parallel-size", 1]),
    ([DP, 2, "--plant-fault", "wire:0.0@1"], "wire:R.P.T with --overlap-grad-reduce",
     ["--overlap-grad-reduce"]),
]


def check_impossible(folder):
    """Refused before a worker starts, with the rule and something that works: which does work."""
    made = [folder / "save", folder / "log"]
    for words, rule, instead in IMPOSSIBLE:
        train = ["train", "gpt", *CUT, *words]
        refuses(rule, *train, "--save", made[0], "--log-file", made[1])
        if any(x.exists() for x in made):
            raise wrong(f"{words} were refused, but left something behind")
        code, _, err = run(*train)
        if str(instead[-1]) not in err and "more t" not in rule:
            raise wrong(f"{words} are refused without a word of {instead}:\n{err}")
        works(*train, *instead, "--dry-run")  # the last of two holds


def check_arrangements(folder):
    """One run in many arrangements: those that promise the same bits give them, the others nearly."""
    distributed = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--ddp-bucket-size", 5000]
    long = [*CUT, "--seq-length", 256]  # of made-up data there are fewer long samples to index
    two = [DP, 2]
    alike = {"replicas": two,
             "in_turn": ["--replicas-per-worker", 2],
             "stages": [DP, 8, PP, 4, "--use-tp-pp-dp-mapping"],
             "uneven": [DP, 4, PP, 2, STAGES, "Et*3|tL"],
             "distributed": [*two, *distributed, "--overlap-param-gather"],
             "again": [*two, *FULL, 2],
             "all": [DP, 2, PP, 2, "--replicas-per-worker", 2, *distributed, "--recompute-activations"]}
    cut = {"tensor": [DP, 4, TP, 2],
           "tensor_in_turn": [TP, 2, "--replicas-per-worker", 2],
           "tensor_all": [DP, 8, TP, 2, PP, 2, *distributed, "--overlap-param-gather", *FULL, 1]}
    rows = {"rows": [DP, 4, TP, 2, "--sequence-parallel"],
            "rows_all": [DP, 8, TP, 2, PP, 2, "--sequence-parallel", *distributed]}
    for precision in [[], ["--bf16"]]:
        for group in [alike, cut, rows]:
            first = None
            for name, words in group.items():
                to = folder / f"{name}{len(precision)}"
                works("train", "gpt", *long, *precision, *words, "--save", to)
                first = first or to
                code, page, err = run("checkpoint", "diff", first, to)
                if code != 0 or "equal to the bit" not in page.splitlines()[-1]:
                    raise wrong(f"{to.name} has not the state of {first.name}: {code}\n{page}{err}")
    # Across tensor sizes sums have another order: AdamW's first steps of 1e-3 differ by less.
    code, page, _ = run("checkpoint", "diff", folder / "replicas0", folder / "tensor0", "--json")
    largest = json.loads(page)["summary"]["largest"]
    if code != 1 or not 0 < largest < 1e-3:
        raise wrong(f"two tensor ranks and one worker differ by {largest}: {code}\n{page[:500]}")
    # Whichever fails in them, the run says which, and ends.
    for who in ["stage:0.0.1", "lane:1.1", "wire:1.0.1"]:
        code, _, err = run("train", "gpt", *long, *cut["tensor_all"], "--plant-fault", f"{who}@2")
        if code != 3 or f"injected for {who}@2" not in err or f"stage:{who.split(':')[1]}" not in err:
            raise wrong(f"a fault of {who}: exit code {code}\n{err}")
    # And one goes on from another.
    page = works("train", "gpt", *long, *cut["tensor_all"], "--load", folder / "replicas0", "--train-iters", 4,
                 "--override-opt_param-scheduler", "--save", folder / "on", "--log-file", folder / "log")
    if sorted(digests(folder / "log")) != [3, 4]:
        raise wrong(f"a run that goes on under another layout has other steps:\n{page}")


def check_data(folder):
    tok = tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d",
          "--tokenizer", tok, "--append-eod")
    train = ["train", "gpt", *SMALL, "--tokenizer", tok, "--data-path"]
    good = folder / "d_text_document"
    works(*train, good, "--dry-run")
    refuses("gone", *train, folder / "gone")
    index = good.with_suffix(".idx").read_bytes()
    for name, damaged in [("cut", index[:40]), ("foreign", b"not an index" + index[12:]),
                          ("empty", b"")]:
        (folder / f"{name}.idx").write_bytes(damaged)
        (folder / f"{name}.bin").write_bytes(good.with_suffix(".bin").read_bytes())
        refuses(f"{name}.idx", *train, folder / name)
    (folder / "short.idx").write_bytes(index)
    (folder / "short.bin").write_bytes(good.with_suffix(".bin").read_bytes()[:100])
    refuses("short", *train, folder / "short")


def record(iteration):
    return '{"iteration": %d, "lm_loss": %f}\n' % (iteration, 5 / iteration)


def check_plot(folder):
    log = folder / "a.jsonl"
    log.write_text(record(1) + record(2) + '{"iteration": 3, "lm\n' + record(4) + '{"iter')
    refuses("name another file", "plot", log, "--output", log)
    code, _, err = run("plot", log, "--output", folder / "loss.svg")
    if code != 0 or "line 3" not in err or "line 5" in err:
        raise wrong(f"a torn line is not left out with a warning: {code} {err}")
    (folder / "real").mkdir()
    (folder / "link.svg").symlink_to("real/loss.svg")
    works("plot", log, "--output", folder / "link.svg")
    if not (folder / "link.svg").is_symlink() or not (folder / "real/loss.svg").exists():
        raise wrong("a link was replaced by the picture")
    (folder / "out").symlink_to("/dev/stdout")
    if not works("plot", log, "--output", folder / "out").rstrip().endswith("</svg>"):
        raise wrong("the picture is not on standard output")
    if not (folder / "out").is_symlink():
        raise wrong("a link to a device was replaced by the picture")
    if not works("plot", log, "--output", "-").rstrip().endswith("</svg>"):
        raise wrong("- is not standard output")
    refuses("rsvg-convert", "plot", log, "--output", folder / "loss.png")


def check_resume(folder):
    """What a run may go on from, and that its log is then that of one run."""
    saved, log = folder / "run", folder / "log.jsonl"
    train = ["train", "gpt", *SMALL, *MOCK]
    mine = [*train, "--save", saved, "--load", saved, "--log-file", log, "--save-interval", 2]
    refuses("neither a manifest.json", *train, "--load", folder / "gone")
    refuses("neither a manifest.json", *train, "--save", folder / "none", "--load", folder / "none",
            "--exit-on-missing-checkpoint")
    refuses("--exit-on-missing-checkpoint needs --load", *train, "--exit-on-missing-checkpoint")
    if folder.joinpath("gone").exists() or folder.joinpath("run").exists():
        raise wrong("a refused run left a folder behind")
    works(*mine)

    def digests():
        return [line.split("state_digest")[-1] for line in log.read_text().splitlines()]

    whole = digests()
    log.write_text(log.read_text() + '{"iteration": 7, "lm_l')
    works(*mine)
    if digests() != whole:
        raise wrong("the torn last line of the log is still there")
    works(*mine, "--load", saved / "iter_0000002")
    if digests() != whole:
        raise wrong(f"the log of a resumed run is not that of an unbroken one:\n{log.read_text()}")
    refuses("holds iteration 6 of another run", *train, "--save", saved)
    refuses('hidden: checkpoint 32, this run 64', *mine, "--hidden-size", 64)
    refuses('positions: checkpoint 16, this run 32', *mine, "--seq-length", 32)
    works(*mine, "--exit-on-missing-checkpoint")
    longer = [*mine, "--override-opt_param-scheduler", "--train-iters"]
    code, _, err = run(*longer, 7, "--hidden-dropout", 0)
    if code != 0 or "model/hidden_dropout: checkpoint 0.1, this run 0.0" not in err or "seed" in err:
        raise wrong(f"another dropout is no warning that names it: {code} {err}")
    out = works(*longer, 5, "--hidden-dropout", 0)
    if "nothing to do: iteration 7 of 5" not in out or "give more --train-iters" not in out or "--override-opt_param-scheduler" not in out:
        raise wrong(f"a run that is past its end does not say so:\n{out}")
    if "peak memory per worker" in out or "resuming" in out:
        raise wrong(f"a run without a step tells of memory:\n{out}")
    if "start       from iteration 7 of 9" not in works(*longer, 9, "--dry-run"):
        raise wrong("a dry run does not say where the run would start from")
    refuses("hidden: checkpoint 32, this run 64", *mine, "--hidden-size", 64, "--dry-run")
    refuses("holds iteration 7", *train, "--save", saved, "--dry-run")
    refuses("is not a folder", *train, "--save", log / "x", "--dry-run")
    refuses("each its own", *train, "--log-file", folder / "x", "--trace", folder / "x")
    refuses("names no actor", *train, "--plant-fault", "prompter@3")
    (folder / "thesis.txt").write_text("Chapter 1\n")
    refuses("is no log", *train, "--log-file", folder / "thesis.txt")
    code, _, err = run(*train, "--trace", "/dev/full")
    if code != 2 or "the trace is lost" not in err:
        raise wrong(f"a lost trace is not told: {code} {err}")


def digests(log):
    """Of each step in a log, by iteration."""
    out = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if "state_digest" in entry:
            out[entry["iteration"]] = entry["state_digest"]
    return out


def check_schedule(folder):
    """Another learning rate is refused at resume, until a flag says which holds."""
    train = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "run", "--load", folder / "run"]
    works(*train)
    override, keep = "--override-opt_param-scheduler", "--use-checkpoint-opt_param-scheduler"
    other = [*train, "--lr", 2e-3, "--weight-decay", 0.1, "--lr-decay-style", "cosine"]
    for expected in ["--lr: checkpoint 0.001, this run 0.002", "--weight-decay: checkpoint 0.01, this run 0.1",
                     "style: checkpoint linear, this run cosine", override, keep]:
        refuses(expected, *other)
    refuses("another schedule", *other, "--dry-run")
    refuses("another schedule", *train, "--train-iters", 9)
    refuses("contradict each other", *train, override, keep)
    if "0.002 to 0" not in works(*other, override, "--dry-run"):
        raise wrong(f"{override} does not take the rate of the command line")
    page = works(*other, keep, "--dry-run")
    if "0.001 to 0" not in page or "linear" not in page or "identity" in page:
        raise wrong(f"{keep} does not take the rate of the checkpoint:\n{page}")
    works(*other, keep, "--train-iters", 8)
    works(*other, override, "--train-iters", 9)


def check_finetune(folder):
    """Parameters only: everything else begins again."""
    train = ["train", "gpt", *SMALL, *MOCK]
    works(*train, "--save", folder / "base")
    tune = [*train, "--finetune", "--load", folder / "base", "--lr", 3e-3]
    refuses("--finetune needs --load", *train, "--finetune")
    refuses("neither a manifest.json", *train, "--finetune", "--load", folder / "gone", "--save",
            folder / "gone")
    refuses("--finetune begins again at 0", *tune, "--save", folder / "base")
    refuses("hidden: checkpoint 32, this run 64", *tune, "--hidden-size", 64)
    if "from iteration 0, with the parameters of" not in works(*tune, "--dry-run"):
        raise wrong("a dry run does not tell of --finetune")
    works(*tune, "--save", folder / "tuned", "--log-file", folder / "log", "--log-interval", 1)
    first = json.loads((folder / "log").read_text().splitlines()[0])
    if first["iteration"] != 1 or first["learning_rate"] != 3e-3:
        raise wrong(f"the first step of --finetune is not that of a new run: {first}")
    # Padding rows are not stored: another padding is the same model.
    works(*tune, "--make-vocab-size-divisible-by", 8, "--log-file", folder / "padded")
    padded = json.loads((folder / "padded").read_text().splitlines()[0])
    if abs(padded["lm_loss"] - first["lm_loss"]) > 1e-5:  # products of other shapes round otherwise
        raise wrong(f"another padding is another model: {padded} {first}")


def check_moments(folder):
    """--no-load-optim: moments from zero, and what goes on from there knows since when."""
    train = ["train", "gpt", *SMALL, *MOCK]
    works(*train, "--save", folder / "base")
    def go_on(name, load, *more):
        works(*train, "--train-iters", 12, "--save", folder / name, "--load", load, "--log-file",
              folder / f"{name}.log", *more)
    go_on("whole", folder / "base", "--no-load-optim")
    go_on("parts", folder / "base", "--no-load-optim", "--exit-interval", 8)
    go_on("parts", folder / "parts", "--strict-identity")
    whole, parts = digests(folder / "whole.log"), digests(folder / "parts.log")
    if sorted(whole) != list(range(7, 13)) or whole != parts:
        raise wrong(f"iterations of a resumed --no-load-optim differ:\n{whole}\n{parts}")
    page = works(*train, "--train-iters", 12, "--load", folder / "base", "--no-load-optim",
                 "--no-load-rng", "--dry-run")
    if "from iteration 6 of 12" not in page or "moments from zero" not in page:
        raise wrong(f"a dry run does not tell of --no-load-optim:\n{page}")


def check_identity(folder):
    """What differs at resume is told, and refused where bits were asked for."""
    train = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "run", "--load", folder / "run"]
    works(*train)
    again = [*train, "--dry-run"]
    if "warning" in works(*again, "--strict-identity"):
        raise wrong("the same run has another identity")
    refuses("threads_per_worker: checkpoint 1, this run 2", *again, "--strict-identity",
            "--threads-per-worker", 2)
    refuses("layout/pipeline: checkpoint 1, this run 2", *again, "--strict-identity",
            "--pipeline-model-parallel-size", 2)
    refuses("which --finetune gives up", *again, "--strict-identity", "--finetune")
    page = works(*again, "--pipeline-model-parallel-size", 2)
    if "results agree with those of the other layout" not in page or "another identity" in page:
        raise wrong(f"another layout is not told as what it is:\n{page}")
    manifest = next((folder / "run").glob("iter_*/manifest.json")).read_text()
    build = json.loads(manifest)["identity"]["build"]
    if not {"version", "compiler", "libc"} <= set(build) or "/" in json.dumps(build):
        raise wrong(f"the build is not in the identity: {build}")


def check_keep_last(folder):
    train = ["train", "gpt", *SMALL, *MOCK, "--save-interval", 1, "--keep-last", 2]
    refuses("--keep-last needs --save", *train[:-4], "--keep-last", 2)
    works(*train, "--save", folder / "run")
    left = sorted(x.name for x in (folder / "run").glob("iter_*"))
    if left != ["iter_0000005", "iter_0000006"]:
        raise wrong(f"--keep-last 2 left {left}")


def narrow(page):
    """A page that fits into 80 columns."""
    if max(map(len, page.splitlines())) > 80:
        raise wrong(f"wider than 80 columns:\n{page}")
    return page


def check_checkpoint(folder):
    """Lists, shows, verifies and compares what two layouts saved, then what is damaged."""
    train = ["train", "gpt", *SMALL, *MOCK, "--save-interval", 3]
    a, b = folder / "a", folder / "b"
    works(*train, "--save", a)
    works(*train, "--save", b, "--pipeline-model-parallel-size", 2)
    page = narrow(works("checkpoint", "ls", a))
    lines = page.splitlines()
    if len(lines) != 3 or not lines[2].startswith("*         6") or not lines[1].endswith("sound"):
        raise wrong(f"ls does not list two sound checkpoints:\n{page}")
    if "world 2 pp 2" not in works("checkpoint", "ls", b / "iter_0000003"):
        raise wrong("ls does not tell the layout")
    listed = json.loads(works("checkpoint", "ls", a, "--json"))
    if [(x["iteration"], x["tracked"]) for x in listed] != [(3, False), (6, True)]:
        raise wrong(f"ls --json: {listed}")
    page = narrow(works("checkpoint", "show", a, "--tensors"))
    for expected in ["iteration   6, 24 samples", "hidden 32", "seed 1234", "build/version",
                     "model-00001-of-00001.safetensors", "exp_avg_sq.decoder.layers.1.", "(96, 32)"]:
        if expected not in page:
            raise wrong(f"show does not tell '{expected}':\n{page}")
    shown = json.loads(works("checkpoint", "show", a, "--tensors", "--json"))
    if {"name": "decoder.final_layernorm.bias", "dtype": "F32", "shape": [32],
            "pieces": 1} not in shown["tensors"] or shown["model"]["hidden"] != 32:
        raise wrong(f"show --json: {shown}")
    code, page, err = run("checkpoint", "diff", a, b)
    if code != 0 or "equal to the bit" not in narrow(page).splitlines()[-1] or err:
        raise wrong(f"another pipeline gave another state: {code}\n{page}{err}")
    if "identity    layout/pipeline: 1 in A, 2 in B" not in page:
        raise wrong(f"diff does not tell the layouts:\n{page}")
    code, page, _ = run("checkpoint", "diff", a, b / "iter_0000003")
    if code != 1 or "differ by at most" not in narrow(page) \
            or "different by at most" not in page.splitlines()[-1]:
        raise wrong(f"diff of two iterations: {code}\n{page}")
    code, page, _ = run("checkpoint", "diff", a, a / "iter_0000003", "--json")
    found = json.loads(page)
    if code != 1 or found["equal"] or found["state"][1]["a"] != 6 \
            or found["summary"]["largest"] <= 0:
        raise wrong(f"diff --json: {code}\n{page}")
    works(*train[:2], "--num-layers", 3, *SMALL[2:], *MOCK, "--save", folder / "c")
    code, page, _ = run("checkpoint", "diff", a, folder / "c")
    last = page.splitlines()[-1]
    if code != 1 or "only in B" not in last or "other models" not in last:
        raise wrong(f"diff of two models: {code}\n{page}")
    code, page, err = run("checkpoint", "verify", a)
    if code != 0 or page.count("valid: all hashes match") != 2 or err:  # nobody sees a bar here
        raise wrong(f"verify: {code}\n{page}{err}")
    refuses("name one folder", "checkpoint", "ls")
    refuses("name two folders", "checkpoint", "diff", a)
    refuses("there is no folder", "checkpoint", "show", folder / "gone")
    refuses("has no checkpoint", "checkpoint", "verify", folder)
    shard = a / "iter_0000006" / "optimizer-00001-of-00001.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    for words in [["verify", a], ["verify", a / "iter_0000006"], ["diff", a, b]]:
        refuses("in tensor 'exp_avg_sq.", "checkpoint", *words)
    code, page, _ = run("checkpoint", "verify", a, "--json")
    if code != 2 or [x["sound"] for x in json.loads(page)] != [True, False]:
        raise wrong(f"verify --json: {code}\n{page}")
    shard.write_bytes(data[:-1])
    code, page, _ = run("checkpoint", "ls", "a", cwd=folder)
    if code != 0 or "wrong" not in narrow(page) or "incomplete" not in page:
        raise wrong(f"ls does not tell what is wrong:\n{page}")
    refuses("should have", "checkpoint", "show", a)


def check_hub(folder):
    code, _, err = run("train", "gpt", *SMALL[8:], *MOCK, "--load-hf", folder)
    if code != 2 or "config.json" not in err or "tokens" in err:
        raise wrong(f"a missing config.json is not the only thing told: {code} {err}")


def check_null_tokenizer(folder):
    """Ids are words: the prompt and what goes on are told apart."""
    works("train", "gpt", *SMALL, *MOCK, "--save", folder / "run")
    text = works("generate", "--load", folder / "run", "--prompt", "1 2", "--tokens", 2, "--greedy")
    if not text.startswith("1 2 "):
        raise wrong(f"prompt and continuation are glued: {text}")


def check_model(folder):
    """Trains for a few steps, then uses what was saved, and what is damaged."""
    tok = tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d",
          "--tokenizer", tok, "--append-eod")
    saved, log = folder / "run", folder / "log.jsonl"
    train = ["train", "gpt", *SMALL, "--tokenizer", tok, "--data-path", folder / "d_text_document",
             "--split", "90,10,0", "--save", saved, "--load", saved, "--log-file", log,
             "--pipeline-model-parallel-size", 2, "--world-size", 4, "--micro-batch-size", 1]
    works(*train)
    tok.rename(folder / "moved")  # the checkpoint does not need it any more
    ask = ["generate", "--load", saved, "--tokens", 12, "--prompt", "The actor", "--greedy"]
    text = works(*ask)
    if not text.startswith("The actor") or text != works(*ask, "--no-cache"):
        raise wrong(f"greedy text differs without the cache: {text}")
    works("generate", "--load", saved, "--tokens", 3)
    page = works("eval", "--load", saved, "--input", folder / "text.txt", "--trigram-from",
                 folder / "text.txt")
    if "bits per byte" not in page or "trigram" not in page:
        raise wrong(page)
    works("plot", log, "--output", folder / "loss.svg")
    if "validation" not in (folder / "loss.svg").read_text():
        raise wrong("the picture has no validation loss")
    refuses("exclude each other", *ask[:-1], "--top-k", 3, "--top-p", 0.5)
    refuses("--load DIR is missing", "generate")
    refuses("no such folder", "generate", "--load", folder / "gone")
    refuses("no checkpoint", "generate", "--load", folder / "moved")
    (folder / "empty.txt").write_text("")
    refuses("nothing to evaluate", "eval", "--load", saved, "--input", folder / "empty.txt")
    refuses("line 1", "plot", folder / "text.txt")
    shard = next(saved.glob("iter_*/model-00001*"))
    shard.write_bytes(shard.read_bytes()[:-7] + b"damaged")
    refuses("", "generate", "--load", saved)
    shard.write_bytes(shard.read_bytes()[:100])
    refuses("", "generate", "--load", saved)


def main(program, names, found=None):
    """Runs the checks among `found`, the names of a module; this one's when there are none."""
    global PROGRAM
    PROGRAM = str(pathlib.Path(program).resolve())
    checks = {name[6:]: check for name, check in (found or globals()).items()
              if name.startswith("check_")}
    unknown = [name for name in names if name not in checks]
    if unknown:
        print(f"no such check: {unknown}; there are {sorted(checks)}")
        return 1
    failed = 0
    for name in names or sorted(checks):
        with tempfile.TemporaryDirectory() as folder:
            try:
                checks[name](pathlib.Path(folder))
                print(f"{name}: passed")
            except (wrong, subprocess.TimeoutExpired) as failure:
                failed += 1
                print(f"{name}: FAILED\n{failure}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
