"""Makes a table of digests of the program's results, to show that a change alters no bit.

    python3 -B tests/digests/digests.py --bin build/release/bin --output before.txt
    ... the change ...
    python3 -B tests/digests/digests.py --bin build/release/bin --output after.txt --against before.txt

Each row holds outputs of the program: the digest of weights and moments after the last step
(docs/formats/log.md), the last loss and gradient norm with all digits, hashes of a checkpoint's tensors,
or hashes of generated texts. --against prints the rows that differ and exits with 1 if there are any.
--only TEXT runs the rows with TEXT in their name, --list prints all names.

The rows: the arrangements that the matrix selects (tests/matrix), all pipeline schedules, runs that were
stopped and resumed, also with another layout, BERTs and T5s in several layouts and types, and texts. Compare
digests only on one machine: its instruction set and libraries decide bits. There are about 300 runs of less
than a second each. Each worker has one thread, so the number of cores does not matter.
"""

import argparse
import hashlib
import heapq
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 61,
        "--make-vocab-size-divisible-by", 16]
COMMON = ["--eval-iters", 0, "--threads-per-worker", 1, "--no-progress", "--log-interval", 1000]
SHAPE = ["--num-layers", 4, "--hidden-size", 32, "--ffn-hidden-size", 64, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 8, "--lr", 3e-3, "--min-lr", 3e-4,
         "--lr-decay-style", "cosine", "--lr-warmup-iters", 2, "--lr-decay-iters", 50]
STEPS = 20


class failed(Exception):
    pass


class program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *words):
        words = [str(self.path), *map(str, words)]
        done = subprocess.run(words, capture_output=True, timeout=300)
        if done.returncode != 0:
            raise failed(f"exit {done.returncode}: {' '.join(words)}\n{done.stderr.decode()}")
        return done.stdout

    def trained(self, folder, *words, family="gpt"):
        """Digest, loss and norm from the last line of the log of `troupe train FAMILY`."""
        log = folder / "log.jsonl"
        self("train", family, *words, *COMMON, "--log-file", log)
        last = [x for x in map(json.loads, log.read_text().splitlines()) if "state_digest" in x][-1]
        return f"{last['state_digest']} {last['lm_loss']!r} {last['grad_norm']!r}"


# ---- arrangements ---------------------------------------------------------------------------------

FACTORS = {"TP": ["1", "2", "4"], "PP": ["1", "2", "4"], "DP": ["1", "2", "2-in-turn"],
           "rows": ["whole", "sequence"],
           "optimizer": ["whole", "whole+overlap", "distributed", "distributed+overlap"],
           "recompute": ["none", "selective", "full"], "model": ["gpt", "llama"],
           "tied": ["tied", "untied"], "dropout": ["0.1", "0"], "type": ["f32", "bf16", "f16"]}


def is_possible(row):
    x = dict(zip(FACTORS, row))
    workers = int(x["TP"]) * int(x["PP"]) * (2 if x["DP"] == "2" else 1)
    if workers > 8 or (x["rows"] == "sequence" and x["TP"] == "1"):
        return False
    return x["optimizer"] == "whole" or x["DP"] == "2"  # one rank has nothing to shard or to overlap


def selection():
    """Greedily selects the arrangement with the most new triples of choices, until all triples are covered.
    Gives the selection of tests/matrix/arrangements.hpp, in its order."""
    def threes(row):
        return set(itertools.combinations(enumerate(row), 3))
    rows = [row[::-1] for row in itertools.product(*reversed(FACTORS.values()))]
    rows = [row for row in rows if is_possible(row)]
    missing = set().union(*map(threes, rows))
    # The number of new triples in a row only shrinks, so its last count is an upper bound.
    heap = [(-len(threes(row)), at) for at, row in enumerate(rows)]
    heapq.heapify(heap)
    while missing:
        bound, at = heapq.heappop(heap)
        fresh = threes(rows[at]) & missing
        if len(fresh) == -bound:
            missing -= fresh
            yield rows[at]
        elif fresh:
            heapq.heappush(heap, (-len(fresh), at))


def arrangement(row):
    x = dict(zip(FACTORS, row))
    world = int(x["TP"]) * int(x["PP"]) * (2 if x["DP"] == "2" else 1)
    words = [*SHAPE, *MOCK, "--train-iters", STEPS, "--world-size", world,
             "--tensor-model-parallel-size", x["TP"], "--pipeline-model-parallel-size", x["PP"],
             "--hidden-dropout", x["dropout"], "--attention-dropout", x["dropout"]]
    if x["DP"] == "2-in-turn":
        words += ["--replicas-per-worker", 2]
    if x["rows"] == "sequence":
        words += ["--sequence-parallel"]
    if x["optimizer"] != "whole":
        words += ["--ddp-bucket-size", 4096]
    if "distributed" in x["optimizer"]:
        words += ["--use-distributed-optimizer"]
    if "overlap" in x["optimizer"]:
        words += ["--overlap-grad-reduce"]
    if x["optimizer"] == "distributed+overlap":
        words += ["--overlap-param-gather"]
    if x["recompute"] != "none":
        words += ["--recompute-granularity", x["recompute"]]
    if x["recompute"] == "selective":
        words += ["--recompute-modules", "core_attn", "mlp"]
    if x["recompute"] == "full":
        words += ["--recompute-method", "uniform", "--recompute-num-layers", 1]
    if x["tied"] == "untied":
        words += ["--untie-embeddings-and-output-weights"]
    if x["type"] == "bf16":
        words += ["--bf16"]
    if x["type"] == "f16":
        words += ["--fp16", "--initial-loss-scale", 65536]
    if x["model"] == "gpt":
        words += ["--num-attention-heads", 4]
    else:
        words += ["--num-attention-heads", 8, "--kv-channels", 8, "--position-embedding-type", "rope",
                  "--normalization", "RMSNorm", "--swiglu", "--qk-layernorm", "--norm-epsilon", 1e-2,
                  "--window-size", "8,0", "--disable-bias-linear"]
    return words


def arrangements():
    for row in selection():
        yield "arrangement " + " ".join(row), lambda run, folder, row=row: run.trained(
            folder, *arrangement(row))


# ---- schedules ------------------------------------------------------------------------------------

SCHEDULES = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "izb", "zb-h2", "zb-v", "v-half",
             "v-min", "dualpipe", "dualpipev"]


def schedules():
    for name, ranks, more in itertools.product(SCHEDULES, (2, 4), ([], ["--bf16"])):
        words = ["--num-layers", 8, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16,
                 "--micro-batch-size", 1, "--global-batch-size", 8, "--lr", 1e-3, "--train-iters", 6,
                 *MOCK, "--pipeline-model-parallel-size", ranks, "--pipeline-schedule", name, *more]
        yield (f"schedule {name} on {ranks}{' '.join(['', *more])}",
               lambda run, folder, words=words: run.trained(folder, *words))


# ---- stopped and resumed --------------------------------------------------------------------------

LAYOUTS = {"one": [],
           "PP2": ["--pipeline-model-parallel-size", 2],
           "DP2": ["--world-size", 2, "--use-distributed-optimizer", "--ddp-bucket-size", 4096,
                   "--overlap-grad-reduce", "--overlap-param-gather"],
           "TP2": ["--tensor-model-parallel-size", 2, "--sequence-parallel"],
           "TP2-PP2-DP2": ["--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 2,
                           "--world-size", 8, "--use-distributed-optimizer"]}
TYPES = [], ["--bf16"], ["--fp16", "--initial-loss-scale", 65536]


def tensors_of(iteration):
    """One hash over all pieces of a checkpoint, by name and box, independent of shards."""
    pieces = [(x["name"], x["first"], x["extents"], x["xxh3"])
              for shard in json.loads((iteration / "manifest.json").read_text())["shards"]
              for x in shard["pieces"]]
    return hashlib.sha256(json.dumps(sorted(pieces)).encode()).hexdigest()[:32]


def resumed(first, second, more):
    def row(run, folder):
        words = [*SHAPE, *MOCK, "--num-attention-heads", 4, "--train-iters", 8, *more]
        save = folder / "save"
        run.trained(folder, *words, *LAYOUTS[first], "--save", save, "--exit-interval", 4)
        before = tensors_of(save / "iter_0000004")
        after = run.trained(folder, *words, *LAYOUTS[second], "--save", save, "--load", save)
        return f"{before} {tensors_of(save / 'iter_0000008')} {after}"
    return row


def resumptions():
    for layout, more in itertools.product(LAYOUTS, TYPES):
        yield f"resumed {' '.join([layout, *more[:1]])}", resumed(layout, layout, more)
    for first, second in itertools.permutations(LAYOUTS, 2):
        yield f"resumed {first} as {second}", resumed(first, second, [])


# ---- other families -------------------------------------------------------------------------------

FAMILIES = {"bert": ["bert"], "bert post-norm": ["bert", "--bert-post-norm"],
            "bert one head": ["bert", "--bert-no-binary-head"],
            **{f"t5 {form}": ["t5", "--decoder-seq-length", 12, "--t5-form", form]
               for form in ("megatron", "v1.0", "v1.1")}}


def families():
    for (name, (family, *form)), layout, more in itertools.product(FAMILIES.items(), LAYOUTS, TYPES):
        words = [*SHAPE, *MOCK, "--num-attention-heads", 4, "--train-iters", 8, *form, *LAYOUTS[layout], *more]
        yield (f"family {' '.join([name, layout, *more[:1]])}",
               lambda run, folder, words=words, family=family: run.trained(folder, *words, family=family))


# ---- texts ----------------------------------------------------------------------------------------

TEXT = "The actor bows.\n\nThe stage is dark, and the actor waits for a word that is not his.\n\n" * 150


def texts():
    def row(run, folder):
        text = folder / "text.txt"
        text.write_text(TEXT)
        tokenizer = folder / "tokenizer"
        run("tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", tokenizer)
        run("preprocess", "--input", text, "--output-prefix", folder / "d", "--tokenizer", tokenizer,
            "--append-eod")
        files = [hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16]
                 for name in ("d_text_document.bin", "d_text_document.idx", "tokenizer/merges.txt")]
        save = folder / "save"
        trained = run.trained(folder, *SHAPE, "--num-attention-heads", 4, "--train-iters", 30,
                              "--data-path", folder / "d_text_document", "--tokenizer", tokenizer,
                              "--split", "90,10,0", "--save", save)
        said = [run("generate", "--load", save, "--prompt", "The actor", "--tokens", 12, *more)
                for more in (["--greedy"], ["--greedy", "--no-cache"], ["--seed", 7],
                             ["--seed", 7, "--temperature", 0.7, "--top-k", 20],
                             ["--seed", 7, "--top-p", 0.8])]
        told = run("eval", "--load", save, "--input", text, "--json", "--threads", 1)
        return " ".join([*files, trained, repr(json.loads(told)["loss"]),
                         *(hashlib.sha256(x).hexdigest()[:16] for x in said)])
    yield "text: tokenizer, data set, training, loss, five generated texts", row


# ---- the table ------------------------------------------------------------------------------------

def all_rows():
    yield from texts()
    yield from schedules()
    yield from resumptions()
    yield from families()
    yield from arrangements()


def read(path):
    return dict(line.split(" | ", 1) for line in path.read_text().splitlines() if " | " in line)


def main():
    say = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    say.add_argument("--bin", type=pathlib.Path, help="folder of the program")
    say.add_argument("--output", type=pathlib.Path, help="file for the table")
    say.add_argument("--against", type=pathlib.Path, help="earlier table to compare with")
    say.add_argument("--only", default="", help="run only rows with this text in their name")
    say.add_argument("--list", action="store_true", help="print the names of the rows and exit")
    asked = say.parse_args()
    rows = [(name, row) for name, row in all_rows() if asked.only in name]
    if asked.list:
        print(*(name for name, _ in rows), sep="\n")
        return 0
    if not asked.bin or not rows:
        say.error("--bin is missing, or no row matches --only")
    run = program(asked.bin / "troupe")
    table = {}
    for name, row in rows:
        with tempfile.TemporaryDirectory() as folder:
            try:
                table[name] = row(run, pathlib.Path(folder))
            except failed as why:
                table[name] = "FAILED"
                print(f"{name}: {why}", file=sys.stderr)
    lines = [f"{name} | {told}" for name, told in table.items()]
    whole = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
    if asked.output:
        asked.output.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} rows, {whole} in all")
    wrong = [name for name, told in table.items() if told == "FAILED"]
    if asked.against:
        before = read(asked.against)
        for name in sorted(set(before) | set(table) if not asked.only else table):
            if before.get(name) != table.get(name):
                wrong.append(name)
                print(f"{name}\n  before {before.get(name)}\n  now    {table.get(name)}")
        if not wrong:
            print(f"the same as {asked.against}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
