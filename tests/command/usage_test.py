"""Aids for new users: configurations, completion, manual, memory forecasts, doctor. Run by ctest.

    usage_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import cli_test
from cli_test import MOCK, SMALL, refuses, run, works, wrong

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "configurations"


def state(folder):
    """The latest checkpoint in a folder, without place and time."""
    return json.loads(works("checkpoint", "show", folder, "--json"))


def same_state(a, b):
    works("checkpoint", "diff", a, b)
    if state(a)["identity"] != state(b)["identity"]:
        raise wrong(f"{a} and {b} have different identities: {state(a)['identity']} {state(b)['identity']}")


def check_configuration(folder):
    """A file with the flags of the command line gives the same run, and so does the kept configuration."""
    lines = [f"{flag[2:]}: {value}" for flag, value in zip(SMALL[::2], SMALL[1::2])]
    (folder / "run.yaml").write_text("\n".join(lines) + "\nmock_data: true\nvocab-size: 100\n"
                                     "tokenizer-type: NullTokenizer\nhidden-dropout: 0.2\n")
    works("train", "gpt", *SMALL, *MOCK, "--hidden-dropout", 0.2, "--save", folder / "flags")
    works("train", "gpt", "--config", folder / "run.yaml", "--save", folder / "yaml")
    same_state(folder / "flags", folder / "yaml")
    kept = folder / "flags" / "config.yaml"
    if found := re.findall(r"^[\w-]*experts?\b.*|^moe-.*", kept.read_text(), re.MULTILINE):
        raise wrong(f"the configuration of a dense model has settings of experts: {found}")
    works("train", "gpt", "--config", kept, "--save", folder / "kept")
    same_state(folder / "flags", folder / "kept")
    # The kept configuration names its folder: a checkpoint is there, and is not overwritten.
    refuses("--load", "train", "gpt", "--config", kept)
    again = re.search(r"^# To resume it: troupe (.*)$", kept.read_text(), re.MULTILINE)[1]
    if "already exists" not in (out := works(*shlex.split(again))):
        raise wrong(f"the command in the configuration, {again}, does not resume the run:\n{out}")
    if "configuration changed" in out or (folder / "flags" / "config.1.yaml").exists():
        raise wrong(f"the command in the configuration, {again}, changes it:\n{out}")
    refuses("nothing", "train", "gpt", "--config", folder / "nothing.yaml")
    refuses("line 1, column 13", "train", "gpt", "--config", "-", text=b"num-layers: many\n")
    refuses("did you mean --num-layers?", "train", "gpt", "--config", "-", text=b"num_lyers: 2\n")


def check_resumed(folder):
    """A run that resumes with changed flags keeps the previous configuration and reports it."""
    words = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "ckpt", "--load", folder / "ckpt"]
    works(*words, "--exit-interval", 3)
    first = (folder / "ckpt" / "config.yaml").read_text()
    out = works(*words, "--exit-interval", 6, "--log-interval", 2)
    if "config.1.yaml" not in out:
        raise wrong(f"the previous configuration is not reported:\n{out}")
    if "iteration        6/" not in out:
        raise wrong(f"the last step of a run that ends early has no line:\n{out}")
    if (folder / "ckpt" / "config.1.yaml").read_text() != first:
        raise wrong("the previous configuration changed")
    out = works(*words, "--exit-interval", 6, "--log-interval", 2)
    if "config." in out or (folder / "ckpt" / "config.2.yaml").exists():
        raise wrong(f"the same configuration is kept twice:\n{out}")
    # The configuration is text even if a path is not.
    odd = folder / os.fsdecode(b"caf\xe9's")
    words = ["train", "gpt", *SMALL, *MOCK, "--save", odd, "--load", odd, "--exit-interval"]
    works(*words, 3)
    text = (odd / "config.yaml").read_bytes().decode("utf-8", "replace")
    if "\ufffd" in text or "caf\\xe9\\'s/config.yaml'" not in text or "save: !!binary" not in text:
        raise wrong(f"the configuration has the bytes of a path that is not text:\n{text}")
    if "config." in works(*words, 3):
        raise wrong("the same configuration with a path that is not text is kept twice")
    out = works("train", "gpt", "--config", odd / "config.yaml")
    if "iteration 6 of 6 already exists" not in out:
        raise wrong(f"the kept configuration does not resume the run:\n{out}")


def check_refusals(folder):
    """Errors name the cause and a remedy."""
    mine = ["train", "gpt", *SMALL]
    said = ["train", "gpt", *SMALL, *MOCK, "--dry-run"]
    refuses("4 flags cannot be used", *said, "--tokenizer-type", "MultimodalTokenizer", "--fp8-format", "hybrid",
            "--lr", -1, "--nonsense")
    if "0.001, constant" not in works(*said, "--lr", 0.001, "--lr-decay-style", "constant").replace(
            " after 0 samples of warm-up", ""):
        raise wrong("a constant rate is shown as decaying")
    for name in ["corpus_text_document.idx", "corpus_text_document.bin"]:
        (folder / name).write_bytes(b"")
    tokens = ["--tokenizer-type", "NullTokenizer", "--vocab-size", 90]
    refuses(f"did you mean '{folder}/corpus_text_document'?", *mine, *tokens, "--data-path", folder / "corpus")
    refuses(f"'{folder}/second'", *mine, *tokens, "--data-path", folder / "first", "--data-path", folder / "second")
    (folder / "p.parquet").write_bytes(b"PAR1\x15\x04\0")
    refuses("it is Parquet", *mine, *tokens, "--sft", "--data-path", folder / "p.parquet")
    refuses("for --sft: `troupe conversations`", *mine, *tokens, "--sft", "--data-path", folder / "none")
    refuses("File name too long", *said, "--save", folder / ("x" * 256))
    out = works("train", "gpt", *SMALL, *MOCK, "--save", folder / "iter_0000001", "--eval-iters", 0)
    if "saved iteration" not in out or "valid" not in works("checkpoint", "verify", folder / "iter_0000001"):
        raise wrong("a run's folder with the name of a checkpoint is not verified")
    log = folder / "iter_0000001/log.jsonl"
    refuses("which is read: name another file", "plot", log, "--output", log)
    refuses("is the data that the run reads", *mine, *tokens, "--data-path", folder / "corpus_text_document",
            "--trace", folder / "corpus_text_document.bin")
    works("train", "gpt", *SMALL, *MOCK, "--save", folder / "a\nnum-layers: 7", "--eval-iters", 0)
    kept = (folder / "a\nnum-layers: 7/config.yaml").read_text()
    if "\nnum-layers: 7" in kept or "\\x0anum-layers: 7" not in kept:
        raise wrong(f"a line break in a folder's name adds a line to the configuration:\n{kept}")


def check_examples(folder):
    """The examples run here, with another shape, batch and layout."""
    tiny = ["--mock-data", "--num-layers", 2, "--hidden-size", 64, "--num-attention-heads", 4,
            "--seq-length", 16, "--vocab-size", 500, "--max-position-embeddings", 16]
    out = works("train", "gpt", "--config", EXAMPLES / "gpt3_345m.yaml", *tiny, "--global-batch-size", 4,
                "--train-iters", 2, "--log-interval", 1)
    if "iteration        2/       2" not in out:
        raise wrong(f"GPT-3 345M, made small, does not run two steps:\n{out}")
    out = works("train", "gpt", "--config", EXAMPLES / "llama3_8b.yaml", *tiny, "--ffn-hidden-size", 96,
                "--num-query-groups", 2, "--kv-channels", 16, "--global-batch-size", 8,
                "--train-samples", 16)
    if "iteration        2/       2" not in out:
        raise wrong(f"Llama-3 8B, made small, does not run two steps:\n{out}")
    two = ["--world-size", 2, "--pipeline-model-parallel-size", 1, "--expert-model-parallel-size", 2]
    heads = ["--num-query-groups", 2, "--kv-channels", 16]
    ranks = ["--q-lora-rank", 24, "--kv-lora-rank", 16, "--qk-head-dim", 16, "--qk-pos-emb-head-dim", 8,
             "--v-head-dim", 16, "--moe-layer-freq", "([0]+[1])", "--moe-shared-expert-intermediate-size", 32]
    small_experts = ["--num-experts", 16, "--moe-ffn-hidden-size", 32, "--ffn-hidden-size", 96]
    steps = ["--global-batch-size", 4, "--lr-warmup-iters", 1, "--train-iters", 2, "--log-interval", 1]
    for name, more in {"mixtral_8x7b": [*two, *heads, "--ffn-hidden-size", 96, "--lr-decay-iters", 2, *steps],
                       "qwen3_30b_a3b": [*two, *heads, *small_experts, "--tensor-model-parallel-size", 1,
                                         "--sequence-parallel=false", *steps],
                       "deepseek_v3": [*two, *ranks, *small_experts, "--world-size", 4,
                                       "--pipeline-model-parallel-size", 2, "--global-batch-size", 4,
                                       "--decoder-first-pipeline-num-layers", 1,
                                       "--decoder-last-pipeline-num-layers", 1, "--log-interval", 1,
                                       "--train-samples", 8, "--lr-warmup-samples", 4]}.items():
        out = works("train", "gpt", "--config", EXAMPLES / f"{name}.yaml", *tiny, *more)
        if "iteration        2/       2" not in out:
            raise wrong(f"{name}, made small, does not run two steps:\n{out}")


def completed(script, *words):
    """Completions that bash offers for the last word: sources the script and calls its function."""
    call = f"""source {script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _troupe; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", call, "bash", *map(str, words)], capture_output=True, timeout=60)
    if done.returncode != 0 or done.stderr:
        raise wrong(f"completing {words}: {done}")
    return done.stdout.decode().split("\n")[:-1]


def check_completion(folder):
    script = folder / "troupe.bash"
    script.write_text(works("completion", "bash"))
    (folder / "runs").mkdir()
    (folder / "run.yaml").write_text("")
    expected = {("tra",): ["train"], ("train", ""): ["gpt", "bert", "t5"],
                ("train", "gpt", "--num-layers-"): ["--num-layers-per-virtual-pipeline-stage"],
                ("train", "gpt", "--swiglu", "--num-q"): ["--num-query-groups"],
                ("train", "gpt", "--position-embedding-type", "r"): ["rope"],
                ("train", "gpt", "--lr-decay-style", "=", "c"): ["constant", "cosine"],
                ("train", "gpt", "--num-layers", ""): [""],
                ("train", "gpt", "--data-path", "x", "--bf"): ["--bf16"],
                ("train", "gpt", "--config", folder / "run.y"): [str(folder / "run.yaml")],
                ("train", "gpt", "--config", folder / "run.yaml", folder / "run.y"): [str(folder / "run.yaml")],
                ("train", "gpt", "--save", folder / "ru"): [str(folder / "runs")],
                ("checkpoint", "show", folder / "ru"): [str(folder / "runs")],
                ("checkpoint", "show", "--js"): ["--json"]}
    for words, wanted in expected.items():
        if (found := completed(script, "troupe", *words)) != wanted:
            raise wrong(f"{' '.join(map(str, words))} completes to {found}, expected {wanted}")
    # Offers exactly the flags that the help of a command lists.
    flags = {word for line in works("train", "gpt", "--help").splitlines()
             for word in line.split()[:1] if line.startswith("  --")}
    offered = set(completed(script, "troupe", "train", "gpt", "--"))
    if offered != flags | {"--help"}:
        raise wrong(f"offered and listed differ: {offered ^ flags}")
    for shell, check in [("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])]:
        (folder / shell).write_text(works("completion", shell))
        if shutil.which(shell):
            done = subprocess.run([*check, folder / shell], capture_output=True, timeout=60)
            if done.returncode != 0:
                raise wrong(f"{shell} does not read its completion: {done.stderr}")
        if "--num-layers" not in (text := (folder / shell).read_text()) and "-l num-layers" not in text:
            raise wrong(f"the completion for {shell} does not know --num-layers")
    refuses("bash, zsh, fish", "completion")


def check_manual(folder):
    """Each command has a page with all of its flags; man and mandoc accept the pages."""
    pages = folder / "share" / "man" / "man1"
    works("manual", "--output", pages)
    names = {page.name for page in pages.iterdir()}
    for name in ["troupe.1", "troupe-train.1", "troupe-train-gpt.1", "troupe-checkpoint-diff.1"]:
        if name not in names:
            raise wrong(f"no page {name} among {sorted(names)}")
    page = (pages / "troupe-train-gpt.1").read_text()
    for flag in works("train", "gpt", "--help").split():
        if flag.startswith("--") and flag.rstrip(".,:;") == flag and flag.replace("-", "\\-") not in page:
            raise wrong(f"{flag} is not in the manual page")
    text = works("manual", "--format", "markdown")
    for page in ["## troupe train gpt", "* `--num-layers N`: Transformer layers. Required"]:
        if page not in text:
            raise wrong(f"'{page}' is not in the Markdown manual")
    refuses("--output DIR is missing", "manual")
    refuses("cannot", "manual", "--output", folder / "share" / "man" / "man1" / "troupe.1" / "x")
    for page in pages.iterdir():
        if shutil.which("mandoc"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", page], capture_output=True, timeout=60)
            if done.returncode != 0:
                raise wrong(f"mandoc: {done.stdout}")
    if shutil.which("man"):
        done = subprocess.run(["man", "-l", "--warnings", pages / "troupe-train-gpt.1"], capture_output=True,
                              timeout=60, env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "100"})
        if done.returncode == 0 and (done.stderr or b"Transformer layers" not in done.stdout):
            raise wrong(f"man: {done.stderr} {done.stdout[:500]}")


GPT3_175B = ["--num-layers", 96, "--hidden-size", 12288, "--num-attention-heads", 96, "--seq-length", 2048,
             "--micro-batch-size", 1, "--global-batch-size", 1536, "--vocab-size", 50257, "--bf16",
             "--tensor-model-parallel-size", 8, "--pipeline-model-parallel-size", 16]


def check_memory(folder):
    """Equals Megatron-LM's figures to the digit, for models larger than the test machines."""
    def of(*words):
        return json.loads(works("memory", "--json", *words))
    small = of("--config", EXAMPLES / "gpt3_345m.yaml")
    # Megatron-LM's output for this model with micro-batches of 4, without a distributed optimizer.
    if "optimizer=6069.97 MB, activation=3852.48 MB, total=9922.46 MB" not in small["megatron"]["text"]:
        raise wrong(f"345M: {small['megatron']}")
    if (named := json.loads(works("memory", "gpt", "--json", "--config", EXAMPLES / "gpt3_345m.yaml"))) != small:
        raise wrong(f"`troupe memory gpt` differs from `troupe memory`: {named}")
    llama = of("--config", EXAMPLES / "llama3_8b.yaml")
    large = of(*GPT3_175B, "--world-size", 1024, "--use-distributed-optimizer", "--sequence-parallel")
    for found, flops in [(small, 2326530097152), (llama, 421645529382912), (large, 2174868359479296)]:
        if found["flops_per_sample"] != flops or found["flops_per_token"] * 1 != flops / {
                2326530097152: 1024, 421645529382912: 8192, 2174868359479296: 2048}[flops]:
            raise wrong(f"{found['flops_per_sample']} operations per sample, expected {flops}")
    if llama["parameters"] != 8030261248 or large["parameters"] != 174604259328:
        raise wrong(f"parameters: {llama['parameters']} {large['parameters']}")
    for found in [small, llama, large]:
        workers = found["workers"]
        if sum(x["count"] for x in workers) != found["layout"]["world"]:
            raise wrong(f"workers are missing: {found}")
        for x in workers:
            if x["peak"] != x["values"] + x["gradients"] + x["optimizer"] + x["activations"] + x["gradients_not_taken"] + x["verified_passes"]:
                raise wrong(f"kinds do not add up: {x}")
    # Without a distributed optimizer each data rank has all moments and masters: 12 bytes per parameter.
    alone = of(*GPT3_175B, "--world-size", 1024, "--sequence-parallel")
    ratio = alone["workers"][0]["optimizer"] / large["workers"][0]["optimizer"]
    if not 6.4 < ratio < 10:  # 8 data ranks; pools round up by at most a quarter
        raise wrong(f"a distributed optimizer over 8 saves {ratio}")
    check_pytorch_estimate(of)
    page = works("memory", "--config", EXAMPLES / "llama3_8b.yaml")
    for expected in ["parameters 8030261248", "Theoretical memory footprints", "its MB is 2^20 bytes", "What memory grows with",
                     "twice for a tied embedding if a stage has both its uses"]:
        if expected not in " ".join(page.split()):
            raise wrong(f"'{expected}' is not in the page:\n{page}")
    for command, more in [("memory", []), ("train gpt", ["--dry-run"])]:
        example, = [x for x in works(*command.split(), "--help").split("\n\n") if x.startswith("Example")]
        works(*" ".join(example.split()).partition(": troupe ")[2].split(), *more)
    works("memory", *GPT3_175B, "--world-size", 1024, "--log-throughput", "--matrix-rate", 2)
    refuses("--num-layers is missing", "memory", "--vocab-size", 100)
    refuses("--vocab-size", "memory", *SMALL)
    refuses("multiple", "memory", *GPT3_175B, "--hidden-size", 100)


def check_program_memory(folder):
    """The forecast of tensors and program is near the largest resident memory of a run, for few and many workers."""
    tok = cli_test.tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d", "--tokenizer", tok)
    for workers in [1, 8]:
        words = [*SMALL, "--global-batch-size", 16, "--world-size", workers, "--tokenizer", tok]
        found = json.loads(works("memory", "--json", *words))
        words += ["--data-path", folder / "d_text_document", "--split", "90,10,0"]
        with subprocess.Popen([cli_test.PROGRAM, "train", "gpt", *map(str, words)], stdout=subprocess.PIPE) as run_:
            out = run_.stdout.read().decode()
            _, status, used = os.wait4(run_.pid, 0)
            run_.returncode = os.waitstatus_to_exitcode(status)
        forecast, most = found["all_workers"] + found["program"], used.ru_maxrss * 1024
        # Libraries, allocators and kernels of other machines differ by some 10 MB.
        if run_.returncode != 0 or not forecast - 25e6 < most < forecast + 25e6:
            raise wrong(f"{workers} workers: resident {most / 1e6} MB, forecast {forecast / 1e6} MB\n{out}")
        if "the program itself" not in out:
            raise wrong(f"the start does not tell the program's memory:\n{out}")


def check_pytorch_estimate(of):
    """If each device has the whole model, the forecast has an estimate for PyTorch, marked as one."""
    words = ["--num-layers", 12, "--hidden-size", 768, "--num-attention-heads", 12, "--seq-length", 1024, "--vocab-size", 50304,
             "--bf16", "--micro-batch-size", 16, "--global-batch-size", 32]
    one = of(*words)["pytorch_estimate"]
    parameters = 124475904  # GPT-2 124M, with positions of 1024 and a vocabulary of 50304
    for mode in ["eager", "compiled"]:
        x = one[mode]
        if x["parameters"] != 4 * parameters or x["moments"] != 8 * parameters or x["buckets"] != 0:
            raise wrong(f"{mode}: {x}")
        if x["peak"] != sum(x[name] for name in ["parameters", "gradients", "moments", "cast_weights", "activations", "loss"]):
            raise wrong(f"with two micro-batches the peak must include gradients: {x}")
    if one["eager"]["loss"] != 12 * 16 * 1024 * 50304 or one["compiled"]["peak"] >= one["eager"]["peak"]:
        raise wrong(f"{one}")
    if "pytorch_estimate" in of(*words, "--world-size", 2, "--tensor-model-parallel-size", 2):
        raise wrong("an estimate for half a model")


def check_layouts_page(folder):
    """The dry runs of docs/guides/layouts.md choose the stages that the page shows."""
    page = (EXAMPLES.parents[1] / "docs/guides/layouts.md").read_text()
    dry = ["train", "gpt", *re.search(r'model="(.*?)"', page, re.DOTALL)[1].split(), "--dry-run"]
    table = re.findall(r"^\| `(--pipeline.*?)` \| `(.*?)` \|$", page.replace(r"\|", "|"), re.MULTILINE)
    for flags, stages in table:
        said = works(*dry, *shlex.split(flags))
        if f"stages      {stages}\n" not in said:
            raise wrong(f"for {flags} the page shows the stages {stages}, but the dry run prints:\n{said}")
    if len(table) != 4:
        raise wrong(f"the page shows {len(table)} layouts, expected 4")


def check_doctor(folder):
    """Reports that the test machine can train, and that a folder is missing or unwritable."""
    found = json.loads(works("doctor", "--json", "--folder", folder))
    if not found["can_train"] or found["processor"]["usable"] < 1 or "CAF" not in found["libraries"]:
        raise wrong(f"{found}")
    page = works("doctor", "--folder", folder)
    for expected in ["This machine can train.", "--transport ucx tests the wires",
                     found["processor"]["arithmetic"]]:
        if " ".join(expected.split()) not in " ".join(page.split()):
            raise wrong(f"'{expected}' is not in the page:\n{page}")
    done = subprocess.run([cli_test.PROGRAM, "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TROUPE_PLUGINS": str(folder)})
    if "its plug-in libtroupe_ucx.so is missing" not in " ".join(done.stdout.split()):
        raise wrong(f"UCX without its plug-in is not reported:\n{done.stdout}")
    told = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a-host", "MASTER_PORT": "6000"}
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NODELIST": "a,b", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": "1",
            "SLURM_LOCALID": "0", "SLURM_RESTART_COUNT": "1", "SLURM_JOB_END_TIME": "1796000000"}
    for variables, expected in [
            (told, "launcher: torchrun started this process as rank 1 of 2; rank 0 is at a-host, port 6000."),
            (step, "launcher: srun started this process as rank 1 of 2, local rank 0 of 1 on b, host 1 of 2; the job "
                   "is 7.0; rank 0 is at a, port 15007; restarted 1 time; Slurm ends it at 2026-11-30 00:53 UTC."),
            ({"SLURM_JOB_ID": "7"}, "launcher: this process runs alone in a job of Slurm; the job is 7."),
            ({"RANK": "1", "WORLD_SIZE": "2"}, "launcher: the environment has RANK=1: MASTER_ADDR is not set;")]:
        done = subprocess.run([cli_test.PROGRAM, "doctor"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **variables})
        if done.returncode != 0 or expected not in " ".join(done.stdout.split()):
            raise wrong(f"{variables}: expected '{expected}' in\n{done.stdout}{done.stderr}")
    page = " ".join(works("doctor", "--folder", folder / "not" / "there").split())
    if "there is no folder" not in page or "fix: mkdir -p" not in page or "0 B of 0 B" in page:
        raise wrong(f"a missing folder:\n{page}")
    (folder / "file").write_text("")
    code, out, err = run("doctor", "--folder", folder / "file")
    if code != 2 or "MISSING" not in out or "fix: cd" not in out:
        raise wrong(f"a folder that is a file: {code} {out} {err}")
    drivers = pathlib.Path(cli_test.PROGRAM).parents[1] / "drivers"
    (folder / "ucx_info").write_text("#!/bin/sh\necho '#      Transport: tcp'\necho '#      Transport: rc_mlx5'\n")
    (folder / "ucx_info").chmod(0o755)
    done = subprocess.run([cli_test.PROGRAM, "doctor", "--json"], capture_output=True, timeout=60,
                          env={**os.environ, "LD_LIBRARY_PATH": str(drivers),
                               "PATH": f"{folder}:{os.environ['PATH']}"})
    planted = json.loads(done.stdout)
    if planted["gpu"]["names"] != ["Planted GPU 0", "Planted GPU 1"] or planted["gpu"]["driver_version"] != "12.4":
        raise wrong(f"the planted driver is not found: {planted['gpu']}")
    if planted["transports"] != {"ucx": "1.99.0", "ucx_info": True, "listed": ["tcp", "rc_mlx5"]}:
        raise wrong(f"the planted UCX is not found: {planted['transports']}")
    rates = json.loads(works("doctor", "--json", "--measure"))["rates"]
    if not all(rates[kind] > 0 for kind in ["f32", "bf16", "copy"]):
        raise wrong(f"rates: {rates}")


def check_version(folder):
    text = works("--version").strip()
    if not text.startswith("troupe ") or "commit" not in text or "oneDNN" not in text:
        raise wrong(f"the version is incomplete: {text}")
    out = works("train", "gpt", *SMALL, *MOCK, "--save", folder / "ckpt")
    if out.splitlines()[0].strip() != text:
        raise wrong(f"the log does not begin with the version:\n{out[:300]}")
    build = state(folder / "ckpt")["identity"]["build"]
    for word in ["version", "compiler", "options"]:
        if build[word] not in text:
            raise wrong(f"the version lacks the checkpoint's {word} {build[word]}: {text}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
