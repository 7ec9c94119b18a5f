"""Checks the table of Megatron-LM's flags: it is complete, matches the program, and is in the documentation. Run by
ctest.

    megatron_test.py PROGRAM SOURCES
"""

import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2])
ROW = re.compile(r"^\| (`--.*`) \| (works|accepted|coming|refused) \| (.*) \|$", re.MULTILINE)
SMALL = """--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2
    --train-iters 1 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 100""".split()


# The flags of Megatron-LM's examples/bert and examples/t5, and flags that name the one value of a family.
TRAINING = """--lr 0.0001 --train-iters 1000000 --lr-decay-style linear --weight-decay 1e-2 --lr-warmup-fraction .01
    --clip-grad 1.0 --max-position-embeddings 512 --attention-backend auto --log-interval 100 --save save --load save
    --eval-interval 1000 --eval-iters 10 --tensorboard-dir events --distributed-backend nccl
    --transformer-impl transformer_engine --normalization LayerNorm --position-embedding-type learned_absolute
    --kv-channels 64 --vocab-file vocab.txt --mock-data --dry-run""".split()
SCRIPTS = {
    "bert": """--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --micro-batch-size 4
        --global-batch-size 32 --lr-decay-iters 990000 --min-lr 1.0e-5 --fp16 --tensor-model-parallel-size 8
        --pipeline-model-parallel-size 4 --split 949,50,1 --save-interval 10000 --num-query-groups 16 --add-qkv-bias
        --tokenizer-type BertWordPieceLowerCase""".split(),
    "t5": """--encoder-num-layers 12 --decoder-num-layers 12 --hidden-size 768 --num-attention-heads 12
        --ffn-hidden-size 3072 --encoder-seq-length 512 --decoder-seq-length 128 --micro-batch-size 64
        --global-batch-size 512 --lr-decay-iters 1000000 --min-lr 0.00001 --bf16 --vocab-extra-ids 100
        --init-method-std 0.015 --split 99982,9,9 --save-interval 500 --tensor-model-parallel-size 1
        --pipeline-model-parallel-size 1 --tokenizer-type BertWordPieceCase""".split(),
}


def run(*words, family="gpt", cwd=None):
    done = subprocess.run([PROGRAM, "train", family, *words], capture_output=True, text=True,
                          timeout=120, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def rows(markdown):
    for names, standing, note in ROW.findall(markdown):
        for name in re.findall(r"`(--[\w-]+)`", names):
            yield name, standing, note


def check_names(table):
    """The table has each flag of Megatron-LM once, with a reason if it has no effect."""
    names = [name for name, _, _ in table]
    lines = (SOURCES / "tests/golden/megatron/flags.txt").read_text().split("\n")
    commit, theirs = lines[0].split()[-1], [x for x in lines[1:] if x]
    if len(theirs) < 800:
        yield f"flags.txt has {len(theirs)} names only"
    for name in sorted(set(theirs) - set(names)):
        yield f"{name} of Megatron-LM has no row"
    for name in sorted(x for x in set(names) if names.count(x) > 1):
        yield f"{name} has {names.count(name)} rows"
    for name, standing, note in table:
        if standing != "works" and not note:
            yield f"{name} is {standing} without a reason"
    if commit[:12] not in run("--help-megatron")[1]:
        yield f"--help-megatron is about another commit than flags.txt: {commit}"


def check_declared(table):
    """A flag is in --help exactly if the table says that it works."""
    declared = set(re.findall(r"^  (--[\w-]+)", run("--help")[1], re.MULTILINE))
    for name, standing, _ in table:
        if (standing == "works") != (name in declared):
            yield f"the table says that {name} is {standing}, but it is " + (
                "" if name in declared else "not ") + "in --help"


def check_refused(table):
    """Gives all refused flags at once; each error has the reason from the table."""
    refused = {name: note for name, what, note in table if what in ("coming", "refused")}
    code, _, err = run(*SMALL, *refused)
    if code != 2:
        yield f"refused flags end with exit code {code}"
    for name, note in refused.items():
        if not any(f"{name} is {what}: {note}" in err for what in ("refused", "not a flag of 'troupe train gpt'")):
            yield f"{name} is not refused as the table says"


def without_time(page):
    """A dry run without its time estimate, which varies."""
    return [x for x in page.splitlines() if not x.startswith("time ")]


def check_accepted(table):
    """All accepted flags together, with their arguments, change nothing."""
    words = re.findall(r"(--[\w-]+)( X)?(?=[,:])",
                       re.sub(r"\n +", " ", run("--help-megatron")[1]))
    accepted = {name for name, what, _ in table if what == "accepted"}
    given = [word for name, value in words if name in accepted
             for word in ([name, "1"] if value else [name])]
    code, page, err = run(*SMALL, "--dry-run", *given)
    if code != 0 or without_time(page) != without_time(run(*SMALL, "--dry-run")[1]):
        yield f"accepted flags change something: exit code {code}\n{err}"
    if len(accepted - set(given)):
        yield f"not tried: {accepted - set(given)}"


def check_pointer(_):
    """The command for the whole table, in the help of all that take flags of training, prints it."""
    for command in (("train", "gpt"), ("memory",)):
        page = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True,
                              timeout=120).stdout
        named = re.search(r"`troupe ([^`]*) --help-megatron` lists all", " ".join(page.split()))
        if not named or named[1] != "train gpt":
            yield f"the help of {' '.join(command)} names {named and named[0]}"


def check_scripts(_):
    """Megatron-LM's flags of BERT and T5 work, and another value of what a family has only once is refused."""
    contradicting = {"--normalization RMSNorm": "give one of LayerNorm", "--position-embedding-type rope": "learned_absolute",
                     "--kv-channels 32": "--kv-channels is 32", "--num-query-groups 2": "--num-query-groups is 2"}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
        for family, words in SCRIPTS.items():
            code, _, err = run(*TRAINING, *words, family=family, cwd=folder)
            if code != 0:
                yield f"Megatron-LM's flags of {family} end with exit code {code}\n{err}"
        for words, reason in contradicting.items():
            given = [*TRAINING, *SCRIPTS["bert"]]
            flag, value = words.split()
            given[given.index(flag) + 1] = value
            code, _, err = run(*given, family="bert", cwd=folder)
            if code != 2 or reason not in err:
                yield f"a BERT with {words}: exit code {code}\n{err}"


def check_document(table):
    page = (SOURCES / "docs/guides/from_megatron.md").read_text()
    begin, end = "<!-- troupe train gpt --help-megatron-markdown -->\n", "<!-- end -->"
    copy = page.split(begin)[-1].split(end)[0].strip()
    if copy != run("--help-megatron-markdown")[1].strip():
        yield ("docs/guides/from_megatron.md has another table than the program: replace the text "
               "between the two comments by the output of the first")


def main():
    table = list(rows(run("--help-megatron-markdown")[1]))
    wrong = [x for check in (check_names, check_declared, check_refused, check_accepted,
                             check_pointer, check_scripts, check_document) for x in check(table)]
    print("\n".join(wrong) or f"{len(table)} flags match the table")
    return len(wrong) != 0


sys.exit(main())
