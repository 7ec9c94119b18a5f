"""Records of a run: logs, event files, pictures, evaluations. Run by ctest.

    watch_test.py PROGRAM NAME...   runs the named checks, or all
"""

import csv
import json
import os
import pathlib
import re
import struct
import sys

import cli_test
from cli_test import refuses, run, works, wrong

TRAIN = ["train", "gpt", "--num-layers", 2, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16,
         "--micro-batch-size", 2, "--global-batch-size", 4, "--train-iters", 6, "--lr", 1e-3,
         "--eval-iters", 1, "--eval-interval", 3, "--threads-per-worker", 1, "--log-interval", 2,
         "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100, "--data-cache-path", cli_test.INDEX]


def checksum(data):
    """CRC-32C, masked as in event files."""
    table = []
    for x in range(256):
        for _ in range(8):
            x = x >> 1 ^ 0x82F63B78 if x & 1 else x >> 1
        table.append(x)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """Yields (number, content) for each field of a protocol buffer message."""
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            x |= (data[at] & 127) << shift
            at += 1
            if data[at - 1] < 128:
                return x
            shift += 7

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]
        at += size


def events(folder):
    """Yields (step, whether a session starts, {name: value}) from all files, in TensorBoard's order."""
    for file in sorted(pathlib.Path(folder).glob("events.out.tfevents.*")):
        data = file.read_bytes()
        while data:
            size, its = struct.unpack("<QI", data[:12])
            event, (sum_of_event,) = data[12:12 + size], struct.unpack("<I", data[12 + size:16 + size])
            if its != checksum(data[:8]) or sum_of_event != checksum(event):
                raise wrong(f"{file}: a checksum is wrong")
            data = data[16 + size:]
            found = dict(fields(event))
            if found.get(3, b"brain.Event:2") != b"brain.Event:2":
                raise wrong(f"{file}: begins with {found[3]}")
            values = [dict(fields(value)) for _, value in fields(found.get(5, b""))]
            yield found[2], 7 in found, {x[1].decode(): struct.unpack("<f", x[2])[0] for x in values}


def shown(folder):
    """{name: [(step, value)]} as a reader shows it: the start of a session discards later steps of earlier sessions."""
    out = {}
    for step, begins, values in events(folder):
        if begins:
            out = {name: [x for x in curve if x[0] < step] for name, curve in out.items()}
        for name, value in values.items():
            out.setdefault(name, []).append((step, value))
    return out


def rows(file):
    with open(file, newline="", encoding="utf8") as text:
        return list(csv.DictReader(text))


SAME = ["iteration", "consumed_samples", "consumed_tokens", "lm_loss", "validation_loss", "grad_norm",
        "learning_rate", "params_norm", "num_zeros", "skipped_iterations", "state_digest"]


def check_logs(folder):
    """An interrupted and resumed run has the table and event files of an uninterrupted one."""
    def flags(name):
        return ["--save", folder / name, "--load", folder / name, "--log-csv", folder / f"{name}.csv",
                "--tensorboard-dir", folder / f"{name}-board", "--log-params-norm", "--log-num-zeros-in-grad",
                "--save-interval", 3]

    works(*TRAIN, *flags("whole"))
    works(*TRAIN, *flags("cut"), "--exit-interval", 5)
    torn = folder / "cut.csv"
    torn.write_bytes(torn.read_bytes() + b"6,24,38")
    works(*TRAIN, *flags("cut"), "--load", folder / "cut/iter_0000003")
    whole, cut = rows(folder / "whole.csv"), rows(torn)
    if [[row[x] for x in SAME] for row in whole] != [[row[x] for x in SAME] for row in cut]:
        raise wrong(f"the table of a resumed run differs:\n{torn.read_text()}")
    if [row["iteration"] for row in whole] != list("123456"):
        raise wrong(f"not one row for each step: {whole}")
    if [bool(row["validation_loss"]) for row in whole] != [False, False, True] * 2:
        raise wrong(f"validations are not in the rows of their steps: {whole}")
    if whole[0]["teraflops_per_second"] or not whole[0]["params_norm"] or not whole[0]["num_zeros"]:
        raise wrong(f"unexpected empty or filled cells: {whole[0]}")
    raw = torn.read_bytes()
    if raw.count(b"\r\n") != 7 or raw.count(b"\n") != 7:
        raise wrong("lines of the table do not end as RFC 4180 says")

    records = [json.loads(line) for line in (folder / "cut/log.jsonl").read_text().splitlines()]
    steps = [x for x in records if "lm_loss" in x]
    if [str(x["lm_loss"]) for x in steps] != [row["lm_loss"] for row in cut]:
        raise wrong("log.jsonl of the --save folder differs from the table")

    a, b = ({**shown(folder / name), **shown(folder / name / "samples")} for name in ["whole-board", "cut-board"])
    for name in ["lm loss", "lm loss vs samples", "learning-rate", "grad-norm", "batch-size", "params-norm",
                 "num-zeros", "lm loss validation", "lm loss validation ppl vs samples"]:
        if a[name] != b[name] or not a[name]:
            raise wrong(f"'{name}' of a resumed run is {b[name]}, of an unbroken one {a[name]}")
    if [step for step, _ in b["lm loss vs samples"]] != [4, 8, 12, 16, 20, 24]:
        raise wrong(f"'vs samples' is at {b['lm loss vs samples']}")
    for row, (step, value) in zip(cut, b["lm loss"]):
        if int(row["iteration"]) != step or abs(float(row["lm_loss"]) - value) > 1e-6:
            raise wrong(f"TensorBoard would show {step}: {value} for {row}")
    if len(list((folder / "cut-board").glob("events*"))) != 2:
        raise wrong("a resumed run did not add one file")

    (folder / "thesis").write_text("Chapter 1\n")
    refuses("not the header", *TRAIN, "--log-csv", folder / "thesis")
    refuses("this is a file", *TRAIN, "--tensorboard-dir", folder / "thesis")
    refuses("/proc/board", *TRAIN, "--tensorboard-dir", "/proc/board")  # not even root may write there
    refuses("each its own", *TRAIN, "--log-csv", folder / "x", "--log-file", folder / "x")
    refuses("no folder", *TRAIN, "--log-csv", folder / "no/x")
    code, _, err = run(*TRAIN, "--log-csv", "/dev/full")
    if code != 0 or err.count("No space left on device") != 1 or "records are missing" not in err:
        raise wrong(f"a full disk under the table: {code} {err}")


def check_throughput(folder):
    log = folder / "log.jsonl"
    out = works(*TRAIN, "--log-throughput", "--matrix-rate", 0.5, "--log-file", log)
    if "MFU: " not in out or "matmul rate: 0" in out.split("MFU", 1)[0]:
        raise wrong(f"a given rate was measured, or no share is shown:\n{out}")
    for line in log.read_text().splitlines():
        x = json.loads(line)
        if "lm_loss" in x and abs(x["share_of_matrix_rate"] * 0.5 / x["teraflops_per_second"] - 1) > 1e-9:
            raise wrong(f"the share does not use the given rate: {line}")
    if "peak matmul rate: " not in works(*TRAIN, "--log-throughput"):
        raise wrong("the measured rate is not shown")
    refuses("needs --log-throughput", *TRAIN, "--matrix-rate", 0.5)


def check_nonfinite(folder):
    saved, log = folder / "run", folder / "run/log.jsonl"
    mine = [*TRAIN, "--save", saved, "--load", saved, "--plant-fault", "nan:0.0@4"]
    code, _, err = run(*mine)
    for part in ["iteration 4: the gradient of", "on stage 0.0", "state of iteration 3", "--on-nonfinite skip"]:
        if code != 2 or part not in err:
            raise wrong(f"a NaN: exit code {code}, expected '{part}': {err}")
    if not (saved / "iter_0000003/manifest.json").exists():
        raise wrong("the state before a NaN is not saved")
    code, out, err = run(*mine, "--on-nonfinite", "skip")
    if code != 0 or "skipped (1 of at most" not in err or "number of skipped iterations:   1" not in out:
        raise wrong(f"the step is not skipped: {code}\n{out}\n{err}")
    steps = [x for x in map(json.loads, log.read_text().splitlines()) if "lm_loss" in x]
    if [x["skipped_iterations"] for x in steps] != [0, 0, 0, 1, 1, 1] or steps[3]["grad_norm"] is not None:
        raise wrong(f"the log does not show the skipped step: {steps}")
    if steps[3]["state_digest"] != steps[2]["state_digest"] or steps[4]["state_digest"] == steps[3]["state_digest"]:
        raise wrong("a skipped step changed the state, or the next one did not")
    if "skipped" not in json.loads((saved / "iter_0000006/manifest.json").read_text()):
        raise wrong("the checkpoint does not record the skipped step")
    code, _, err = run(*TRAIN, "--plant-fault", "nan:0.0@2-5", "--on-nonfinite", "skip", "--max-skipped-in-a-row", 2)
    if code != 2 or "iteration 4: " not in err or "the 2 steps before it" not in err:
        raise wrong(f"the third skipped step in a row did not end the run: {code} {err}")
    refuses("needs --on-nonfinite skip", *TRAIN, "--max-skipped-in-a-row", 3)
    refuses("--on-nonfinite", *TRAIN, "--on-nonfinite", "ignore")
    refuses("NaN would stay in the weights", *TRAIN, "--no-check-for-nan-in-loss-and-grad")
    works(*TRAIN, "--check-for-nan-in-loss-and-grad", "--tensorboard-queue-size", 5)
    for bad in ["nan:1.0@3", "nan:0.0@5-3", "nan:0.0@3-", "nan:0.0@0"]:
        refuses("--plant-fault", *TRAIN, "--plant-fault", bad)


def check_plot(folder):
    for name, rate in [("slow", 1e-4), ("fast", 1e-3)]:
        works(*TRAIN, "--lr", rate, "--save", folder / name)
    works(*TRAIN, "--log-csv", folder / "table.csv")
    picture = folder / "all.svg"
    out = works("plot", folder / "slow", folder / "fast", folder / "table.csv", "--output", picture)
    lines = out.splitlines()
    for line, name in zip(lines[1:], ["slow", "fast", "table"]):
        cells = line.split()
        if cells[0] != name or cells[1] != "6" or cells[4] != "at" or float(cells[6]) <= 0 or cells[7] != "0":
            raise wrong(f"the table lacks {name}:\n{out}")
    page = picture.read_text()
    for label in ["slow: training", "slow: validation", "fast: training", "table: validation"]:
        if f">{label}<" not in page:
            raise wrong(f"the legend lacks {label}")
    last = [json.loads(x)["lm_loss"] for x in (folder / "fast/log.jsonl").read_text().splitlines()
            if "lm_loss" in x][-1]
    if f"{last:.4f}" not in lines[2]:
        raise wrong(f"the last loss of 'fast' is {last}:\n{out}")
    for axis in ["iteration", "samples", "tokens", "time"]:
        works("plot", folder / "slow", "--x", axis, "--output", folder / f"{axis}.svg")
        if axis not in (folder / f"{axis}.svg").read_text():
            raise wrong(f"the axis has no label {axis}")
    pictures = {(folder / f"{x}.svg").read_text() for x in ["iteration", "samples", "tokens", "time"]}
    if len(pictures) != 4:
        raise wrong("two axes gave the same picture")
    for more in [["--y", "grad_norm"], ["--y", "validation_loss"], ["--log-y"], ["--smooth", 3]]:
        works("plot", folder / "slow", folder / "table.csv", "--output", picture, *more)
        if picture.read_text() in pictures or "nan" in picture.read_text():
            raise wrong(f"{more} changes nothing, or draws NaN")
        pictures.add(picture.read_text())
    refuses("it has no 'speed'; its records have consumed_samples", "plot", folder / "slow", "--y", "speed")
    refuses("--x", "plot", folder / "slow", "--x", "age")
    (folder / "none").mkdir()
    refuses("no log.jsonl", "plot", folder / "none")
    refuses("'" + str(folder / "gone"), "plot", folder / "gone")
    (folder / "twice").mkdir()
    for name in "ab":
        (folder / f"twice/{name}.csv").write_text("iteration,lm_loss\n1,2\n")
    refuses("several files", "plot", folder / "twice")
    works("plot", folder / "twice/a.csv", folder / "twice/b.csv", "--output", picture)
    (folder / "empty.csv").write_text("iteration,lm_loss\n")
    refuses("no steps yet", "plot", folder / "empty.csv")


def check_evaluation(folder):
    """The test loss at the end, --skip-train, and the time limit."""
    saved, log = folder / "run", folder / "run/log.jsonl"
    whole = [*TRAIN, "--save", saved, "--load", saved]
    test = " validation loss at iteration 6 on test set | lm loss value: "
    out = works(*whole, "--exit-interval", 2)
    if "test set" in out:
        raise wrong(f"a run is tested before its end:\n{out}")
    out = works(*whole, "--tensorboard-dir", folder / "board")
    if test not in out or out.index(test) < out.index("saved iteration 6"):
        raise wrong(f"no test at the end, or before the state is saved:\n{out}")
    loss = json.loads(log.read_text().splitlines()[-1])
    if loss["iteration"] != 6 or f"{loss['test_loss']:.6E}" not in out:
        raise wrong(f"the log has {loss}:\n{out}")
    if shown(folder / "board")["lm loss test"][0][0] != 6:
        raise wrong("the event file has no test loss")
    if "test set" in works(*TRAIN, "--split", "9,1,0") or "test set" in works(*TRAIN, "--eval-iters", 0):
        raise wrong("a test without test data")
    before = sorted(x.name for x in saved.iterdir()), log.read_text()
    again = works(*whole, "--skip-train")
    for line in [x for x in out.splitlines() if "validation loss at iteration 6" in x]:
        if line not in again.splitlines():
            raise wrong(f"--skip-train does not print '{line}':\n{again}")
    if "iteration 6 (" not in again or "lm loss: " in again:
        raise wrong(f"--skip-train trains, or does not name the evaluated iteration:\n{again}")
    if (sorted(x.name for x in saved.iterdir()), log.read_text()) != before:
        raise wrong("--skip-train writes into the folder of the run")
    refuses("cannot resume", *TRAIN, "--save", folder / "new", "--load", folder / "new", "--skip-train")
    out = works(*TRAIN, "--train-iters", 100000, "--exit-duration-in-mins", 0.02, "--save", folder / "clock",
                "--eval-interval", 0)
    if "--exit-duration-in-mins: stopping after iteration" not in out or "saved iteration " not in out:
        raise wrong(f"the time limit does not end the run in order:\n{out}")
    if "test set" in out:
        raise wrong("a run that the time limit ends is tested")
    refuses("--exit-duration-in-mins", *TRAIN, "--exit-duration-in-mins", 0)


def check_test_data(folder):
    """The test loss at the end uses --test-data-path."""
    losses = []
    for name, by in [("a", 1), ("b", 3), ("c", 7)]:
        (folder / name).write_text("\n".join(" ".join(str(i * by % 97) for i in range(j, j + 60)) for j in range(40)))
        works("preprocess", "--input", folder / name, "--input-format", "lines", "--output-prefix", folder / name,
              "--tokenizer-type", "NullTokenizer", "--vocab-size", 100)
    of = [[f"--{part}-data-path", folder / f"{x}_text_document"]
          for part, x in [("train", "a"), ("test", "b"), ("test", "c"), ("valid", "b")]]
    for parts in [of[0] + of[1], of[0] + of[2], of[0] + of[3]]:
        out = works(*[x for x in TRAIN if x != "--mock-data"], *parts)
        losses.append(re.findall(r" on test set \| lm loss value: (\S+)", out))
    if [len(x) for x in losses] != [1, 1, 0] or losses[0] == losses[1]:
        raise wrong(f"--test-data-path does not decide the test loss: {losses}")


def check_shared_cores(folder):
    """A pipeline logs at its start that its workers share cores."""
    pipeline = ["--world-size", 2, "--pipeline-model-parallel-size", 2, "--threads-per-worker"]
    told = re.search(r" 2 workers of (.*) share (\d+) cores?: actions wait for a core, so bubbles are larger",
                     works(*TRAIN, *pipeline, os.cpu_count()))
    if not told or int(told[1].split()[0]) != os.cpu_count() or int(told[2]) > os.cpu_count():
        raise wrong(f"a pipeline on shared cores: {told}")
    for one in [["--world-size", 2, "--threads-per-worker", os.cpu_count()]] + [[*pipeline, 1]] * (int(told[2]) > 1):
        if "share" in works(*TRAIN, *one):
            raise wrong(f"{one} has no bubbles of shared cores")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
