"""Runs models of a program's own families by `troupe train` (tests/support/troupe_with_families.cpp). Run by ctest.

    own_families_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import re
import sys

import cli_test
from cli_test import refuses, works, wrong
from process_runs import PIPELINE, job, killed, replaced, require_same

TRAINING = ["--mock-data", "--micro-batch-size", 2, "--global-batch-size", 8, "--lr", 1e-3, "--log-interval", 1,
            "--vocab-size", 29, "--make-vocab-size-divisible-by", 8, "--tokenizer-type", "NullTokenizer",
            "--threads-per-worker", 1, "--eval-iters", 0, "--straggler-ratio", 0, "--backend", "cpu"]
HEADS = ["--hidden-size", 16, "--num-attention-heads", 2]
# Flags that a model needs besides its layers, and settings of it that take no 3 or need another one.
SHAPES = {"bert": [*HEADS, "--seq-length", 8],
          "t5": [*HEADS, "--encoder-seq-length", 8, "--decoder-seq-length", 6, "--t5-form", "v1.0"]}
# Flags for data sets of sentences, of the families that read them.
SENTENCES = {"bert": ["--mask-prob", 0.3], "t5": ["--mask-prob", 0.3, "--vocab-extra-ids", 8]}
VALUES = {"--relative-attention-num-buckets": 16, "--relative-attention-max-distance": 64, "--mask-prob": 0.2,
          "--short-seq-prob": 0.2}

# Flags of a family that it always refuses, with a word of the error.
REFUSED = {"t5": {"--mask-permutation": "geometric"}}
# Flags that need others; tests/command/tasks_test.py gives them together.
TOGETHER = ["--task", "--task-labels", "--task-train", "--task-valid", "--epochs"]


def shape(name, layers=4):
    """The shape of the model of a family; the toys have one of their own."""
    return [*SHAPES[name], "--num-layers", layers] if name in SHAPES else []


def training(name):
    return [*TRAINING, *shape(name)]


def families():
    names = set(re.findall(r"^ +(\w+) +trains ", works("train", "--help"), re.M)) - {"gpt"}
    if not names:
        raise wrong("the program has no family of its own, so nothing was checked")
    return sorted(names)


def run(folder, name, *words, processes):
    return job(folder, *PIPELINE, *words, base=["train", name, *training(name)], processes=processes)


def check_dry_run(folder):
    """A dry run describes the model, its data and its memory."""
    for name in families():
        page = works("train", name, *training(name), *PIPELINE, "--train-iters", 4, "--dry-run")
        for text in ("layers", "parameters", "stage"):
            if text not in page:
                raise wrong(f"the dry run of {name} does not tell of '{text}':\n{page}")
        refuses("--micro-batch-size is missing", "train", name)
        refuses("--num-layers", "train", name, *TRAINING, *SHAPES.get(name, []), "--num-layers", 0)


def flags_in(page):
    """The flags of a help, and whether each takes a value."""
    return {flag: bool(value) for flag, value in re.findall(r"^  (--[\w-]+)( [A-Z])?", page, re.M)}


def check_settings(folder):
    """Flags of a family decide its model, are kept, and are compared when a run resumes."""
    of_gpt = flags_in(works("train", "gpt", "--help"))
    text = folder / "text.txt"
    text.write_text("1 2 3\n")
    for name in families():
        for flag, takes_value in sorted(flags_in(works("train", name, "--help")).items()):
            if flag not in of_gpt and flag not in [*SHAPES.get(name, []), *TOGETHER]:
                words = ["train", name, *training(name), "--train-iters", 4, flag,
                         *([VALUES.get(flag, 3)] if takes_value else []), "--dry-run"]
                if word := REFUSED.get(name, {}).get(flag):
                    refuses(word, *words)
                else:
                    works(*words)
        three = ["--train-iters", 4, *SHAPES.get(name, []), "--num-layers", 3]
        page = works("train", name, *TRAINING, *three, "--dry-run")
        if "3 layers" not in page:
            raise wrong(f"--num-layers 3 of {name} has no effect:\n{page}")
        saved = folder / name
        whole = job(folder, *three, "--save", saved, base=["train", name, *TRAINING], processes=1).ends()
        kept = saved / "config.yaml"
        if "num-layers: 3\n" not in kept.read_text():
            raise wrong(f"{name}: the kept configuration lacks its layers:\n{kept.read_text()}")
        again = job(folder, "--config", kept, "--save", folder / f"{name}-again", base=["train", name],
                    processes=1).ends()
        require_same(again, whole, f"{name} by its kept configuration")
        refuses("layers", "train", name, "--config", kept, "--load", saved, "--num-layers", 2, "--train-iters", 8)
        for words in (["eval", "--input", text], ["generate", "--prompt", "1 2", "--tokens", 1]):
            code, _, err = cli_test.run(*words, "--load", saved)
            if code != 0 and (code != 2 or not re.search("which also reads|which the texts of a decoder need", err)):
                raise wrong(f"{words[0]} with a model of {name}: exit code {code}\n{err}")


def titles_of(page):
    """The title above each flag of a help."""
    titles, title = {}, ""
    for before, line in zip([""] + page.splitlines(), page.splitlines()):
        if line and not line.startswith(" ") and not before:
            title = line
        if flag := re.match("  (--[\\w-]+)", line):
            titles[flag[1]] = title
    return titles


def standings_in(table):
    """What the table of Megatron-LM's flags says of each flag: each time that it has the flag."""
    standings = {}
    for row in (line.split(" | ") for line in table.splitlines() if line.startswith("| `")):
        for flag in re.findall(r"`(--[\w-]+)`", row[0]):
            standings.setdefault(flag, []).append(row[1])
    return standings


def check_help(folder):
    """Help, memory and the table of Megatron-LM's flags are those of the family."""
    of_gpt = set(titles_of(works("train", "gpt", "--help")))
    table_of_gpt = standings_in(works("train", "gpt", "--help-megatron-markdown"))
    for name in families():
        titles = titles_of(works("train", name, "--help"))
        own, lacking = sorted(set(titles) - of_gpt), sorted(of_gpt - set(titles))
        if elsewhere := {flag: titles[flag] for flag in own if not titles[flag].startswith("Model")}:
            raise wrong(f"the help of {name} has flags of the model under other titles: {elsewhere}")
        table = standings_in(works("train", name, "--help-megatron-markdown"))
        if set(table_of_gpt) - set(table):
            raise wrong(f"the table of {name} lacks {set(table_of_gpt) - set(table)}")
        for flags, here in [(own, "works"), (lacking, "refused")]:
            if others := {flag: table[flag] for flag in flags if flag in table and table[flag] != [here]}:
                raise wrong(f"the table of {name} should say once of each that it is '{here}': {others}")
        words = ["--micro-batch-size", 2, "--vocab-size", 29, "--make-vocab-size-divisible-by", 8, "--backend", "cpu",
                 "--json"]
        two, three = (json.loads(works("memory", name, *words, *SHAPES.get(name, []), "--num-layers", n))["parameters"]
                      for n in (2, 3))
        if not 0 < two < three:
            raise wrong(f"`troupe memory {name}` counts {two} and {three} parameters")
        for flag in lacking[:1]:
            refuses("`troupe train gpt` has it", "memory", name, *words, flag, 64)
            refuses("`troupe train gpt` has it", "train", name, *TRAINING, flag, 64)
        for flag in own[:1]:
            refuses(flag, "memory", *words, flag, 3)


def check_processes(folder):
    """Two processes give the bits of one, also after a death."""
    for name in families():
        wanted = run(folder, name, "--train-iters", 12, processes=1).ends()
        require_same(run(folder, name, "--train-iters", 12, processes=2).ends(), wanted, f"{name} on two processes")
        long = run(folder, name, "--train-iters", 400, processes=1).ends()
        one = run(folder, name, "--train-iters", 400, processes=2)
        one.reaches(10)
        replaced(one, 1, killed(one, 1))
        one.goes_on(long, f"{name} after a death")


def check_tensors(folder):
    """Tensor ranks of replicas in two processes give the bits of one, also in narrow types."""
    layout = ["--world-size", 4, "--tensor-model-parallel-size", 2, "--sequence-parallel",
              "--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather", "--train-iters", 12]
    for name in SHAPES:
        for kind in (["--bf16"], ["--fp16", "--initial-loss-scale", 4096]):
            one, two = (job(folder, *layout, *kind, base=["train", name, *training(name)], processes=n).ends()
                        for n in (1, 2))
            require_same(two, one, f"{name} with {kind[0]} on two processes")


def check_axes(folder):
    """Axes that a family does not have are refused."""
    for name in SHAPES:
        for text, *words in [("does not split samples", "--context-parallel-size", 2),
                             ("has no mixture-of-experts", "--expert-model-parallel-size", 2),
                             ("has no mixture-of-experts", "--expert-tensor-parallel-size", 2),
                             ("sharded over replicas, which this build does not have", "--use-torch-fsdp2")]:
            refuses(text, "train", name, *training(name), "--world-size", 2, "--train-iters", 4, *words)
    refuses("7 rows of stream 'encoder'", "train", "t5", *training("t5"), "--encoder-seq-length", 7,
            "--micro-batch-size", 1, "--train-iters", 4, "--tensor-model-parallel-size", 2, "--sequence-parallel")


def check_resumed(folder):
    """A run goes on from its checkpoint under another layout with the same bits."""
    for name in families():
        whole = run(folder, name, "--train-iters", 12, processes=1).ends()
        save = ["--train-iters", 12, "--save", folder / name, "--load", folder / name]
        run(folder, name, *save, "--exit-interval", 5, processes=2).ends()
        again = job(folder, "--world-size", 2, "--use-distributed-optimizer", *save,
                    base=["train", name, *training(name)], processes=2).ends()
        found, expected = ([(x["iteration"], x["state_digest"]) for x in one.steps() if x["iteration"] > 5]
                           for one in (again, whole))
        if not found or found != expected:
            raise wrong(f"{name}: the resumed run has {found}, the whole one {expected}")


def check_files(folder):
    """Indexed files become samples of the family, with the same bits in two processes as in one."""
    text, list_of_words, lists = folder / "text.txt", folder / "vocab.txt", folder / "lists.jsonl"
    text.write_text("".join(f"{i % 29} {i * 3 % 29} {i % 7}\n" for i in range(40)))
    works("preprocess", "--input", text, "--input-format", "lines", "--output-prefix", folder / "data",
          "--tokenizer-type", "NullTokenizer", "--vocab-size", 29)
    list_of_words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(24))]) + "\n")
    lists.write_text("".join(json.dumps({"text": [f"{i % 24} {i * 3 % 24} {i % 7}", f"{i % 11} 5 {i % 3}"]}) + "\n"
                             for i in range(40)))
    wordpiece = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", list_of_words]
    works("preprocess", "--input", lists, "--output-prefix", folder / "data", "--split-sentences", *wordpiece)
    for name in families():
        of_sentences = name in SENTENCES
        data = folder / ("data_text_sentence" if of_sentences else "data_text_document")
        words = [*PIPELINE, "--train-iters", 4, "--data-path", data, "--split", "1,0,0"]
        base = ["train", name, *(word for word in training(name) if word != "--mock-data")]
        if of_sentences:
            at = base.index("--tokenizer-type")
            base[at:at + 2] = [*wordpiece, *SENTENCES[name]]
        page = works(*base, *words, "--dry-run")
        if f"{240 if of_sentences else 120} tokens in 40 documents" not in page:
            raise wrong(f"the dry run of {name} does not describe its files:\n{page}")
        one, two = (job(folder, *words, base=base, processes=n).ends() for n in (1, 2))
        require_same(two, one, f"{name} on files in two processes")


def check_bodies(folder):
    """A BERT without its heads is exported, and a run and an import from it begin the heads anew."""
    words = training("bert")
    works("train", "bert", *words, "--train-iters", 1, "--save", folder / "run")
    refuses("without its heads", "checkpoint", "export", folder / "run", "--hf", folder / "all")
    body = folder / "body"
    works("checkpoint", "export", folder / "run", "--hf", body, "--body")
    if json.loads((body / "config.json").read_text())["architectures"] != ["MegatronBertModel"]:
        raise wrong(f"{body}/config.json is not that of a MegatronBertModel")
    told = "lacks 7 parameters of heads, such as 'binary_head.bias': they begin with initial values"
    for command in (["train", "bert", *TRAINING, "--train-iters", 1, "--seq-length", 8, "--load-hf", body],
                    ["checkpoint", "import", "--hf", body, "--save", folder / "again"]):
        code, out, err = cli_test.run(*command)
        if code != 0 or (out + err).count(told) != 1:
            raise wrong(f"{command[:2]} should end with 0 and say once that heads begin anew:\n{out}{err}")
    works("train", "bert", *words, "--train-iters", 1, "--load", folder / "again", "--finetune")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
