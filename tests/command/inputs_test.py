"""Odd and hostile inputs: errors stay short, terminals stay safe, and no output overwrites an input. Run by ctest.

    inputs_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import subprocess
import sys

import cli_test
from cli_test import MOCK, SMALL, TEXT, wrong
from robust_test import PATIENCE, expect, words_of


def bounded(says, *words, text=None):
    """Expects an error of a few lines, without control characters, within PATIENCE. Quadratic work on these inputs
    would take hours."""
    done = subprocess.run(words_of(*words), capture_output=True, timeout=PATIENCE, input=text)
    what = f"{[str(x)[:100] for x in words]}: exit code {done.returncode}, {len(done.stderr)} bytes: {done.stderr[:1000]}"
    if done.returncode != 2 or says not in done.stderr.decode():
        raise wrong(f"{what}\nexpected '{says}'")
    if any(x < 32 and x not in b"\n\t" or x == 127 for x in done.stderr):
        raise wrong(f"{what}\nit contains control characters")
    if len(done.stderr) > 100_000 or max(map(len, done.stderr.split(b"\n"))) > 4200:
        raise wrong(f"{what}\nthe error is too long")


def check_messages(folder):
    """Errors quote bounded parts of the input and escape control characters."""
    train, long = ["train", "gpt", "--config"], b"9" * 500_000
    keys = b"".join(b"k%d: 1\n" % i for i in range(80_000))
    bounded("at least 1000 flags cannot be used", *train, "-", text=keys)
    bounded("give a whole number", *train, "-", text=b"num-layers: " + long + b"\n")
    bounded("is not a flag", *train, "-", text=b"? " + long + b"\n: 1\n")
    bounded("is given twice", *train, "-", text=(b"? " + long[:250_000] + b"\n: 1\n") * 2)
    bounded("is not a flag", "train", "gpt", "--" + "x" * 100_000)
    bounded("has no command", "x" * 100_000)
    bounded("'\\x1b[31m' does not belong to a flag", "train", "gpt", "\x1b[31m")
    bounded("\\x1b]0;title\\x07", "plot", "\x1b]0;title\x07")
    (folder / "\x1b[2J.jsonl").write_text('{"iteration":1,"lm_loss":2}\nnonsense\n{"iteration":2,"lm_loss":1}\n')
    out = expect(0, "plot", folder / "\x1b[2J.jsonl", "--output", folder / "loss.svg", says="line 2 is not a record")
    if "\x1b" in out:
        raise wrong(f"control characters in the table of a run: {out!r}")


def check_pages(folder):
    """Control characters in names are escaped in all output; JSON escapes keep the name."""
    odd, shown = os.fsdecode(b"\x1b[2J\x7f\xc2\x9b"), r"\x1b[2J\x7f\xc2\x9b"

    def page(*words, says=shown):
        done = subprocess.run(words_of(*words), capture_output=True, timeout=PATIENCE)
        what = f"{[str(x) for x in words]}: exit code {done.returncode}: {done.stdout!r} {done.stderr!r}"
        if done.returncode != 0 or says not in done.stdout.decode():
            raise wrong(f"{what}\nexpected '{says}'")
        if any(x < 32 and x not in b"\n\t" or x == 127 for x in done.stdout) or b"\xc2\x9b" in done.stdout:
            raise wrong(f"{what}\nit contains control characters")
        return done.stdout

    run, text, plan = folder / f"{odd}run", folder / f"{odd}.txt", folder / f"{odd}.csv"
    text.write_text("1 2 3\n\n4 5\n")
    expect(0, "train", "gpt", *SMALL, *MOCK, "--save", run)
    page("train", "gpt", *SMALL, *MOCK, "--load", run, "--dry-run")
    page("eval", "--load", run, "--input", text)
    page("preprocess", "--input", text, "--output-prefix", folder / f"{odd}data", *MOCK[1:5])
    page("merge-datasets", "--input", folder / f"{odd}data_text_document", "--output-prefix", folder / f"{odd}merged")
    page("tokenizer", "train", "--input", text, "--vocab-size", 260, "--output", folder / f"{odd}tok")
    page("checkpoint", "export", run, "--hf", folder / f"{odd}hub")
    page("checkpoint", "import", "--hf", folder / f"{odd}hub", "--save", folder / f"{odd}back")
    page("manual", "--output", folder / f"{odd}man")
    page("schedule", "plan", "1f1b", "--ranks", 2, "--microbatches", 2, "--output", plan)
    for command in ["check", "simulate", "draw"]:
        page("schedule", command, plan)
    found = json.loads(page("schedule", "check", plan, "--json", says=r"\u001b[2J\u007f\u009b"))
    if found["name"] != str(plan):
        raise wrong(f"as JSON '{plan}' is '{found['name']}'")


def check_odd_paths(folder):
    """Inputs and outputs may have paths that are not UTF-8, also where a file stores the path."""
    odd = folder / os.fsdecode(b"odd \xff")
    odd.mkdir()
    text, tok, save = odd / "text.txt", odd / "tok", odd / "run"
    text.write_text(TEXT)
    expect(0, "tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", tok)
    expect(0, "preprocess", "--input", text, "--output-prefix", odd / "data", "--tokenizer", tok, "--append-eod")
    expect(2, "preprocess", "--input", text, "--output-prefix", odd / "data", "--tokenizer", tok, "--json-keys",
           os.fsdecode(b"k\xff"), says="it is not UTF-8")
    train = ["train", "gpt", *SMALL, "--data-path", odd / "data_text_document", "--split", "8,1,1"]
    expect(0, *train, "--tokenizer", tok, "--save", save)
    expect(0, *train, "--tokenizer", tok, "--load", save, "--train-iters", 8, "--override-opt_param-scheduler",
           says="resuming from iteration 6")
    hub, imported = odd / "hub", odd / "imported"
    expect(0, "checkpoint", "export", save, "--hf", hub)
    expect(0, "checkpoint", "import", "--hf", hub, "--save", imported, "--tokenizer", tok)
    expect(0, "checkpoint", "show", imported, says="imported_from/bytes")
    tok.rename(odd / "gone")
    for x in [save, imported]:
        expect(0, "generate", "--load", x, "--prompt", "The", "--tokens", 4)


def check_own_inputs(folder):
    """No output overwrites an input, under whatever name."""
    text, log = folder / "text.txt", folder / "log.jsonl"
    text.write_text(TEXT)
    small = ["train", "gpt", *SMALL, *MOCK]
    expect(0, *small, "--log-file", log, "--save", folder / "run", "--trace", folder / "trace.json",
           "--profile-operations", folder / "profile.json")
    kept = [text, log, folder / "run/config.yaml", *folder.glob("run/iter_*/*")]
    before = {x: x.read_bytes() for x in kept}
    (folder / "link").symlink_to(text)
    os.link(log, folder / "hard")
    for x in kept:
        for flag in ["--trace", "--profile-operations"]:
            expect(2, "train", "gpt", "--config", folder / "run/config.yaml", "--load", folder / "run", flag, x,
                   says="the run would overwrite it")
    expect(0, *small, "--trace", folder / "trace.json", "--profile-operations", folder / "profile.json")
    words = ["eval", "--load", folder / "run", "--input", text, "--logits"]
    for x in [text, folder / "link"]:
        expect(2, *words, x, says="which is read")
    for x in kept[1:]:
        expect(2, *words, x, says="it would be overwritten")
    for x in [log, folder / "hard", folder / "run/../log.jsonl"]:
        expect(2, "plot", log, "--output", x, says="which is read")
    plan = folder / "plan.csv"
    plan.write_text(expect(0, "schedule", "plan", "1f1b", "--ranks", 2, "--microbatches", 2))
    for flag in ["--svg", "--trace"]:
        expect(2, "schedule", "draw", plan, flag, plan, says="which is read")
    expect(2, "schedule", "plan", plan, "--output", plan, says="which is read")
    (folder / "vocab.json").write_text(TEXT)
    expect(2, "tokenizer", "train", "--input", folder / "vocab.json", "--vocab-size", 300, "--output", folder,
           says="which is read")
    (folder / "x_text_document.idx").write_text("1 2 3\n")
    expect(2, "preprocess", "--input", folder / "x_text_document.idx", "--input-format", "lines", *MOCK[1:5],
           "--output-prefix", folder / "x", says="which is read")
    for x, was in before.items():
        if x.read_bytes() != was:
            raise wrong(f"{x} was overwritten")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
