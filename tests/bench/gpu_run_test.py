"""What gpu_run.py does when things go wrong, with programs of a few lines in the place of troupe and its peer.

    gpu_run_test.py CHECK
"""

import json
import os
import pathlib
import re
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
    if choices != "none":
        open(choices, "w").close()
    if int(after("--num-layers")) > int(os.environ.get("OUR_ROOM", 99)):
        sys.exit("error: cannot start: 1 worker on device 0 (a device) needs 97.1 GB, and it has 85.0 GB")
    blocking = "ORDER" in os.environ and "CUDA_LAUNCH_BLOCKING" in os.environ
    if "BREAKS" in os.environ and os.environ["BREAKS"] == os.environ.get("TROUPE_ATTENTION") and not blocking:
        print("one by one:", os.environ.get("CUDA_LAUNCH_BLOCKING"), flush=True)
        sys.exit("a kernel failed")
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
import json, os, sys, time
file = sys.argv[sys.argv.index("--json") + 1]
line = dict(model="gpt2", operation="norm", bound="memory", share=0.9, failure="")
json.dump(dict(complete="--ceilings" in sys.argv, copy_bytes_per_second=4e12, matrix_flops_per_second=7e14, lines=[line]), open(file, "w"))
if "GARBLED" in os.environ:
    open(file, "w").write("no JSON")
time.sleep(0 if "--ceilings" in sys.argv else 60)
'''
KERNELS = '''#!/bin/sh
trap 'test -z "$STOPPED" || cat "$STOPPED"; exit 143' TERM
echo '0.010 s: a norm of two rows'
sleep "${SLEEPS:-0}"
test -z "$FAILING" || { cat "$FAILING"; exit 2; }
echo 'All tests passed (1 assertion in 1 test case)'
'''
RULE, ENDS = "-" * 79, "=" * 79


def case(name, said, section=""):
    """As Catch2 writes of one what it has to say: also of one that is skipped."""
    return f"{RULE}\n{name}\n{section}{RULE}\na_test.cpp:7\n{'.' * 79}\n\na_test.cpp:9: {said}\n\n"


FAILED = "".join(["on a device, compute capability 9.0\n0.100 s: a case that passes\n",
                  case("a norm of one row", "FAILED:\n  CHECK( false )", "  in bf16\n"),
                  case("a case of another device", "SKIPPED:\nexplicitly with message:\n  it has less memory"),
                  case("products are added", "FAILED:\n  {Unknown expression after the reported line}\n"
                       "due to a fatal error condition:\n  SIGSEGV - Segmentation violation signal"),
                  *(case(f"case {i}", "FAILED:\n  CHECK( false )") for i in range(12)),
                  f"{ENDS}\ntest cases: 16 | 1 passed | 14 failed | 1 skipped\n"])
STOPPED = case("products of large matrices", "FAILED:\n  {Unknown expression after the reported line}\n"
               "due to a fatal error condition:\n  SIGTERM - Termination request signal")
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
import json, os, sys, time
import torch
assert sys.argv[0] == __file__ and torch.made_on == "cuda", "the model is made on the device"
torch.nn.Module().to("cuda")
assert torch.made_on is None, "then all is as it was"
torch.nn.Module().to("cuda")
layers, by = int(sys.argv[2]), sys.argv[sys.argv.index("--attention") + 1]
kind = ("compile" if "--compile" in sys.argv else "eager") + ("_cudnn" if by == "cudnn" else "")
if layers > int(os.environ.get("ROOM", 99)):
    print("CUDA out of memory", flush=True)
    time.sleep(float(os.environ.get("HESITATES", 0)))
    raise torch.OutOfMemoryError("CUDA out of memory")
if os.environ.get("LACKS") == kind:
    raise RuntimeError("No available kernel. Aborting execution.")
if os.environ.get("FAILS") == kind:
    sys.exit("no")
print("a warning {of a kind}")
rate = {"compile": 800, "compile_cudnn": 1000, "eager": 500, "eager_cudnn": 600}[kind]
peak = 2.5e9 if kind == os.environ.get("LEAST", "compile_cudnn") else 3e9
print(json.dumps({"torch": os.environ.get("NEWEST", "0"), "tokens_per_second": rate, "peak_bytes": peak}))
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


def in_order(said, *words):
    places = [said.index(x) for x in words]
    return places == sorted(places)


def check_verdicts(at):
    said, code = at.trained("--part", "1.3b")
    rows = at.rows("1.3b")
    expect(code == 0 and rows["device 0"]["value"].startswith("a device"), "doctor is understood among warnings", said)
    name = "1.3b, 24 layers, T 2048, batch 4: "
    expect(rows[name + "of the best PyTorch"] == dict(what=name + "of the best PyTorch", value="2.00", goal="1.15", reached="yes"),
           "the best of all variants is what counts, here cuDNN's attention, compiled", said)
    expect(rows[name + "peak memory of each"]["reached"] == "yes", "memory too", said)
    expect(in_order(said, "[1.3b_24x4]", "[1.3b_profile]", "[1.3b_24x4_compile]", "[1.3b_24x4_compile_cudnn]", "[1.3b_24x4_eager]",
                    "[1.3b_24x4_eager_cudnn]"), "ours comes first", said)
    table, names = at.saved("1.3b")
    expect("2.00" in table and {"1.3b/1.3b_24x4.jsonl", "1.3b/doctor.log", "1.3b/rows.jsonl"} <= set(names), "all of it is saved", names)


def check_batches(at):
    said, code = at.trained("--part", "gpt2", FAILS="eager")
    rows = at.rows("gpt2")
    names = [f"gpt2, 12 layers, T 1024, batch {batch}: " for batch in (16, 32)]
    expect("[gpt2_12x16_eager_cudnn]" in said and "[gpt2_12x32_compile_cudnn]" in said, "the best one is tried at both batches", said)
    expect(rows[names[1] + "compile, eager_cudnn"]["value"] == "left out" and "[gpt2_12x32_compile]" not in said,
           "what is far slower is not tried again, and the table says so", said)
    expect("[gpt2_12x32_eager]" in said, "what failed is", said)
    expect(all(rows[x + "of the best PyTorch"]["value"] == "2.00" and "eager is missing" in rows[x + "of the best PyTorch"]["goal"]
               for x in names), "and is missing", rows)
    said, code = at.trained("--part", "gpt2", LEAST="compile")
    expect("[gpt2_12x32_compile]" in said and at.rows("gpt2")[names[1] + "peak memory of each"]["reached"] == "yes",
           "what needs the least memory is tried again, however slow, for memory is judged, too", said)


def check_missing(at):
    said, code = at.trained("--part", "1.3b", FAILS="compile_cudnn")
    row = at.rows("1.3b")["1.3b, 24 layers, T 2048, batch 4: of the best PyTorch"]
    expect(code == 1 and row["value"] == "2.50", "the variants that ran are told", said)
    expect(row["reached"] == "" and "compile_cudnn is missing" in row["goal"], "there is no verdict", row)
    said, code = at.trained("--part", "1.3b", LACKS="compile_cudnn")
    rows, name = at.rows("1.3b"), "1.3b, 24 layers, T 2048, batch 4: "
    expect(code == 0 and rows[name + "of the best PyTorch"]["reached"] == "yes", "what PyTorch does not have is not missing", said)
    expect("compile_cudnn: PyTorch has none" in rows[name + "PyTorch, tokens/s"]["value"], "and is told", rows)
    said, code = at.trained("--part", "1.3b", LACKS="compile")
    expect(code == 1 and at.rows("1.3b")[name + "of the best PyTorch"]["reached"] == "", "but flash attention it has", said)


def check_room(at):
    said, code = at.trained("--part", "llama", ROOM="16")
    rows = at.rows("llama")
    expect(code == 0, "what does not fit is no failure", said)
    expect("llama, 20 layers, T 4096, batch 1: tokens/s" in rows, "what only we can train is told", said)
    expect("llama, 20 layers, T 4096, batch 1: of the best PyTorch" not in rows, "and not compared", said)
    expect("[llama_20x1_eager]" not in said, "where the variant that needs least does not fit the others are not tried", said)
    expect(rows["llama, 16 layers, T 4096, batch 1: of the best PyTorch"]["reached"] == "yes", "the most that both can is", said)
    expect("12 layers" not in said, "and nothing below it is tried", said)
    said, code = at.trained("--part", "llama", OUR_ROOM="12")
    rows = at.rows("llama")
    expect(code == 0 and rows["llama_20x1"]["goal"] == "does not fit", "nor is it a failure where ours does not fit", said)
    expect(rows["llama, 12 layers, T 4096, batch 1: of the best PyTorch"]["reached"] == "yes", "but fewer layers do", said)
    row = rows["llama: room for 16 layers"]
    expect(row["value"] == "ours no, PyTorch yes" and row["reached"] == "NO", "that PyTorch's would is told", row)
    said, code = at.trained("--part", "llama", OUR_ROOM="16", ROOM="16")
    row = at.rows("llama")["llama: room for 20 layers"]
    expect(row["value"] == "ours no, PyTorch no" and row["reached"] == "yes", "or that it would not", row)
    said, code = at.trained("--part", "llama", "--seconds", "20", ROOM="16", HESITATES="60")
    rows = at.rows("llama")
    expect(rows["llama_20x1_compile"]["goal"].startswith("stopped") and "llama_16x1" not in rows, "what was stopped may have had room", said)
    said, code = at.trained("--part", "llama", OUR_ROOM="11")
    expect(code == 1 and at.rows("llama")["llama_12x1"]["value"] == "FAILED", "the fewest must", said)


def check_quick(at):
    said, code = at.trained("--part", "quick", SLEEPS="3", NEWEST="2.99")
    rows = at.rows("quick")
    expect(code == 0 and not [x for x in rows.values() if x["reached"] == "NO"], "all goes well where nothing is wrong", said)
    expect({"tests of kernels", "peer, one layer, compile", "peer, one layer, eager_cudnn", "quick_llama: loss", "quick_two_stages: loss",
            "copy bandwidth", "digests of two runs, gpt2, own", "digests of two runs, gpt2, cudnn",
            "loss by cuDNN's attention, from ours"} <= set(rows), "quick touches everything", said)
    expect(rows["peer, one layer, compile"]["value"] == "runs, PyTorch 2.99", "it says which PyTorch there is, and no speed of two at once", rows)
    expect((at.folder / "out/quick/products_alone.json").exists(), "products of what is timed are chosen while nothing else runs", said)
    expect(rows["kernels"]["value"] == "of this build", "and which kernels these are", rows)
    expect(in_order(said, "[quick_gpt2_own]", "[quick_gpt2_cudnn]", "[quick_llama]", "[quick_two_stages]", "[test_kernels_device]",
                    "[ceilings]", "[quick_speed]", "[peer_compile]"), "right comes before fast, and what is timed is alone", said)


def check_broken(at):
    """One attention and two tests fail: the rest is told, and where to look."""
    (at.folder / "failed.txt").write_text(FAILED)
    said, code = at.trained("--part", "quick", BREAKS="own", FAILING=str(at.folder / "failed.txt"))
    rows = at.rows("quick")
    expect(code == 1 and rows["quick_gpt2_own"]["goal"].endswith("a kernel failed"), "why it failed is told", rows)
    expect("one by one: 1" in (at.folder / "out/quick/quick_gpt2_own_one_by_one.log").read_text(), "it is tried one kernel at a time", said)
    expect("[quick_gpt2_own_again]" not in said, "but not twice", said)
    expect(rows["digests of two runs, gpt2, cudnn"]["reached"] == "yes", "the other attention is told", rows)
    expect("loss by cuDNN's attention, from ours" not in rows, "and compared with nothing", rows)
    expect(rows["test_kernels_device"]["value"] == "FAILED", "tests fail", rows)
    expect([x.strip() for x in rows if rows[x]["value"] == "fails"] == ["a norm of one row", "products are added", *(f"case {i}" for i in range(10))],
           "those that fail are named, and no others", rows)
    expect("  and 2 more" in rows, "and how many more there are", rows)
    said, code = at.trained("--part", "quick", BREAKS="own", ORDER="1")
    expect(at.rows("quick")["quick_gpt2_own: one kernel at a time"]["reached"] == "NO", "what goes well one kernel at a time is told", said)


def check_exception(at):
    """What comes back is not what was agreed: that step ends, and no other."""
    said, code = at.trained("--part", "quick", GARBLED="1")
    rows = at.rows("quick")
    expect(code == 1 and rows["ceilings"]["value"] == "FAILED" and "JSONDecodeError" in rows["ceilings"]["goal"], "it is told", said)
    expect("quick_speed: tokens/s of gpt2" in rows and "peer, one layer, compile" in rows, "and the rest is measured", said)


def check_untested(at):
    """Kernels that were compiled after the tests, or tests that are not there."""
    told = at.folder / "bin/kernels.txt"
    told.write_text("kernels: 1 of 2 sources compiled here, sum abc\ndiffers: 1 of the sources\ntests: another text\nbuild: of today\n")
    said, code = at.run("--part", "quick")
    rows = at.rows("quick")
    expect(rows["kernels"] == dict(what="kernels", value="1 of 2 sources compiled here, sum abc", goal="1 of the sources", reached="NO"),
           "which kernels are measured is told", rows)
    expect("quick/kernels.txt" in at.saved("quick")[1], "and kept", said)
    row = rows["tests of kernels: of these sources"]
    expect(code == 1 and row["value"] == "FAILED" and row["goal"] == "another text", "tests of another text are a failure", row)
    expect("tests of kernels" in rows, "and are run all the same", rows)
    told.unlink()
    (at.folder / "bin/test_kernels_device").unlink()
    said, code = at.run("--part", "quick")
    row = at.rows("quick")["tests of kernels: of these sources"]
    expect(code == 1 and row["value"] == "FAILED" and "there is no" in row["goal"], "so is their absence", row)


def check_time(at):
    """A device that is lent for a short time, or a run that hangs: what is right or wrong is known first."""
    (at.folder / "stopped.txt").write_text(STOPPED)
    said, code = at.trained("--part", "quick", "--seconds", "20", SLEEPS="60", STOPPED=str(at.folder / "stopped.txt"))
    rows = at.rows("quick")
    expect(rows["  products of large matrices"]["value"] == "was running when it was stopped", "the one that took too long is named", rows)
    expect(rows["tests of kernels: the last that ended"]["value"] == "a norm of two rows", "and the one before it", rows)
    expect(code == 1 and rows["test_kernels_device"]["goal"].startswith("stopped"), "tests that are stopped are a failure", said)
    expect(rows["digests of two runs, gpt2, own"]["reached"] == "yes", "what was right is told", said)
    expect(rows["ceilings"]["value"] == "left out" and rows["peer_compile"]["value"] == "left out", "speed is what is not known", said)


def check_page(at):
    """The page has the parts, in their order, with the seconds that each may take."""
    page = (HERE.parents[1] / "docs/benchmarks/2026-11-21-gpu.md").read_text()
    told = re.findall(r"^\| `([\w.]+)` \| .+? \| (\d+) s \|", page, re.M)
    sys.path.insert(0, str(HERE))
    from gpu_run import PARTS
    expect(told == [(name, str(seconds)) for name, (_, seconds) in PARTS.items()], "page and program agree", told)


def check_stopped(at):
    said, code = at.run("--part", "kernels", "--seconds", "20")
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
        said, code = at.run("--part", "sanitizer", "--seconds", "20", "--libraries", "ours", SAYS=found,
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
