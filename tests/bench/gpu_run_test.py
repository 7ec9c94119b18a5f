"""What gpu_run.py does when things go wrong, with programs of a few lines in the place of troupe and its peer.

    gpu_run_test.py CHECK
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

TROUPE = '''#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
after = lambda name: words[words.index(name) + 1]
if words[-1] == "--help":
    print("--backend NAME  cpu or cuda")
elif words[0] == "doctor":
    print("warning: {this} is no JSON", flush=True)
    print(json.dumps({"gpu": {"seen": [{"number": 0, "name": "a device", "compute_capability": "9.0", "memory": 2**37}],
                              "plugins": {"cuda": {"library": "a library"}}, "attention": "attention"}}, indent=1))
    print("warning: } nor this", file=sys.stderr)
    sys.exit(2)
else:
    choices = after("--product-choices") if "--product-choices" in words else "none"
    if choices != "none" and os.path.exists(choices) and os.environ.get("REFUSES"):
        sys.exit("the algorithm of an earlier run cannot be taken")
    if choices != "none":
        open(choices, "w").close()
    if os.environ.get("HANGS") in words:
        print("it hangs", flush=True)
        time.sleep(60)
    drift = 1e-3 if os.environ.get("DRIFTS") == after("--backend") else 0
    first = {"50304": 11.0, "128256": 12.6}.get(after("--vocab-size"), 4.2)
    with open(after("--log-file"), "w") as log:
        for i in range(int(after("--train-iters"))):
            log.write(json.dumps({"lm_loss": first - i / 1e3 - i * drift, "tokens_per_second": 2000, "state_digest": str(i)}) + "\\n")
        log.write('{"lm_lo')
    print("peak memory per worker: 2 GB (forecast 1 GB)")
'''
BENCH = '''#!/usr/bin/env python3
import json, sys, time
file = sys.argv[sys.argv.index("--json") + 1]
line = dict(model="gpt2", operation="norm", bound="memory", share=0.9, failure="")
json.dump(dict(complete="--ceilings" in sys.argv, copy_bytes_per_second=4e12, matrix_flops_per_second=7e14, lines=[line]), open(file, "w"))
time.sleep(0 if "--ceilings" in sys.argv else 60)
'''
KERNELS = '''#!/bin/sh
echo 'All tests passed (1 assertion in 1 test case)'
'''
SANITIZER = '''#!/bin/sh
test "$LD_LIBRARY_PATH" = ours || exit 1
echo '========= COMPUTE-SANITIZER'
echo '0.1 s: a test'
test "$2" = memcheck || { echo "$SAYS"; exec sleep 60; }
'''
TORCH = '''
class OutOfMemoryError(Exception): pass
made_on = None
def set_default_device(device):
    global made_on
    made_on = device
class nn:
    class Module:
        def to(self, device): return self
'''
PEER = '''
import json, os, sys
import torch
assert sys.argv[0] == __file__ and torch.made_on == "cuda", "the model is made on the device"
torch.nn.Module().to("cuda")
assert torch.made_on is None, "then all is as it was"
torch.nn.Module().to("cuda")
layers, kind = int(sys.argv[2]), "compile" if "--compile" in sys.argv else "eager"
if layers > int(os.environ.get("ROOM", 99)):
    raise torch.OutOfMemoryError("CUDA out of memory")
if os.environ.get("FAILS") == kind:
    sys.exit("no")
print("a warning {of a kind}")
print(json.dumps({"torch": "0", "tokens_per_second": 1000 if kind == "compile" else 500, "peak_bytes": 3e9}))
'''


def expect(holds, what, said=""):
    if not holds:
        sys.exit(f"not as it must be: {what}\n{said}")


class place:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name, text in [("bin/troupe", TROUPE), ("bin/bench_gpu", BENCH), ("bin/test_kernels_device", KERNELS),
                           ("path/compute-sanitizer", SANITIZER), ("lib/torch.py", TORCH), ("peer.py", PEER)]:
            file = self.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)

    def begin(self, *words, **env):
        return subprocess.Popen([sys.executable, "-B", HERE / "gpu_run.py", "--bin", self.folder / "bin", "--out", self.folder / "out",
                                 "--save", self.folder / "saved", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "PYTHONPATH": str(self.folder / "lib"), "PYTHONDONTWRITEBYTECODE": "1", **env})

    def run(self, *words, **env):
        child = self.begin(*words, **env)
        return child.communicate(timeout=60)[0], child.returncode

    def trained(self, *words, **env):
        return self.run("--peer", self.folder / "peer.py", *words, **env)

    def rows(self, part):
        lines = (self.folder / "out" / part / "rows.jsonl").read_text().splitlines()
        return {x["what"]: x for x in map(json.loads, lines)}

    def saved(self, part):
        """The table, and the names in the archive."""
        with tarfile.open(self.folder / "saved" / f"logs.{part}.tgz") as archive:
            return (self.folder / "saved" / f"table.{part}.txt").read_text(), archive.getnames()


def check_verdicts(at):
    said, code = at.trained("--part", "1.3b")
    rows = at.rows("1.3b")
    expect(code == 0 and rows["device 0"]["value"].startswith("a device"), "doctor is understood among warnings", said)
    name = "1.3b, 24 layers, T 2048, batch 4: "
    expect(rows[name + "of the best PyTorch"] == dict(what=name + "of the best PyTorch", value="2.00", goal="1.15", reached="yes"),
           "the best of both variants is what counts", said)
    expect(rows[name + "peak memory of each"]["reached"] == "yes", "memory too", said)
    order = [said.index(x) for x in ("[1.3b_24x4]", "[1.3b_profile]", "[1.3b_24x4_compile]", "[1.3b_24x4_eager]")]
    expect(order == sorted(order), "ours comes first", said)
    table, names = at.saved("1.3b")
    expect("2.00" in table and {"1.3b/1.3b_24x4.jsonl", "1.3b/doctor.log", "1.3b/rows.jsonl"} <= set(names), "all of it is saved", names)


def check_missing(at):
    said, code = at.trained("--part", "1.3b", FAILS="compile")
    row = at.rows("1.3b")["1.3b, 24 layers, T 2048, batch 4: of the best PyTorch"]
    expect(code == 1 and row["value"] == "4.00", "the variant that ran is told", said)
    expect(row["reached"] == "" and "compile is missing" in row["goal"], "there is no verdict", row)


def check_room(at):
    said, code = at.trained("--part", "llama", ROOM="16")
    rows = at.rows("llama")
    expect(code == 0, "what does not fit is no failure", said)
    expect("llama, 20 layers, T 4096, batch 1: tokens/s" in rows, "what only we can train is told", said)
    expect("llama, 20 layers, T 4096, batch 1: of the best PyTorch" not in rows, "and not compared", said)
    expect(rows["llama, 16 layers, T 4096, batch 1: of the best PyTorch"]["reached"] == "yes", "the most that both can is", said)
    expect("12 layers" not in said, "and nothing below it is tried", said)


def check_choices(at):
    said, code = at.trained("--part", "quick", REFUSES="1")
    rows = at.rows("quick")
    expect(code == 1 and "first guess" in rows["quick_gpt2_again: product choices"]["goal"], "a refused choice is told", said)
    expect(rows["quick_gpt2_again: loss"]["reached"] == "yes", "and it trains without", said)
    said, code = at.trained("--part", "quick")
    rows = at.rows("quick")
    expect(code == 0 and not [x for x in rows.values() if x["reached"] == "NO"], "all goes well where nothing is wrong", said)
    expect({"tests of kernels", "peer, one layer", "quick_llama: loss", "quick_two_stages: loss", "copy bandwidth",
            "digests of two runs, gpt2"} <= set(rows), "quick touches everything", said)


def check_stopped(at):
    said, code = at.run("--part", "kernels", "--seconds", "10")
    rows = at.rows("kernels")
    expect(code == 1 and rows["bench_gpu"]["goal"].startswith("stopped"), "a command that is stopped is a failure", said)
    expect(rows["memory-bound operations"]["value"].startswith("1 of 1") and rows["memory-bound operations"]["reached"] == "",
           "what it measured before is told, without a verdict", said)
    expect(rows["bench_gpu_own"]["value"] == "left out", "and what has no time left is said", said)


def check_losses(at):
    said, code = at.run("--part", "losses")
    rows = at.rows("losses")
    expect(code == 0 and rows["digests of two runs, bf16"]["reached"] == "yes", "two runs are alike", said)
    expect(rows["fp32 loss, 100 steps, GPU from fp32 CPU"]["reached"] == "yes", "and as the CPU's", said)
    said, code = at.run("--part", "losses", DRIFTS="cuda")
    rows = at.rows("losses")
    expect(code == 1 and rows["fp32 loss, 20 steps, GPU from fp32 CPU"]["reached"] == "NO", "a loss that drifts is a failure", said)


def check_sanitizer(at):
    for found, code_of in [("", 0), ("========= Race reported between threads", 1)]:
        said, code = at.run("--part", "sanitizer", "--seconds", "8", "--libraries", "ours", SAYS=found,
                            PATH=f"{at.folder / 'path'}:{os.environ['PATH']}")
        rows = at.rows("sanitizer")
        expect(rows["compute-sanitizer memcheck"]["reached"] == "yes", "our programs find their libraries under it", said)
        expect(code == code_of, "being slow is no failure, an error is", said)
        expect(found or "without an error: 1" in rows["sanitizer_racecheck"]["goal"], "how far it came is said", rows)


def check_ended(at):
    child = at.begin("--part", "gpt2", HANGS="--bf16")
    table, log = at.folder / "saved/table.gpt2.txt", at.folder / "out/gpt2/gpt2_12x16.log"
    for _ in range(300):
        if log.exists() and "it hangs" in log.read_text():
            break
        time.sleep(0.1)
    expect("a device" in table.read_text(), "rows are there before a part ends")
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=30)[0]
    expect(child.returncode == 143, "it ends when it is told to, with all that it started", said)
    expect("gpt2/gpt2_12x16.log" in at.saved("gpt2")[1], "and saves what there is", said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"check_{sys.argv[1]}"](place(folder))
