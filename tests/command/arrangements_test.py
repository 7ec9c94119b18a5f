"""Layouts through the command line: impossible ones are refused, possible ones give the promised bits. Run by ctest.

    arrangements_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import sys

import cli_test
from cli_test import MOCK, digests, refuses, run, works, wrong

# Each entry: impossible flags, the rule in the error, and the flags that the error suggests. With them the run starts.
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
    ([PP, 3, FIRST, 3], "1 layers remain for 2 stages, which cannot share them evenly", [FIRST, 2]),
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
    (["--overlap-param-gather", "--overlap-grad-reduce"], "that --use-distributed-optimizer shards",
     ["--use-distributed-optimizer"]),
    (["--overlap-param-gather", "--use-distributed-optimizer"], "needs --overlap-grad-reduce",
     ["--overlap-grad-reduce"]),
    (["--recompute-granularity", "full"], "needs --recompute-method", [*FULL, 1]),
    ([*FULL, 5], "a pipeline stage has 4 layers", [*FULL, 4]),
    ([*FULL, 3, PP, 2], "a pipeline stage has 2 layers", [*FULL, 2]),
    (["--recompute-modules", "mlp"], "needs --recompute-granularity selective",
     ["--recompute-granularity", "selective"]),
    (["--context-parallel-size", 2], "does not split samples", ["--context-parallel-size", 1]),
    (["--expert-model-parallel-size", 2], "has no mixture-of-experts", ["--expert-model-parallel-size", 1]),
    (["--expert-tensor-parallel-size", 2], "has no mixture-of-experts", ["--expert-tensor-parallel-size", 1]),
    ([DP, 2, "--plant-fault", "wire:0.0@1"], "wire:R.P.T with --overlap-grad-reduce",
     ["--overlap-grad-reduce"]),
]


def check_impossible(folder):
    """Refuses an impossible layout before a worker starts. The error has the rule and a suggestion, which works."""
    made = [folder / "save", folder / "log"]
    for words, rule, instead in IMPOSSIBLE:
        train = ["train", "gpt", *CUT, *words]
        refuses(rule, *train, "--save", made[0], "--log-file", made[1])
        if any(x.exists() for x in made):
            raise wrong(f"{words}: the refused run left files behind")
        code, _, err = run(*train)
        if str(instead[-1]) not in err and "more t" not in rule:
            raise wrong(f"{words}: the error does not suggest {instead}:\n{err}")
        works(*train, *instead, "--dry-run")  # the later of two flags counts


def check_arrangements(folder):
    """Trains in many layouts: those that promise the same bits have them, the others nearly agree."""
    distributed = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--ddp-bucket-size", 5000]
    long = [*CUT, "--seq-length", 256]  # mock data have fewer long samples, so the index is smaller
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
                    raise wrong(f"{to.name} and {first.name} have different states: {code}\n{page}{err}")
    # Sums over tensor ranks have another order. AdamW's first steps of 1e-3 bound the difference.
    code, page, _ = run("checkpoint", "diff", folder / "replicas0", folder / "tensor0", "--json")
    largest = json.loads(page)["summary"]["largest"]
    if code != 1 or not 0 < largest < 1e-3:
        raise wrong(f"two tensor ranks and one worker differ by {largest}: {code}\n{page[:500]}")
    # An error names the actor that failed, and the run ends.
    for who in ["stage:0.0.1", "lane:1.1", "wire:1.0.1"]:
        code, _, err = run("train", "gpt", *long, *cut["tensor_all"], "--plant-fault", f"{who}@2")
        if code != 3 or f"injected for {who}@2" not in err or f"stage:{who.split(':')[1]}" not in err:
            raise wrong(f"fault in {who}: exit code {code}\n{err}")
    # A run resumes the checkpoint of another layout.
    page = works("train", "gpt", *long, *cut["tensor_all"], "--load", folder / "replicas0", "--train-iters", 4,
                 "--override-opt_param-scheduler", "--save", folder / "on", "--log-file", folder / "log")
    if sorted(digests(folder / "log")) != [3, 4]:
        raise wrong(f"a run resumed in another layout has other steps:\n{page}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
