"""Checkpoints through the command line: resuming, fine-tuning, listing, comparing, importing. Run by ctest.

    checkpoints_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import sys

import cli_test
from cli_test import MOCK, SMALL, digests, refuses, run, works, wrong


def check_resume(folder):
    """Resumes only from matching checkpoints; the log then equals that of one run."""
    saved, log = folder / "run", folder / "log.jsonl"
    train = ["train", "gpt", *SMALL, *MOCK]
    mine = [*train, "--save", saved, "--load", saved, "--log-file", log, "--save-interval", 2]
    refuses("gone': there is no such folder", *train, "--load", folder / "gone")
    refuses("no manifest.json of a checkpoint", *train, "--load", folder)
    refuses("no manifest.json of a checkpoint", *train, "--save", folder / "none", "--load", folder / "none",
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
        raise wrong("the torn last line is still in the log")
    works(*mine, "--load", saved / "iter_0000002")
    if digests() != whole:
        raise wrong(f"the log of a resumed run differs from that of an unbroken run:\n{log.read_text()}")
    refuses("holds iteration 6 of another run", *train, "--save", saved)
    refuses('hidden: checkpoint 32, this run 64', *mine, "--hidden-size", 64)
    refuses('positions: checkpoint 16, this run 32', *mine, "--seq-length", 32)
    works(*mine, "--exit-on-missing-checkpoint")
    longer = [*mine, "--override-opt_param-scheduler", "--train-iters"]
    code, _, err = run(*longer, 7, "--hidden-dropout", 0)
    if code != 0 or "model/hidden_dropout: checkpoint 0.1, this run 0.0" not in err or "seed" in err:
        raise wrong(f"no warning names the changed dropout: {code} {err}")
    out = works(*longer, 5, "--hidden-dropout", 0)
    if "nothing to do: iteration 7 of 5" not in out or "give more --train-iters" not in out or "--override-opt_param-scheduler" not in out:
        raise wrong(f"a run past its last iteration does not say so:\n{out}")
    if "peak memory per worker" in out or "resuming" in out:
        raise wrong(f"a run without a step reports peak memory:\n{out}")
    if "start       from iteration 7 of 9" not in works(*longer, 9, "--dry-run"):
        raise wrong("a dry run does not say where the run would start from")
    refuses("hidden: checkpoint 32, this run 64", *mine, "--hidden-size", 64, "--dry-run")
    refuses("holds iteration 7", *train, "--save", saved, "--dry-run")
    refuses("is not a folder", *train, "--save", log / "x", "--dry-run")
    refuses("each its own", *train, "--log-file", folder / "x", "--trace", folder / "x")
    refuses("names no actor", *train, "--plant-fault", "prompter@3")
    (folder / "thesis.txt").write_text("Chapter 1\n")
    refuses("is not a log", *train, "--log-file", folder / "thesis.txt")
    code, _, err = run(*train, "--trace", "/dev/full")
    if code != 2 or "cannot save the trace of the run" not in err:
        raise wrong(f"a lost trace is not reported: {code} {err}")


def check_finetune(folder):
    """--finetune loads only parameters; everything else starts anew."""
    train = ["train", "gpt", *SMALL, *MOCK]
    works(*train, "--save", folder / "base")
    tune = [*train, "--finetune", "--load", folder / "base", "--lr", 3e-3]
    refuses("--finetune needs --load", *train, "--finetune")
    refuses("no manifest.json of a checkpoint", *train, "--finetune", "--load", folder / "gone", "--save",
            folder / "gone")
    refuses("--finetune begins again at 0", *tune, "--save", folder / "base")
    refuses("hidden: checkpoint 32, this run 64", *tune, "--hidden-size", 64)
    if "from iteration 0, with the parameters of" not in works(*tune, "--dry-run"):
        raise wrong("a dry run does not mention --finetune")
    works(*tune, "--save", folder / "tuned", "--log-file", folder / "log", "--log-interval", 1)
    first = json.loads((folder / "log").read_text().splitlines()[0])
    if first["iteration"] != 1 or first["learning_rate"] != 3e-3:
        raise wrong(f"the first step of --finetune differs from that of a new run: {first}")
    # Padding rows are not stored, so the model is the same with another padding.
    works(*tune, "--make-vocab-size-divisible-by", 8, "--log-file", folder / "padded")
    padded = json.loads((folder / "padded").read_text().splitlines()[0])
    if abs(padded["lm_loss"] - first["lm_loss"]) > 1e-5:  # products of other shapes round differently
        raise wrong(f"another padding changes the model: {padded} {first}")


def check_upcycle(folder):
    """--moe-use-upcycling begins a model with experts from a dense checkpoint."""
    train = ["train", "gpt", *SMALL, *MOCK, "--disable-bias-linear", "--hidden-dropout", 0, "--attention-dropout", 0]
    works(*train, "--save", folder / "base")
    sparse = [*train, "--num-experts", 4, "--log-interval", 1]
    begin = [*sparse, "--load", folder / "base", "--moe-use-upcycling"]
    slices = ["--moe-upcycling-granularity", 2, "--moe-ffn-hidden-size", 64]
    if "from iteration 0, with experts made of the layers of" not in works(*begin, "--dry-run"):
        raise wrong("a dry run does not mention --moe-use-upcycling")

    def first_loss(name):
        return json.loads((folder / name).read_text().splitlines()[0])["lm_loss"]

    works(*train, "--finetune", "--load", folder / "base", "--log-interval", 1, "--log-file", folder / "dense")
    works(*begin, "--save", folder / "sparse", "--log-file", folder / "whole")
    if abs(first_loss("whole") - first_loss("dense")) > 1e-5:  # sums in another order
        raise wrong(f"experts change the loss: {first_loss('dense')}, {first_loss('whole')}")
    two = [*begin, *slices, "--world-size", 2]
    for name, layout in [("ep1", []), ("ep2", ["--expert-model-parallel-size", 2]),
                         ("etp2", ["--expert-tensor-parallel-size", 2])]:
        works(*two, *layout, "--log-file", folder / name)
    if digests(folder / "ep1") != digests(folder / "ep2"):
        raise wrong("the ranks that share experts change the bits of an upcycled model")
    if abs(first_loss("etp2") - first_loss("ep1")) > 1e-5:  # sums in another order
        raise wrong(f"a part of each expert changes the loss: {first_loss('ep1')}, {first_loss('etp2')}")
    refuses("--moe-use-upcycling begins again at 0", *begin, "--save", folder / "sparse")
    refuses("its model has experts already", *begin, "--load", folder / "sparse")
    refuses("ffn: checkpoint 128, this run 64", *begin, "--ffn-hidden-size", 64)
    refuses("experts/number: checkpoint nothing, this run 4", *sparse, "--load", folder / "base")
    refuses("to make experts of its layers, add --moe-use-upcycling", *sparse, "--load", folder / "base")
    refuses("experts/number: checkpoint 4, this run 8\nGive the flags it was trained with, or another --load\n",
            *sparse, "--num-experts", 8, "--load", folder / "sparse")
    out = works(*sparse, "--load", folder / "sparse", "--save", folder / "sparse", "--train-iters", 8,
                "--override-opt_param-scheduler")
    if "resuming from iteration 6 of 8" not in out:
        raise wrong(f"an upcycled run does not resume without --moe-use-upcycling:\n{out}")


def check_moments(folder):
    """--no-load-optim starts the moments from zero; later checkpoints record the step at which they started."""
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
        raise wrong(f"a dry run does not mention --no-load-optim:\n{page}")


def check_identity(folder):
    """Reports differences at resume; --strict-identity refuses them."""
    train = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "run", "--load", folder / "run"]
    works(*train)
    again = [*train, "--dry-run"]
    if "warning" in works(*again, "--strict-identity"):
        raise wrong("the same run has a different identity")
    refuses("threads_per_worker: checkpoint 1, this run 2", *again, "--strict-identity",
            "--threads-per-worker", 2)
    refuses("layout/pipeline: checkpoint 1, this run 2", *again, "--strict-identity",
            "--pipeline-model-parallel-size", 2)
    refuses("but --finetune changes them", *again, "--strict-identity", "--finetune")
    page = works(*again, "--pipeline-model-parallel-size", 2)
    if "results agree with those of the other layout" not in page or "another identity" in page:
        raise wrong(f"the change of the layout is not reported as such:\n{page}")
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
    refuses("--keep-every needs --keep-last", *train[:-2], "--save", folder / "none", "--keep-every", 3)
    works(*train, "--save", folder / "sparse", "--keep-last", 1, "--keep-every", 2)
    left = sorted(x.name for x in (folder / "sparse").glob("iter_*"))
    if left != ["iter_0000002", "iter_0000004", "iter_0000006"]:
        raise wrong(f"--keep-last 1 --keep-every 2 left {left}")


def narrow(page):
    """Returns the page; fails if it does not fit into 80 columns."""
    if max(map(len, page.splitlines())) > 80:
        raise wrong(f"wider than 80 columns:\n{page}")
    return page


def check_checkpoint(folder):
    """Lists, shows, verifies and compares checkpoints of two layouts, then damaged ones."""
    train = ["train", "gpt", *SMALL, *MOCK, "--save-interval", 3]
    a, b = folder / "a", folder / "b"
    works(*train, "--save", a)
    works(*train, "--save", b, "--pipeline-model-parallel-size", 2)
    page = narrow(works("checkpoint", "ls", a))
    lines = page.splitlines()
    if len(lines) != 3 or not lines[2].startswith("*         6") or not lines[1].endswith("complete"):
        raise wrong(f"ls does not list two complete checkpoints:\n{page}")
    page = narrow(works("checkpoint", "ls", b / "iter_0000003"))
    if "world 2 pp 2" not in page or "names none of them as the latest checkpoint" not in page:
        raise wrong(f"ls lacks the layout, or does not say that it is not the latest:\n{page}")
    listed = json.loads(works("checkpoint", "ls", a, "--json"))
    if [(x["iteration"], x["tracked"]) for x in listed] != [(3, False), (6, True)]:
        raise wrong(f"ls --json: {listed}")
    page = narrow(works("checkpoint", "show", a, "--tensors"))
    for expected in ["iteration   6, 24 samples", "hidden 32", "seed 1234", "build/version",
                     "model-00001-of-00001.safetensors", "exp_avg_sq.decoder.layers.1.", "(96, 32)"]:
        if expected not in page:
            raise wrong(f"show lacks '{expected}':\n{page}")
    shown = json.loads(works("checkpoint", "show", a, "--tensors", "--json"))
    if {"name": "decoder.final_layernorm.bias", "dtype": "F32", "shape": [32],
            "pieces": 1} not in shown["tensors"] or shown["model"]["hidden"] != 32:
        raise wrong(f"show --json: {shown}")
    code, page, err = run("checkpoint", "diff", a, b)
    if code != 0 or "equal to the bit" not in narrow(page).splitlines()[-1] or err:
        raise wrong(f"another pipeline layout changed the state: {code}\n{page}{err}")
    if "identity    layout/pipeline: 1 in A, 2 in B" not in page:
        raise wrong(f"diff does not show the layouts:\n{page}")
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
    if code != 0 or page.count("valid: all hashes match") != 2 or err:  # no progress bar without a terminal
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
    if code != 0 or "damaged" not in narrow(page) or "incomplete" not in page:
        raise wrong(f"ls does not report the damage:\n{page}")
    refuses("should have", "checkpoint", "show", a)


def check_hub(folder):
    code, _, err = run("train", "gpt", *SMALL[8:], *MOCK, "--load-hf", folder)
    if code != 2 or "config.json" not in err or "tokens" in err:
        raise wrong(f"the error is not about the missing config.json alone: {code} {err}")


def check_vocabulary(folder):
    """Refuses a tokenizer, a vocabulary and an embedding that do not fit together, from whatever source."""
    # Uses a tokenizer with more ids as the wrong one: a model may have more ids than its tokenizer, as padding.
    tok, other = folder / "small", cli_test.tokenizer(folder)
    (folder / "more").write_text(cli_test.TEXT)
    works("tokenizer", "train", "--input", folder / "more", "--vocab-size", 280, "--output", tok)
    size, others = (len(json.loads((x / "vocab.json").read_text())) for x in [tok, other])
    train = ["train", "gpt", *SMALL, "--mock-data"]
    refuses(f"--vocab-size 500 contradicts the tokenizer, which has {size} tokens", *train, "--tokenizer", tok,
            "--vocab-size", 500)
    works(*train, "--tokenizer", tok, "--save", folder / "run")
    resumed = [*train, "--load", folder / "run", "--override-opt_param-scheduler", "--train-iters", 8]
    refuses(f"vocabulary: checkpoint {size}, this run {others}", *resumed, "--tokenizer", other)
    for words in [["generate", "--prompt", "The"], ["eval", "--input", folder / "more"]]:
        refuses("differs from the one that the model was trained with", *words, "--load", folder / "run", "--tokenizer",
                other)
    hub = folder / "hub"
    works("checkpoint", "export", folder / "run", "--hf", hub)
    begin = ["train", "gpt", *SMALL[8:], "--mock-data", "--load-hf", hub]
    out = works(*begin, "--tokenizer", tok)
    if f"starting from iteration 0, with the weights of '{hub}' (--load-hf)" not in out:
        raise wrong(f"a run does not say that weights were loaded:\n{out}")
    refuses(f"the tokenizer has {others} tokens, but the model of --load-hf has {size}", *begin, "--tokenizer",
            other)
    config = json.loads((hub / "config.json").read_text())
    for wrong_size in [size - 1, size + 1]:
        (hub / "config.json").write_text(json.dumps(config | {"vocab_size": wrong_size}))
        says = f"is F32 ({size}, 32), but by config.json it should be ({wrong_size}, 32)"
        refuses(says, "checkpoint", "import", "--hf", hub, "--save", folder / "imported")
    refuses(says, *begin, "--tokenizer", tok)  # `says` is from the last loop: the larger size


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
