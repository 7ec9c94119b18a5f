"""What helps a user who has never seen the project: configurations, completion, manual. Run by ctest.

    usage_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cli_test
from cli_test import MOCK, SMALL, refuses, run, works, wrong

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "configurations"


def state(folder):
    """The checkpoint that is the latest there, without where and when it was written."""
    return json.loads(works("checkpoint", "show", folder, "--json"))


def same_state(a, b):
    works("checkpoint", "diff", a, b)
    if state(a)["identity"] != state(b)["identity"]:
        raise wrong(f"{a} and {b} have other identities: {state(a)['identity']} {state(b)['identity']}")


def check_configuration(folder):
    """The words of the command line as a file give the same run, and so does what was kept of it."""
    lines = [f"{flag[2:]}: {value}" for flag, value in zip(SMALL[::2], SMALL[1::2])]
    (folder / "run.yaml").write_text("\n".join(lines) + "\nmock_data: true\nvocab-size: 100\n"
                                     "tokenizer-type: NullTokenizer\nhidden-dropout: 0.2\n")
    works("train", "gpt", *SMALL, *MOCK, "--hidden-dropout", 0.2, "--save", folder / "flags")
    works("train", "gpt", "--config", folder / "run.yaml", "--save", folder / "yaml")
    same_state(folder / "flags", folder / "yaml")
    kept = folder / "flags" / "config.yaml"
    works("train", "gpt", "--config", kept, "--save", folder / "kept")
    same_state(folder / "flags", folder / "kept")
    # The kept one names its folder: the run is there, and is not written over.
    refuses("--load", "train", "gpt", "--config", kept)
    refuses("nothing", "train", "gpt", "--config", folder / "nothing.yaml")
    refuses("line 1, column 13", "train", "gpt", "--config", "-", text=b"num-layers: many\n")
    refuses("did you mean --num-layers?", "train", "gpt", "--config", "-", text=b"num_lyers: 2\n")


def check_resumed(folder):
    """A run that goes on otherwise keeps the configuration of before, and says so."""
    words = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "ckpt", "--load", folder / "ckpt"]
    works(*words, "--exit-interval", 3)
    first = (folder / "ckpt" / "config.yaml").read_text()
    out = works(*words, "--exit-interval", 6)
    if "config.1.yaml" not in out:
        raise wrong(f"nothing is said about the configuration of before:\n{out}")
    if (folder / "ckpt" / "config.1.yaml").read_text() != first:
        raise wrong("the configuration of before is not what it was")
    out = works(*words, "--exit-interval", 6)
    if "config." in out or (folder / "ckpt" / "config.2.yaml").exists():
        raise wrong(f"the same configuration is kept twice:\n{out}")


def check_examples(folder):
    """Both examples run here as they are, but for shape and batch."""
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


def completed(script, *words):
    """What bash offers for the last of the words: the script is sourced, its function called."""
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
    expected = {("tra",): ["train"], ("train", ""): ["gpt"],
                ("train", "gpt", "--num-l"): ["--num-layers"],
                ("train", "gpt", "--swiglu", "--num-l"): ["--num-layers"],
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
            raise wrong(f"{' '.join(map(str, words))} completes to {found}, not {wanted}")
    # Whatever the help of a command lists is offered, and nothing else.
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
    """A page for each command, with each of its flags; man and mandoc find nothing wrong in them."""
    pages = folder / "share" / "man" / "man1"
    works("manual", "--output", pages)
    names = {page.name for page in pages.iterdir()}
    for name in ["troupe.1", "troupe-train.1", "troupe-train-gpt.1", "troupe-checkpoint-diff.1"]:
        if name not in names:
            raise wrong(f"there is no page {name} among {sorted(names)}")
    page = (pages / "troupe-train-gpt.1").read_text()
    for flag in works("train", "gpt", "--help").split():
        if flag.startswith("--") and flag.rstrip(".,:;") == flag and flag.replace("-", "\\-") not in page:
            raise wrong(f"{flag} is not in the manual page")
    text = works("manual", "--format", "markdown")
    for page in ["## troupe train gpt", "* `--num-layers N`: Transformer layers."]:
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


def check_version(folder):
    text = works("--version").strip()
    if not text.startswith("troupe ") or "commit" not in text or "oneDNN" not in text:
        raise wrong(f"the version says too little: {text}")
    out = works("train", "gpt", *SMALL, *MOCK, "--save", folder / "ckpt")
    if out.splitlines()[0].strip() != text:
        raise wrong(f"the log does not begin with the version:\n{out[:300]}")
    build = state(folder / "ckpt")["identity"]["build"]
    for word in ["version", "compiler", "options"]:
        if build[word] not in text:
            raise wrong(f"the checkpoint's build says {word} {build[word]}, which is not in: {text}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
