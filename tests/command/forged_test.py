"""Refuses forged files and reports limits of the system. The files have impossible sizes and correct hashes. Each
refusal must be quick, use little memory and name the fault. Run by ctest.

    forged_test.py PROGRAM NAME...   runs the named checks, or all
"""

import ctypes
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import cli_test
from cli_test import MOCK, SMALL, refuses, run, works, wrong

LLAMA = ["--position-embedding-type", "rope", "--normalization", "RMSNorm", "--swiglu", "--disable-bias-linear",
         "--untie-embeddings-and-output-weights", "--ffn-hidden-size", 48, "--hidden-dropout", 0,
         "--attention-dropout", 0]
LATEST = "iter_0000006"
# Limits of a refusal. It usually takes 0.1 s and 30 MB, or 200 MB once a run has started. The bugs that this test
# detects took minutes and gigabytes; the limits leave room for a busy machine.
SECONDS, MEGABYTES = 60, 450
GIANTS = [1000000000, 2147483647]
# Values that no size may have. Each field is tried with a few; tests/runtime/checkpoint/hub_test.cpp tries all values
# on the reader.
NO_SIZES = [-1, 0, 1.5, 1e9, "2", True, [], 2147483648, 2**63, 2**64]
# Measures memory under a small parent process, because a child starts with the peak memory of its parent.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
status, used = os.wait4(pid, 0)[1:]
with open(sys.argv[1], "w") as out:
    out.write(f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}")
"""


def measured(folder, *words):
    """Runs a command that must be quick and small. Returns its exit code and output."""
    seen = folder / "measured"
    command = [sys.executable, "-I", "-S", "-c", MEASURE, seen, cli_test.PROGRAM, *words]
    said = f"troupe {' '.join(map(str, words))}"
    try:
        done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise wrong(f"{said}: not refused after {SECONDS} s") from None
    code, kilobytes = map(int, seen.read_text().split())
    if kilobytes > MEGABYTES << 10:
        raise wrong(f"{said}: took {kilobytes >> 10} MB")
    return code, done.stdout.decode("utf8", "replace") + done.stderr.decode("utf8", "replace")


def refused(folder, what, says, *words):
    code, out = measured(folder, *words)
    if code != 2 or says not in out or len(out) > 3000:
        raise wrong(f"{what}: troupe {' '.join(map(str, words))}: exit code {code}, without '{says}'\n{out[:3000]}")


def trained(folder, name, *more):
    works("train", "gpt", *SMALL, *MOCK, *more, "--save", folder / name)
    return folder / name


def hub_folder(folder, name, *more):
    works("checkpoint", "export", trained(folder, name, *more), "--hf", folder / f"{name}_hub")
    return folder / f"{name}_hub"


def check_hub(folder):
    """Both commands that read a config.json refuse any impossible size in it."""
    sizes = {"llama": ["num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                       "intermediate_size", "vocab_size", "max_position_embeddings"],
             "gpt2": ["n_layer", "n_embd", "n_head", "n_inner", "n_positions", "vocab_size"]}
    begin = ["train", "gpt", *MOCK, "--seq-length", 16, "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 1, "--lr", 1e-3, "--eval-iters", 0]
    for kind, more in [("llama", LLAMA), ("gpt2", [])]:
        hub = hub_folder(folder, kind, *more)
        config = hub / "config.json"
        good = json.loads(config.read_text())
        if not set(sizes[kind]) <= good.keys() | {"head_dim"}:
            raise wrong(f"a {kind} config lacks expected sizes: {good}")
        ways = [["checkpoint", "import", "--hf", hub, "--save", folder / "imported"], [*begin, "--load-hf", hub]]
        for number, size in enumerate(sizes[kind]):
            # No tensor depends on the number of rotary positions, so any number is allowed.
            giants = [] if size == "max_position_embeddings" else GIANTS
            tried = [(value, words) for value in giants for words in ways]
            tried += [(NO_SIZES[(number + first) % len(NO_SIZES)], ways[(number + first) % 2]) for first in (0, 5)]
            for value, words in tried:
                config.write_text(json.dumps(good | {size: value}))
                refused(folder, f"{size} {value}", f"{hub}", *words)
        config.write_text(json.dumps(good))
        works("checkpoint", "import", "--hf", hub, "--save", folder / f"imported_{kind}")


def sealed(manifest):
    """The text of a manifest with its own hash, see docs/formats/checkpoint.md."""
    others = {key: value for key, value in manifest.items() if key != "manifest_sha256"}
    begin, end = json.dumps(others)[:-1] + ', "manifest_sha256": "', '"\n}\n'
    return begin + hashlib.sha256((begin + "0" * 64 + end).encode()).hexdigest() + end


def commands(folder, run_folder, whole):
    (folder / "text.txt").write_text("1 2 3 4 5 6\n" * 10)
    shutil.rmtree(folder / "exported", ignore_errors=True)
    return {"show": ["checkpoint", "show", run_folder], "verify": ["checkpoint", "verify", run_folder],
            "diff": ["checkpoint", "diff", run_folder, whole],
            "export": ["checkpoint", "export", run_folder, "--hf", folder / "exported"],
            "generate": ["generate", "--load", run_folder, "--prompt", "1 2 3", "--tokens", 2],
            "one": ["generate", "--load", run_folder / LATEST, "--prompt", "1 2 3", "--tokens", 2],
            "eval": ["eval", "--load", run_folder, "--input", folder / "text.txt"],
            "train": ["train", "gpt", *SMALL, *MOCK, "--load", run_folder]}


def check_manifest(folder):
    """Every command refuses a manifest with a correct hash and a false description of the model."""
    whole = trained(folder, "whole")
    forged = folder / "forged"
    shutil.copytree(whole, forged)
    good = json.loads((whole / LATEST / "manifest.json").read_text())

    def forge(**fields):
        (forged / LATEST / "manifest.json").write_text(sealed(good | fields))

    forge()
    for name, words in commands(folder, forged, whole).items():
        if (found := measured(folder, *words))[0] != 0:
            raise wrong(f"{name} fails on a valid manifest with a new hash: {found}")
    cases = [{"layers": x} for x in [-1, 0, 1, 3, 10**9, 2**31 - 1, 2**31, 2**63]]
    cases += [{"heads": 2**30, "groups": 2**30}, {"tied_embeddings": False}, {"linear_bias": False},
              {"qk_norm": True}, {"normalization": "rms"}, {"position": "none"}, {"padded_vocabulary": -1},
              {"padded_vocabulary": 2**31}, {"sequence": 2**31 - 1}, {"sequence": -1}]
    cases += [{size: x} for size in ["hidden", "heads", "groups", "head_size", "ffn", "positions", "vocabulary"]
              for x in [-1, 7, 10**9, 2**31, 1.5]]
    # Each case takes one command per code path in turn: listing, loading the model, exporting.
    ways = [["show", "verify", "diff"], ["generate", "one", "eval"], ["export"]]
    for number, case in enumerate(cases):
        forge(model=good["model"] | case)
        all_of_them = commands(folder, forged, whole)
        asked = [way[number % len(way)] for way in ways]
        for name in asked + ["train"] * (number % 4 == 0):  # slow: a run reads its checkpoint only after a second
            refused(folder, case, "", *all_of_them[name])
    # Lists all forged checkpoints and a valid one in one folder.
    listed = folder / "listed"
    for number, case in enumerate(cases, 1):
        there = listed / f"iter_{number:07}"
        shutil.copytree(whole / LATEST, there)
        forged_one = good | {"iteration": number, "model": good["model"] | case}
        (there / "manifest.json").write_text(sealed(forged_one))
    shutil.copytree(whole / LATEST, listed / "iter_0000999")
    (listed / "iter_0000999" / "manifest.json").write_text(sealed(good | {"iteration": 999}))
    found = json.loads(works("checkpoint", "ls", listed, "--json"))
    if [x["sound"] for x in found] != [x["iteration"] == 999 for x in found] or len(found) != len(cases) + 1:
        raise wrong(f"wrong list of {cases} and a valid checkpoint: {found}")
    long = "x" * 50_000_000
    for number, case in enumerate([
            {"identity": good["identity"] | {"more": long}}, {"layout": {"more": [1] * 9_000_000}},
            {"identity": {str(i): i for i in range(2_000_000)}}, {"products": {long[:5_000_000]: "00"}}, {long: 1}]):
        forge(**case)
        all_of_them = list(commands(folder, forged, whole).values())
        for words in [all_of_them[(2 * number + x) % len(all_of_them)] for x in range(2)]:  # covers all eight commands
            refused(folder, f"a long {list(case)[0][:10]}", "manifest.json' has more than 4194304 bytes", *words)


def check_tokenizer_copy(folder):
    """A resumed run restores a damaged copy of the tokenizer if the hashes in its checkpoints prove that it is the
    same one."""
    tok = cli_test.tokenizer(folder)
    gpt2 = ["GPT2BPETokenizer", "--vocab-file", tok / "vocab.json", "--merge-file", tok / "merges.txt"]
    hub = ["HuggingFaceTokenizer", "--tokenizer-model", folder / "hub"]
    for flags, names in [(gpt2, ["vocab.json", "merges.txt"]), (hub, ["tokenizer.json", "tokenizer_config.json"])]:
        save = folder / flags[0]
        words = ["train", "gpt", *SMALL, "--mock-data", "--save", save, "--tokenizer-type", *flags]
        more = ["--load", save, "--override-opt_param-scheduler", "--train-iters"]
        works(*words)
        steps = 6
        for name in names:
            kept = save / "tokenizer" / name
            text = kept.read_bytes()
            other = text.replace(b"<|endoftext|>", b"The") if name == "tokenizer_config.json" else \
                text.replace(b"t", b"u", 1)
            for damage in [b"", text[:-9], other, b"{}"]:
                kept.write_bytes(damage)
                steps += 1
                code, out, err = run(*words, *more, steps)
                if code != 0 or f"{kept}' was damaged: it is written again" not in err or kept.read_bytes() != text:
                    raise wrong(f"{len(damage)} bytes as {name}: exit code {code}\n{out}\n{err}")
        works("generate", "--load", save, "--prompt", "The actor", "--tokens", 2)
        if flags is gpt2:
            works("checkpoint", "export", save, "--hf", folder / "hub")
        # Without a checkpoint the owner of the copy is unknown.
        for left in save.glob("iter_*"):
            shutil.rmtree(left)
        (save / "latest_checkpointed_iteration.txt").unlink()
        kept.write_text("")
        refuses("it is damaged, or the checkpoints", *words)


def check_limits(folder):
    """An error of the system names the refusing limit and a remedy."""
    words = list(map(str, [cli_test.PROGRAM, "train", "gpt", *SMALL, *MOCK]))

    def told(more, before, *says):
        done = subprocess.run([*words, *map(str, more)], capture_output=True, timeout=240, preexec_fn=before)
        err = done.stderr.decode()
        if done.returncode != 2 or not all(text in err for text in says) or "0 B are in use" in err:
            raise wrong(f"{more}: exit code {done.returncode}, not {says}\n{err}")

    limit = 1 << 30
    told(["--num-layers", 8, "--hidden-size", 2048], lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
         "out of memory", "of the 1.07 GB of address space", "(ulimit -v)")
    done = subprocess.run(words, capture_output=True, timeout=240,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    if done.returncode != 0:  # the run's forecast must not reserve address space that the run needs
        raise wrong(f"a small run needs {limit} bytes of address space\n{done.stderr.decode()}")

    def without_override():
        """Drops root's capabilities to override permissions."""
        pr_capbset_drop, dac_override, dac_read_search = 24, 1, 2
        for capability in [dac_override, dac_read_search]:
            ctypes.CDLL(None).prctl(pr_capbset_drop, capability)

    locked = folder / "locked"
    (locked / "in").mkdir(parents=True)
    locked.chmod(0)
    try:
        for flag, inside in [("--save", locked / "in/run"), ("--log-file", locked / "in/log"),
                             ("--trace", locked / "in/trace")]:
            told([flag, inside], without_override, f"{flag} cannot be written: '{inside}", "Permission denied")
        told(["--load", locked / "in"], without_override, str(locked / "in"), "Permission denied")
    finally:
        locked.chmod(0o700)
    told(["--log-file", folder / "none/log"], without_override, "there is no folder")


def check_faults(folder):
    """Injects each of several faults."""
    words = ["train", "gpt", *SMALL, *MOCK]
    for faults in [["--plant-fault", "stage:0.0@2", "--plant-fault", "stage:0.0@4"],
                   ["--plant-fault", "stage:0.0.0@4", "stage:0.0@2"]]:
        code, _, err = run(*words, *faults)
        if code == 0 or "injected for stage:0.0@2" not in err:
            raise wrong(f"{faults}: exit code {code}\n{err}")
    code, out, err = run(*words, "--on-nonfinite", "skip", "--plant-fault", "nan:0.0@2", "--plant-fault", "loader@4",
                         "--log-file", folder / "log")
    steps = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    if code == 0 or "injected for loader@4" not in err or not any(x.get("skipped_iterations") for x in steps):
        raise wrong(f"NaN, then a death: exit code {code}\n{err}\n{steps}")
    refuses("'x@1' names no actor", *words, "--plant-fault", "stage:0.0@2", "x@1")
    refuses("'stage:0.0@0' names no step", *words, "--plant-fault", "stage:0.0@2,stage:0.0@0")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
