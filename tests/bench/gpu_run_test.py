"""Verdicts of the GPU benchmark, with a fake troupe. The smoke run (gpu.sh --smoke) sees all the rest."""

import argparse
import pathlib
import re
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu_models  # noqa: E402
import gpu_run  # noqa: E402
from gpu_session import session  # noqa: E402

TROUPE = '''#!/usr/bin/env python3
import json, os, sys
after = lambda name: sys.argv[sys.argv.index(name) + 1]
drift = 1e-3 if os.environ.get("DRIFTS") == after("--backend") else 0
with open(after("--log-file"), "w") as log:
    for i in range(int(after("--train-iters"))):
        log.write(json.dumps({"lm_loss": 4.2 - i / 1e3 - i * drift, "tokens_per_second": 2000, "state_digest": str(i)}) + "\\n")
    log.write('{"lm_lo')
print("peak memory per worker: 2 GB")
'''
RULE = "-" * 79


def part(folder, name, seconds=60):
    (folder / "troupe").write_text(TROUPE)
    (folder / "troupe").chmod(0o755)
    o = argparse.Namespace(bin=folder, out=folder / "out", save=folder / "saved", smoke=False, libraries="", peer="")
    return session(o, name, time.monotonic() + seconds)


def row(b, what):
    return next((x for x in b.rows if x[0] == what), None)


def a_wrong_loss_fails(folder):
    gpu_run.losses(b := part(folder, "losses"))
    assert b.failed == 0 and row(b, "digests of two runs, bf16")[3] == "yes", b.table()
    gpu_run.os.environ["DRIFTS"] = "cuda"
    gpu_run.losses(b := part(folder, "losses"))
    assert b.failed and row(b, "fp32 loss, 20 steps, GPU from fp32 CPU")[3] == "NO", b.table()


def a_failed_or_stopped_command_is_a_row(folder):
    b = part(folder, "commands")
    assert b.run("stopped", ["sleep", "60"], 0.2) is None and b.codes["stopped"] is None
    assert b.run("fails", ["sh", "-c", "echo why; exit 3"], 9) is None
    assert b.run("excused", ["sh", "-c", "echo CUDA out of memory; exit 1"], 9, excuse=gpu_models.no_room) is None
    gpu_run.guarded(b, lambda b: {}["absent"])
    b.ends = time.monotonic()
    assert b.run("late", ["true"], 9) is None
    assert [x[1] for x in b.rows] == ["FAILED", "FAILED", "left out", "FAILED", "left out"] and b.failed == 3, b.table()
    assert row(b, "stopped")[2].startswith("stopped") and row(b, "fails")[2] == "exit code 3: why", b.table()
    assert row(b, "excused")[2] == gpu_models.NO_ROOM and "KeyError" in row(b, "<lambda>")[2], b.table()
    with tarfile.open(folder / "saved/logs.commands.tgz") as archive:
        assert "commands/fails.log" in archive.getnames()
    assert "exit code 3: why" in (folder / "saved/table.commands.txt").read_text()


def the_best_variant_counts_if_none_is_missing(folder):
    m, b = gpu_models.MODELS["gpt2"], part(folder, "gpt2")
    run = dict(lines=[dict(tokens_per_second=2000)] * 14, peak=2e9)
    said = [dict(tokens_per_second=rate, peak_bytes=3e9) for rate in (800, 1000, 500)]
    for name, last, verdict in [("ran", dict(said[2], peak_bytes=1e9), ("yes", "NO")), ("no room", gpu_models.NO_ROOM, ("yes", "yes")),
                                ("missing", None, ("", ""))]:
        found = dict(zip(gpu_models.PEERS, [*said, last]))
        gpu_models.compare(b, name, run, list(found), found, m, "gpt2", 12, 7e14)
        speed, memory = row(b, f"{name}: of the best PyTorch"), row(b, f"{name}: peak memory of each")
        assert speed[1] == "2.00" and (speed[3], memory[3]) == verdict, b.table()
    assert "eager_cudnn is missing" in speed[2] and b.failed == 0, b.table()
    excuse = "No available kernel. Aborting execution."
    assert gpu_models.why_not("compile_cudnn")(excuse, 1) and not gpu_models.why_not("compile")(excuse, 1)


def failed_kernel_tests_are_named(folder):
    said = {"a norm": "FAILED:\n  CHECK( false )", "another device": "SKIPPED:", "products": "FAILED:\ndue to a fatal error condition:\n  SIGSEGV",
            "large": "FAILED:\ndue to a fatal error condition:\n  SIGTERM - Termination request signal"}
    log = "".join(f"{RULE}\n{name}\n  in bf16\n{RULE}\na_test.cpp:7\n{'.' * 79}\n\na_test.cpp:9: {x}\n\n" for name, x in said.items())
    assert gpu_run.failed_tests(log) == {"a norm": "fails", "products": "fails", "large": "was running when it was stopped"}
    assert gpu_run.slow_but_clean("========= COMPUTE-SANITIZER\n0.1 s: a test\n", None).endswith(": 1")
    assert not gpu_run.slow_but_clean("========= Race reported\n", None), "an error is a failure"


def foreign_files_stay(folder):
    part(folder, "losses")
    part(folder, "losses")  # An earlier run's folder is emptied.
    (folder / "out/own").mkdir()
    (folder / "out/own/notes.txt").touch()
    try:
        part(folder, "own")
    except SystemExit as refused:
        assert "no earlier run wrote" in str(refused)
    assert (folder / "out/own/notes.txt").exists()


def the_page_has_the_parts_with_their_seconds(folder):
    page = (HERE.parents[1] / "docs/benchmarks/2026-11-21-gpu.md").read_text()
    told = re.findall(r"^\| `([\w.]+)` \| .+? \| (\d+) s \|", page, re.M)
    assert told == [(name, str(seconds)) for name, (_, seconds) in gpu_run.PARTS.items()], told


for check in [a_wrong_loss_fails, a_failed_or_stopped_command_is_a_row, the_best_variant_counts_if_none_is_missing,
              failed_kernel_tests_are_named, foreign_files_stay, the_page_has_the_parts_with_their_seconds]:
    with tempfile.TemporaryDirectory() as place:
        check(pathlib.Path(place))
