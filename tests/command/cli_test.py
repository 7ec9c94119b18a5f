"""The command line: exit codes, help, and errors for bad input. Run by ctest.

    cli_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
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
    """Expects exit code 2 and an error on standard error that contains `says`."""
    code, out, err = run(*words, text=text)
    what = f"troupe {' '.join(map(str, words))}: exit code {code}\n{err}"
    if code != 2 or says not in err or not err.startswith("troupe: "):
        raise wrong(f"{what}\nexpected exit code 2 and a message with '{says}'")


def tokenizer(folder):
    text = folder / "text.txt"
    text.write_text(TEXT)
    works("tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", folder / "tok")
    return folder / "tok"


SMALL = ["--num-layers", 2, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 6, "--lr", 1e-3,
         "--eval-iters", 1, "--eval-interval", 3, "--threads-per-worker", 1]
# Ordering the millions of samples of mock data takes longer than six small steps. So all runs of a process share one
# order; in tests/run.sh all tests share it.
OWN_INDEX = None if os.environ.get("TROUPE_TEST_SHARED") else tempfile.TemporaryDirectory(prefix="troupe-index-")
INDEX = OWN_INDEX.name if OWN_INDEX else os.path.join(os.environ["TROUPE_TEST_SHARED"], "mock-index")
MOCK = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100, "--data-cache-path", INDEX]


def check_help(folder):
    for command in ["", "tokenizer", "tokenizer train", "tokenizer encode", "tokenizer decode", "tokenizer chat",
                    "preprocess", "conversations", "merge-datasets", "train", "train gpt", "plot", "checkpoint",
                    "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint diff",
                    "checkpoint export", "checkpoint import",
                    "eval", "generate", "embed", "serve", "layout", "layout gpt", "completion", "completion bash",
                    "manual", "simulate", "chaos",
                    "memory", "memory gpt", "forecast", "forecast gpt", "doctor",
                    "status", "monitor", "ctl", "ledger", "wait", "stop", "supervisor", "node", "credentials",
                    "schedule", "schedule plan", "schedule check", "schedule simulate"]:
        page = works(*command.split(), "--help")
        if not page.startswith(f"troupe {command}".strip() + ":"):
            raise wrong(f"the help of '{command}' does not begin with its name:\n{page[:200]}")
        if max(map(len, page.splitlines())) > 80:
            raise wrong(f"the help of '{command}' is wider than 80 columns")
    page, all_of_it = (works("train", "gpt", x) for x in ["-h", "--help"])
    for flag in re.findall(r"^  (--[\w-]+)", all_of_it, re.MULTILINE):
        if not re.search(rf"^  (--.*, )?{flag}\b", page, re.MULTILINE):
            raise wrong(f"-h does not list {flag}:\n{page}")
    if page.count("\n") * 4 > all_of_it.count("\n") or max(map(len, page.splitlines())) > 80:
        raise wrong(f"-h is not short, or wider than 80 columns:\n{page}")
    faults = works("train", "gpt", "--help-faults")
    for flag in ["--plant-fault", "--plant-death", "--plant-delays"]:
        if flag not in faults or flag in page or flag in all_of_it:
            raise wrong(f"{flag} is shown by --help or -h, or not by --help-faults")
    if "--help-faults" not in all_of_it or max(map(len, faults.splitlines())) > 80:
        raise wrong(f"--help does not name --help-faults, or that is wider than 80 columns:\n{faults}")
    if works("help") != works("--help") or works("help", "train", "gpt") != all_of_it:
        raise wrong("`troupe help COMMAND` is not the help of the command")
    if works("-V") != works("--version"):
        raise wrong("-V does not print the version")
    if "--fp16" not in works("train", "gpt", "--help-megatron"):
        raise wrong("--help-megatron does not list --fp16")


def check_words(folder):
    refuses("did you mean 'train'?", "trian")
    refuses("needs a command: gpt", "train")
    refuses("did you mean --num-layers?", "train", "gpt", "--num-lyers", 3)
    refuses("is refused", "train", "gpt", "--fp8-format", "hybrid")
    for command, flag, answer in [("preprocess", "--tokenizer-name", "use --tokenizer DIR"), ("preprocess", "--data", "use --input FILE"),
                                  ("conversations", "--model", "use --tokenizer DIR")]:
        refuses(answer, command, flag, "x")
    refuses("--micro-batch-size is missing", "train", "gpt")
    refuses("'x' does not belong to a flag", "generate", "x")


HELP = {
    "train gpt": ["the command line overrides all files", "dropout and tokenizer may be changed", "before the rotary embedding",
                  "Decay rate of the first moment", "Decay rate of the second moment",
                  "Standard deviation of initial weights", "Does not build the sample order",
                  "Resumes from the latest checkpoint in DIR"],
    "doctor": ["what is missing to train on it, and how to fix it"],
    "checkpoint ls": ["A * marks the latest checkpoint", "`complete` means that manifest, sizes and headers are consistent"],
    "checkpoint verify": ["Exit code 0: all are valid"],
    "schedule plan": ["F is forward, B backward, which is I, gradients of the input, and W, gradients of the weights"],
    "schedule check": ["Exit code 0 when all are valid"],
    "schedule simulate": ["Idle is the time in which a rank does not work, until the last rank ends; span-idle counts "
                          "only between its own first and last action", "peak chunks counts micro-batches of each chunk"],
}


def check_terms(folder):
    """Help and output use the field's terms and explain abbreviations."""
    def has(page, *expected):
        page = " ".join(page.split())
        for text in expected:
            if text not in page:
                raise wrong(f"'{text}' is not in:\n{page}")

    for command, expected in HELP.items():
        has(works(*command.split(), "--help"), *expected)
    has(works("train", "gpt", "--help-megatron"), "same meaning, except as noted")
    save = folder / "run"
    train = ["train", "gpt", *SMALL, *MOCK, "--save", save, "--load", save, "--pipeline-model-parallel-size", 2,
             "--log-interval", 1]
    has(works(*train, "--exit-interval", 3, "--log-level", "debug"), "peak memory per worker: ", "(forecast ",
        "actions: mean start delay ")
    has(works(*train, "--clip-grad", 0.5), "resuming from iteration 3",
        f"configuration changed; the previous one is saved as {save / 'config.1.yaml'}")
    has(works("checkpoint", "show", save), "iteration 6, 24 samples, generation", "; latest checkpoint")


def check_output(folder):
    """Failing to write standard output is an error."""
    with open("/dev/full", "w") as full:
        for words in [["--help"], ["train", "gpt", "--dry-run", *map(str, SMALL + MOCK)]]:
            done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE)
            if done.returncode != 2 or b"standard output" not in done.stderr:
                raise wrong(f"{words[0]} > /dev/full: {done.returncode} {done.stderr}")
            if b"No space left" not in done.stderr:
                raise wrong(f"{words[0]} > /dev/full does not say why: {done.stderr}")


def check_dry_run(folder):
    page = works("train", "gpt", "--dry-run", *SMALL, *MOCK, "--pipeline-model-parallel-size", 2,
                 "--world-size", 4, "--micro-batch-size", 1)
    for expected in ["start       from iteration 0", "all ranks", "rank 3", "replica 1, stage 1", "0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "head",
                     "warm-up, linear until 24 samples (6 steps)", "one row per stage"]:
        if expected not in page:
            raise wrong(f"'{expected}' is not in the dry run:\n{page}")
    if "this machine has" in page:
        raise wrong(f"a tiny model is reported as too large:\n{page}")
    page = works("train", "gpt", "--dry-run", *SMALL, *MOCK, "--world-size", 1, "--threads-per-worker", 1,
                 "--micro-batch-size", SMALL[SMALL.index("--global-batch-size") + 1])
    for expected in ["1 replica x 1 micro-batch x", "1 worker (", "1 tensor rank x 1 pipeline stage, 1 replica;",
                     "1 thread each", "1 micro-batch per worker"]:
        if expected not in page:
            raise wrong(f"'{expected}' is not in the dry run of one worker:\n{page}")
    time = r"^time        about .*\d.* here, estimated by matrix products of [\d.e+-]+ TFLOP/s$"
    if not re.search(time, page, re.MULTILINE):
        raise wrong(f"the dry run has no time:\n{page}")
    if re.search(r"^time ", works("train", "gpt", "--dry-run", *SMALL, *MOCK, "--skip-train"), re.MULTILINE):
        raise wrong("a dry run without a step has a time")


def check_experts(folder):
    """Pages show how experts are shared out, and the memory of loads; a model without experts has none of it."""
    experts = [*SMALL, "--num-experts", 8, "--disable-bias-linear", "--world-size", 4, "--tensor-model-parallel-size", 2,
               "--sequence-parallel", "--expert-tensor-parallel-size", 1]
    page = works("train", "gpt", "--dry-run", *experts, *MOCK, "--expert-model-parallel-size", 4)
    for expected in ["1 pipeline stage, 2 replicas; experts: 4 expert ranks x 1 expert tensor rank; 1 thread each",
                     "rank 3      replica 1, stage 0, tensor 1 of 2, expert 3 of 4: embedding", " active per token\n"]:
        if expected not in page:
            raise wrong(f"'{expected}' is not in the dry run of experts:\n{page}")
    shape = [*experts, "--vocab-size", 100, "--expert-model-parallel-size", 4]
    page = works("memory", *shape, "--expert-load", 2)
    for expected in ["2 data; experts: 4 expert ranks x 1 expert tensor rank; 1 micro-batch",
                     r"^balanced +1 ", r"^  chosen +2 ", r"^   worst +4 ", "those of experts also with expert and",
                     "Those of experts exist for each expert rank,\n", "also grow with --moe-router-topk"]:
        if not re.search(expected, page, re.MULTILINE):
            raise wrong(f"'{expected}' is not in the forecast of experts:\n{page}")
    found = json.loads(works("memory", *shape, "--json"))
    peaks = [x["peak"] for x in found["expert_loads"]]
    if [x["load"] for x in found["expert_loads"]] != [1, 4] or not peaks[0] < peaks[1] or found["layout"]["expert"] != 4:
        raise wrong(f"the forecast of experts has other loads: {found['expert_loads']}, {found['layout']}")
    if "expert" in works("memory", *SMALL, "--vocab-size", 100, "--expert-load", 2):
        raise wrong("the forecast of a model without experts mentions some")
    wide = [*shape, "--moe-ffn-hidden-size", 4096, "--recovery", "off"]
    for words, says in ((wide, True), ([*wide, "--expert-gradient-sums", "together"], False)):
        if ("--expert-gradient-sums together needs one" in works("memory", *words)) != says:
            raise wrong(f"gradients by source are the largest item, or not: {words}")
    works("train", "gpt", *experts, *MOCK, "--expert-model-parallel-size", 2, "--save", folder / "run",
          "--moe-per-layer-logging", "--save-tokens-per-expert-interval", 2,
          "--record-expert-choices", folder / "choices")
    works("train", "gpt", *experts, *MOCK, "--expert-model-parallel-size", 2, "--log-file", folder / "replayed.jsonl",
          "--replay-expert-choices", folder / "choices")
    states = [[x["state_digest"] for x in map(json.loads, path.read_text().splitlines()) if "state_digest" in x]
              for path in (folder / "run/log.jsonl", folder / "replayed.jsonl")]
    if states[0] != states[1] or len(states[0]) != 6 or len(list((folder / "choices").iterdir())) != 2:
        raise wrong(f"a replay has other states than the run that recorded: {states}")
    page = works("checkpoint", "ls", folder / "run")
    if "world 4 tp 2 ep 2 etp 1" not in page:
        raise wrong(f"the list of checkpoints has another layout of experts:\n{page}")
    steps = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    # The first step and the last one have lines on the console.
    counted = [x["iteration"] for x in steps if "expert_layers" in x]
    listed = {x["iteration"]: x["expert_counts"] for x in steps if "expert_counts" in x}
    names = ["decoder.layers.0", "decoder.layers.1"]
    if counted != [1, 2, 4, 6] or sorted(listed) != [2, 4, 6] or any(
            list(x) != names or any(sum(n) != 4 * 16 * 2 for n in x.values()) for x in listed.values()):
        raise wrong(f"other steps or rows of experts are logged: {counted}, {listed}")


def check_too_large(folder):
    """A run that exceeds the memory is refused before it opens data; a dry run only warns, as it may be for another
    machine."""
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
        raise wrong("the warning suggests a flag that is already given")


def check_layout(folder):
    """Shows the sixteen ranks of Megatron-LM's documentation, and refuses impossible layouts."""
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
        raise wrong(f"rank 13 has the coordinates {found['ranks'][13]}")
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
                raise wrong(f"{ours} of {c} differs from megatron-core's")
        if groups:
            raise wrong(f"the test does not check the groups {list(groups)}")
    if json.loads(works(*words, "--use-tp-pp-dp-mapping", "--json"))["order"] != "tp-cp-ep-pp-dp":
        raise wrong("--use-tp-pp-dp-mapping does not give its order")
    refuses("nearest valid: 16", *words, "--world-size", 15)
    refuses("is not an axis", *words, "--order", "tp-pp-xx")
    refuses("leaves out dp", *words, "--order", "tp-pp")
    refuses("put pp last", *words, "--expert-model-parallel-size", 2, "--order", "tp-cp-ep-pp-dp")
    refuses("are too many to show", "layout", "--tensor-model-parallel-size", 65536, "--context-parallel-size", 65536)


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
        raise wrong(f"no warning of a skipped torn line: {code} {err}")
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
        raise wrong("- does not write to standard output")
    refuses("rsvg-convert", "plot", log, "--output", folder / "loss.png")


def digests(log):
    """State digests of a log, by iteration."""
    out = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if "state_digest" in entry:
            out[entry["iteration"]] = entry["state_digest"]
    return out


def check_schedule(folder):
    """Refuses another learning rate at resume unless a flag selects one of both."""
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
        raise wrong(f"{override} does not use the rate of the command line")
    page = works(*other, keep, "--dry-run")
    if "0.001 to 0" not in page or "linear" not in page or "identity" in page:
        raise wrong(f"{keep} does not use the rate of the checkpoint:\n{page}")
    works(*other, keep, "--train-iters", 8)
    works(*other, override, "--train-iters", 9)


def check_model(folder):
    """Trains for a few steps, then uses the checkpoint, and a damaged one."""
    tok = tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d",
          "--tokenizer", tok, "--append-eod")
    saved, log = folder / "run", folder / "log.jsonl"
    train = ["train", "gpt", *SMALL, "--tokenizer", tok, "--data-path", folder / "d_text_document",
             "--split", "90,10,0", "--save", saved, "--load", saved, "--log-file", log,
             "--pipeline-model-parallel-size", 2, "--world-size", 4, "--micro-batch-size", 1]
    works(*train)
    tok.rename(folder / "moved")  # the checkpoint contains a copy
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
    drawn = [works(*ask[:-1], *more) for more in ([], ["--top-p", 0], ["--top-p", 1])]
    if drawn != drawn[:1] * 3:
        raise wrong(f"--top-p 0 and 1 leave out tokens: {drawn}")
    refuses("leave out --top-k", *ask[:-1], "--greedy", "--top-k", 3)
    refuses("write ID=X", *ask[:-1], "--logit-bias", 3)
    refuses("there is no token 100000 to bias", *ask[:-1], "--logit-bias", "100000=2")
    refuses("--load DIR is missing", "generate")
    refuses("no such folder", "generate", "--load", folder / "gone")
    refuses("neither a checkpoint nor a config.json", "generate", "--load", folder / "moved")
    (folder / "empty.txt").write_text("")
    refuses("has no documents: name a file with text", "eval", "--load", saved, "--input", folder / "empty.txt")
    refuses("line 1", "plot", folder / "text.txt")
    shard = next(saved.glob("iter_*/model-00001*"))
    shard.write_bytes(shard.read_bytes()[:-7] + b"damaged")
    refuses("", "generate", "--load", saved)
    shard.write_bytes(shard.read_bytes()[:100])
    refuses("", "generate", "--load", saved)


def main(program, names, found=None):
    """Runs the named checks of the module whose globals are `found`, or of this module."""
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
