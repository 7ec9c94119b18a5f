"""`troupe forecast`: speed, memory and goodput of a run on a described cluster, and the search. Run by ctest.

    forecast_test.py PROGRAM SOURCES NAME...   runs the named checks, or all
"""

import json
import pathlib
import sys

import cli_test
from cli_test import refuses, works, wrong

ROOT = pathlib.Path()
MODEL = ["--num-layers", 32, "--hidden-size", 4096, "--num-attention-heads", 32, "--seq-length", 4096,
         "--vocab-size", 128000, "--hidden-dropout", 0, "--attention-dropout", 0, "--bf16"]
STEP = ["--micro-batch-size", 1, "--global-batch-size", 128]
LAYOUT = ["--world-size", 64, "--tensor-model-parallel-size", 2, "--sequence-parallel",
          "--pipeline-model-parallel-size", 4, "--use-distributed-optimizer", "--overlap-grad-reduce",
          "--overlap-param-gather"]


def cluster(name):
    return ["--cluster", ROOT / f"examples/clusters/{name}.yaml"]


def forecast(*words, on="h100"):
    return json.loads(works("forecast", *cluster(on), *MODEL, *STEP, *words, "--json"))


def expect(holds, what):
    if not holds:
        raise wrong(what)


def check_numbers(folder):
    found = forecast(*LAYOUT)
    expect(abs(sum(found["parts"].values()) / found["seconds"] - 1) < 1e-6, f"parts do not add up: {found}")
    memory = json.loads(works("memory", *MODEL, *STEP, *LAYOUT, "--json"))
    expect(found["flops"] == memory["flops_per_iteration"], "FLOPs differ from `troupe memory`")
    expect(found["memory"]["peak"] == max(x["peak"] for x in memory["workers"]), "memory differs from `troupe memory`")
    expect(abs(found["tokens_per_second"] * found["seconds"] - 128 * 4096) < 1, "tokens per second")
    expect(0.2 < found["mfu"] < 0.6, f"MFU {found['mfu']}")
    expect(forecast(*LAYOUT, on="b200")["seconds"] < found["seconds"] < forecast(*LAYOUT, on="a100")["seconds"],
           "a faster device takes longer")
    split = forecast(*LAYOUT, "--pipeline-schedule", "zb-h1")
    expect(split["parts"]["bubble"] < found["parts"]["bubble"], "the bubble of zb-h1 is not smaller")
    again = forecast(*LAYOUT, "--recompute-granularity", "full", "--recompute-method", "uniform",
                     "--recompute-num-layers", 1)
    expect(again["seconds"] > 1.15 * found["seconds"], "recomputation costs nothing")
    expect(again["memory"]["peak"] < found["memory"]["peak"], "recomputation saves nothing")


def check_assumed(folder):
    plain, narrow = forecast(*LAYOUT), forecast(*LAYOUT, "--assume-fp8")
    expect(0.5 < narrow["seconds"] / plain["seconds"] < 0.9, f"FP8: {narrow['seconds']} s, not {plain['seconds']} s")
    expect(narrow["mfu"] < plain["mfu"], "FP8 counts the peak of BF16")
    shared = forecast(*LAYOUT, "--assume-context-ranks", 2)
    expect(shared["devices"] == 2 * plain["devices"] == 128, f"{shared['devices']} devices")
    expect(0.5 < shared["seconds"] / plain["seconds"] < 0.8, f"context ranks: {shared['seconds']} s")
    refuses("`device.fp8`", "forecast", *cluster("a100"), *MODEL, *STEP, *LAYOUT, "--assume-fp8")
    refuses("leave out --assume-fp8", "forecast", *cluster("h100"), *MODEL, *STEP, "--search", "--assume-fp8")


def check_goodput(folder):
    found = forecast(*LAYOUT, "--failure-hours", 1.8)["goodput"]
    expect(found["between_failures"] == 6480, "the given rate of failures")
    expect(found["with_recovery"] > 0.995, f"recovery loses too much: {found}")
    expect(found["with_checkpoints"] < 0.9, f"checkpoints lose too little: {found}")
    page = works("forecast", *cluster("h100"), *MODEL, *STEP, *LAYOUT)
    for says in ("tokens/s", "MFU", "pipeline bubble", "trains with recovery", "on the largest rank"):
        expect(says in page, f"the page lacks '{says}':\n{page}")


def check_search(folder):
    words = [*cluster("h100"), *MODEL, "--global-batch-size", 512, "--world-size", 64, "--search"]
    found = json.loads(works("forecast", *words, "--json"))
    layouts = found["layouts"]
    expect(1 < len(layouts) <= 10, f"{len(layouts)} layouts")
    expect([x["seconds"] for x in layouts] == sorted(x["seconds"] for x in layouts), "not the fastest first")
    best = layouts[0]
    expect(best["memory"] < 0.9 * 80e9, "the best layout does not fit")
    # Its flags are those of a run, whose own forecast has the same time and about the same memory.
    run = forecast(*best["flags"].replace("'", "").split())
    expect(abs(run["seconds"] / best["seconds"] - 1) < 0.02, f"{run['seconds']} s, not {best['seconds']} s")
    expect(0.6 < run["memory"]["peak"] / best["memory"] < 1.5, f"{run['memory']['peak']} bytes, not {best['memory']}")
    page = works("forecast", *words)
    expect("what costs most" in page and "faster than the next one" in page, f"no reasons:\n{page}")


def check_refusals(folder):
    refuses("--cluster is missing", "forecast", *MODEL, *STEP)
    refuses("2 hosts with 8 devices", "forecast", "--cluster", two_hosts(folder), *MODEL, *STEP, *LAYOUT)
    refuses("--search needs --global-batch-size", "forecast", *cluster("h100"), *MODEL, "--search")
    refuses("no layout of 16 workers fits", "forecast", "--cluster", two_hosts(folder), *MODEL, "--num-layers", 2048,
            "--global-batch-size", 64, "--search")
    refuses("no layout of 13 workers divides the model and --global-batch-size 64", "forecast", "--cluster",
            two_hosts(folder), *MODEL, "--num-layers", 4, "--global-batch-size", 64, "--world-size", 13, "--search")
    wide = (ROOT / "examples/clusters/h100.yaml").read_text().replace("hosts: 768", "hosts: 9000")
    (folder / "wide.yaml").write_text(wide)
    refuses("--search needs --world-size", "forecast", "--cluster", folder / "wide.yaml", *MODEL,
            "--global-batch-size", 64, "--search")
    (folder / "wrong.yaml").write_text("name: x\nhost: 3\n")
    refuses("line 2: `host` is unknown", "forecast", "--cluster", folder / "wrong.yaml", *MODEL, *STEP)
    refuses("absent.yaml", "forecast", "--cluster", folder / "absent.yaml", *MODEL, *STEP)


def two_hosts(folder):
    text = (ROOT / "examples/clusters/h100.yaml").read_text().replace("hosts: 768", "hosts: 2  ")
    (folder / "two.yaml").write_text(text)
    return folder / "two.yaml"


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(2))
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
