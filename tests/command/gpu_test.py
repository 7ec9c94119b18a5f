"""`troupe train --backend cuda` on the emulated device. Run by ctest:

    gpu_test.py PROGRAM PLUGINS CHECK"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM, PLUGINS = sys.argv[1], sys.argv[2]
MODEL = ("--mock-data --tokenizer-type NullTokenizer --vocab-size 63 --num-layers 2 --hidden-size 32 "
         "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 "
         "--global-batch-size 4 --lr 1e-3 --lr-decay-iters 8 --log-interval 1 --eval-iters 0").split()


def run(words, folder, **settings):
    env = {**os.environ, "TROUPE_PLUGINS": PLUGINS, "XDG_CACHE_HOME": str(folder / "cache"),
           **{k: str(v) for k, v in settings.items()}}
    return subprocess.run([PROGRAM, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=240)


def train(folder, *more, iterations=4, settings=None):
    return run(["train", "gpt", *MODEL, "--train-iters", str(iterations), "--backend", "cuda", *more], folder,
               **(settings or {}))


def digests(path):
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    return {x["iteration"]: x["state_digest"] for x in lines if "state_digest" in x}


def expect(condition, what, answer=None):
    if condition:
        return
    print("failed:", what)
    if answer is not None:
        print(f"exit {answer.returncode}\n{answer.stdout}\n{answer.stderr}")
    sys.exit(1)


def says(answer, code, *parts):
    text = answer.stdout + answer.stderr
    expect(answer.returncode == code, f"exit code {code}", answer)
    for part in parts:
        expect(part in text, f"it says '{part}'", answer)


def check_same_bits(folder):
    """A second run, and one that is stopped and resumed, have the same digests. Algorithm choices are kept."""
    says(train(folder, "--log-file", "a.jsonl", "--save", "a"), 0)
    expect((folder / "cache/troupe/products.json").exists(), "choices are kept in the cache")
    expect((folder / "a/products.json").exists(), "choices are kept beside the checkpoints")
    says(train(folder, "--log-file", "b.jsonl"), 0)
    says(train(folder, "--log-file", "c.jsonl", "--save", "c", "--exit-interval", "2"), 0)
    for kept in folder.glob("cache/troupe/*"):
        kept.unlink()  # the file beside the checkpoints is enough
    says(train(folder, "--log-file", "c.jsonl", "--save", "c", "--load", "c"), 0, "resuming from iteration 2")
    all_of = digests(folder / "a.jsonl")
    expect(len(all_of) == 4, "four steps are logged")
    expect(digests(folder / "b.jsonl") == all_of, "a second run has the same bits")
    expect(digests(folder / "c.jsonl") == all_of, "a resumed run has the same bits")


def check_lost_choices(folder):
    """The algorithms in a checkpoint's manifest take precedence over products.json, which each run updates."""
    says(train(folder, "--log-file", "whole.jsonl"), 0)
    says(train(folder, "--save", "a", "--exit-interval", "2", "--log-file", "a.jsonl"), 0)
    file = folder / "a/products.json"
    kept = json.loads(file.read_text())
    first = kept["choices"][0]
    manifest = json.loads((folder / "a/iter_0000002/manifest.json").read_text())
    expect(manifest["products"] == {x["product"]: x["algorithm"] for x in kept["choices"]}, "the manifest has the choices")
    page = run(["checkpoint", "show", "a"], folder)
    says(page, 0, f"products    {len(kept['choices'])} matrix products")
    for text, said in [(None, "resuming"), (json.dumps({**kept, "choices": [{**first, "algorithm": "0" * 127 + "7"}]}),
                                            "names other algorithms for 1 product than the checkpoint")]:
        shutil.copytree(folder / "a", folder / "went_on")
        shutil.copy(folder / "a.jsonl", folder / "went_on.jsonl")
        beside = folder / "went_on/products.json"
        beside.unlink() if text is None else beside.write_text(text)
        done = train(folder, "--save", "went_on", "--load", "went_on", "--log-file", "went_on.jsonl", "--strict-identity")
        says(done, 0, said)
        expect("are unknown" not in done.stdout + done.stderr, "the checkpoint suffices", done)
        expect(digests(folder / "went_on.jsonl") == digests(folder / "whole.jsonl"), "the same bits")
        stand = {x["product"]: x["algorithm"] for x in json.loads(beside.read_text())["choices"]}
        expect(stand[first["product"]] == first["algorithm"], "the file has the used algorithm again")
        shutil.rmtree(folder / "went_on")
    name_no_products(folder / "a/iter_0000002/manifest.json")
    says(run(["checkpoint", "verify", "a"], folder), 0)
    file.unlink()
    says(train(folder, "--save", "a", "--load", "a", "--strict-identity"), 2, "are unknown", "put that file back")
    says(train(folder, "--save", "a", "--load", "a"), 0, "a/products.json' is missing", "may differ")
    other = first["algorithm"][:-1] + ("1" if first["algorithm"].endswith("0") else "0")
    changed = {**kept, "choices": [{**first, "algorithm": other}]}
    (folder / "b").mkdir()
    (folder / "b/products.json").write_text(json.dumps(changed))
    says(train(folder, "--save", "b", "--load", "a", "--finetune"), 0)
    used = {x["product"]: x["algorithm"] for x in json.loads((folder / "b/products.json").read_text())["choices"]}
    again = {x["product"]: x["algorithm"] for x in json.loads((folder / "a/products.json").read_text())["choices"]}
    expect(used[first["product"]] == again[first["product"]], "the used algorithm replaces the previous one")


def check_refused_choices(folder):
    """If the library refuses an earlier choice, the run measures again, warns once and replaces it. If the resumed
    checkpoint has it, the same bits are not promised; with --strict-identity the run ends."""
    says(train(folder, "--save", "a", "--exit-interval", "2"), 0, "measured in")
    file = folder / "cache/troupe/products.json"
    kept = json.loads(file.read_text())
    first, *others = kept["choices"]
    product, unknown = first["product"], "0" * 127 + "7"
    file.write_text(json.dumps({**kept, "choices": [{**first, "algorithm": unknown}, *others]}))
    answer = train(folder, iterations=2)
    says(answer, 0, f"'{product}' cannot be used: cuBLASLt says", "may differ from those of runs that used it")
    expect((answer.stdout + answer.stderr).count("cannot be used") == 1, "it is reported once", answer)
    now = {x["product"]: x["algorithm"] for x in json.loads(file.read_text())["choices"]}
    expect(now[product] != unknown and len(now) == len(kept["choices"]), "its entry is replaced")
    expect("cannot be used" not in str(train(folder, iterations=2)), "the next run uses the new choice")
    file.write_text(json.dumps({**kept, "choices": [{**x, "algorithm": unknown} for x in kept["choices"]]}))
    answer = train(folder, iterations=2)
    says(answer, 0, " other algorithms; all were replaced")
    expect((answer.stdout + answer.stderr).count("cannot be used") == 1, "one line reports all choices", answer)
    change_products(folder / "a/iter_0000002/manifest.json", lambda x: {**x, product: unknown})
    words = ["--save", "a", "--load", "a"]
    says(train(folder, *words, "--strict-identity"), 3, "cannot be used", "--strict-identity")
    says(train(folder, *words), 0, "cannot be used", "may differ from those of the resumed run")


def check_older_gradients(folder):
    """Reports checkpoints of builds with a separate kernel for the gradient of GELU; a resumed run uses today's
    products."""
    says(train(folder, "--bf16", "--save", "c", "--exit-interval", "2"), 0)

    def forget(products):
        expect(any(" gelu_gradient " in x for x in products), "today's products include the gradient of GELU")
        return {k: v for k, v in products.items() if " gelu_gradient " not in k}

    change_products(folder / "c/iter_0000002/manifest.json", forget)
    words = ["--bf16", "--save", "c", "--load", "c"]
    says(train(folder, *words, "--strict-identity"), 2, "in a separate kernel", "leave the flag out")
    says(train(folder, *words), 0, "in a separate kernel", "may differ")
    answer = train(folder, *words, iterations=6)
    says(answer, 0, "resuming from iteration 4")
    expect("in a separate kernel" not in answer.stderr + answer.stdout, "the next resume has no warning", answer)


def name_no_products(manifest):
    """Removes the products, like an older build: docs/formats/checkpoint.md."""
    change_products(manifest, lambda _: None)


def change_products(manifest, change):
    found = json.loads(manifest.read_text())
    found["products"] = change(found["products"])
    if found["products"] is None:
        del found["products"]
    found["manifest_sha256"] = "0" * 64
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    named, digest = '"manifest_sha256": "', hashlib.sha256(text.encode()).hexdigest()
    manifest.write_text(text.replace(named + "0" * 64, named + digest))


def check_choices(folder):
    """`none` uses the library's first guess and no file. A named file keeps the choices; a damaged one is refused."""
    says(train(folder, "--product-choices", "none", iterations=1), 0)
    expect(not (folder / "cache").exists(), "without measurement no file is written")
    answer = train(folder, "--product-choices", "mine.json", iterations=1)
    says(answer, 0)
    expect("cannot create" not in answer.stdout + answer.stderr, "the folder exists", answer)
    expect(json.loads((folder / "mine.json").read_text())["choices"], "choices are kept")
    (folder / "broken.json").write_text("{")
    says(train(folder, "--product-choices", "broken.json", iterations=1), 2, "broken.json")


def check_refusals(folder):
    """Refuses impossible settings of a device before any work."""
    says(train(folder, settings={"TROUPE_EMULATED_DRIVER": 0}), 2, "no NVIDIA driver", "'cpu'")
    says(train(folder, settings={"TROUPE_EMULATED_DRIVER": 11080}), 2, "up to 11.8", "newer driver")
    says(train(folder, "--devices", "3"), 2, "there is no device 3")
    two = {"TROUPE_EMULATED_DEVICES": 2, "TROUPE_EMULATED_ARCHITECTURE": "90,75"}
    old = "device 1 (Troupe emulated device) is of compute capability 7.5, and troupe computes on 8.0"
    says(train(folder, "--devices", "0,1", settings=two), 2, old, "--devices", "set --backend to cpu")
    says(train(folder, iterations=1, settings=two), 0, "device 1 is of compute capability 7.5", "it is not used")
    says(train(folder, settings={**two, "TROUPE_EMULATED_ARCHITECTURE": "75"}), 2, "code for", "7.5", "'cpu'")
    says(train(folder, "--devices", "0,x"), 2, "'x' is not the number of a device")
    empty = folder / "empty"
    empty.mkdir()
    answer = train(folder, settings={"TROUPE_PLUGINS": empty})
    says(answer, 2, "the CUDA backend cannot run")
    words = ["train", "gpt", *MODEL, "--train-iters", "1", "--backend", "cpu"]
    for flag in (["--devices", "0"], ["--allow-tf32"], ["--allow-nondeterministic"],
                 ["--product-choices", "none"]):
        says(run([*words, *flag], folder), 2, flag[0], "--backend cuda")


def check_memory(folder):
    """Refuses a device with too little memory before the run, or ends when memory runs out. The error has the needed
    and the available memory, and a remedy. The host's memory does not count."""
    large = ["--hidden-size", "1024", "--num-attention-heads", "16"]
    small = {"TROUPE_EMULATED_MEMORY": 64 << 20}
    answer = train(folder, *large, "--save", "run", settings=small)
    says(answer, 2, "cannot start: 1 worker on device 0 (Troupe emulated device) needs", "MB, and it has 67.1 MB",
         "--micro-batch-size", "--devices")
    expect(not (folder / "run").exists(), "a refused run leaves no folder behind", answer)
    says(train(folder, *large, "--dry-run", settings=small), 0, "warning     1 worker on device 0")
    says(train(folder, "--dry-run", "--devices", "3"), 0, "cannot check the memory of the devices: there is no device 3")
    two = ["--pipeline-model-parallel-size", "2"]  # 36 MB each
    says(train(folder, *two, settings={"TROUPE_EMULATED_MEMORY": 60_000_000}), 2, "2 workers on device 0",
         "together need")
    says(train(folder, *two, settings={"TROUPE_EMULATED_MEMORY": 60_000_000, "TROUPE_EMULATED_DEVICES": 2}), 0)
    huge = ["--seq-length", "100000000", "--position-embedding-type", "rope", "--dry-run"]
    on_device = train(folder, *huge, settings={"TROUPE_EMULATED_MEMORY": 1 << 42})
    says(on_device, 0, "TB: parameters")
    expect("warning" not in on_device.stdout, "the device has enough memory, whatever the host has", on_device)
    says(train(folder, *huge, "--backend", "cpu"), 0, "TB, and this machine has")
    answer = train(folder, settings={"TROUPE_EMULATED_FAULT": "cudaMalloc@10=2"})
    expect(answer.returncode in (2, 3), "the run ends", answer)
    says(answer, answer.returncode, "out of memory on device 0", "are free", "--micro-batch-size")


def check_missing_attention(folder):
    """If the attention library cannot compute a case, troupe's kernels do, with one warning. TROUPE_ATTENTION=cudnn
    makes it an error."""
    there = with_library(folder)
    words = ["--bf16", "--hidden-size", "160", "--attention-dropout", "0", "--log-file"]  # heads of 80
    reason = "heads of 80 are not for tests"
    answer = train(folder, *words, "a.jsonl", settings=there)
    says(answer, 0, reason, "attention uses troupe's own kernels", "troupe doctor")
    expect((answer.stdout + answer.stderr).count(reason) == 1, "it is reported once", answer)
    says(train(folder, *words, "b.jsonl"), 0)
    expect(digests(folder / "a.jsonl") == digests(folder / "b.jsonl"), "troupe's own attention computes")
    answer = train(folder, *words, "c.jsonl", settings={**there, "TROUPE_ATTENTION": "cudnn"})
    expect(answer.returncode in (2, 3), "the run ends", answer)
    says(answer, answer.returncode, reason, "TROUPE_ATTENTION selects cuDNN's attention, which lacks kernels")


def with_library(folder):
    """Settings with a folder of plug-ins in which the test library replaces cuDNN."""
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "libtroupe_cuda.so").symlink_to(pathlib.Path(PLUGINS) / "libtroupe_cuda.so")
    (plugins / "libtroupe_cudnn.so").symlink_to(
        pathlib.Path(PLUGINS).parent / "tests/plugins/libtroupe_attention_for_tests.so")
    return {"TROUPE_PLUGINS": plugins}


def check_preferred_attention(folder):
    """TROUPE_ATTENTION=cudnn,own uses the library if possible, else tensor cores, else scalar kernels. The bits show
    which one computed."""
    there = with_library(folder)
    plain = ["--attention-dropout", "0"]
    settings = {"library": there, "own": {"TROUPE_ATTENTION": "own"}, "scalar": {"TROUPE_ATTENTION": "scalar"},
                "preferred": {**there, "TROUPE_ATTENTION": "cudnn,own"}}
    rest = {"library": ["own", "scalar"], "own": ["scalar"], "scalar": []}  # alternatives with other bits
    for case, by, words in (("heads of 64", "library", ["--hidden-size", "128", *plain]),
                            ("dropout", "own", ["--hidden-size", "128", "--attention-dropout", "0.1"]),
                            ("packed", "own", ["--hidden-size", "128", *plain, "--reset-attention-mask"]),
                            ("heads of 32", "own", ["--hidden-size", "64", *plain]),
                            ("heads that it should serve", "own", ["--hidden-size", "160", *plain]),
                            ("heads that 16 bytes do not divide", "scalar", ["--hidden-size", "40", *plain])):
        of = {}
        for name in ("preferred", by, *rest[by]):
            log = f"{case} {name}.jsonl"
            says(train(folder, "--bf16", *words, "--log-file", log, iterations=1, settings=settings[name]), 0)
            of[name] = digests(folder / log)
        expect(of["preferred"] == of[by], f"{case}: {by} computes; {of}")
        expect(all(of[by] != of[x] for x in rest[by]), f"{case}: the alternatives have other bits; {of}")
    own = settings["preferred"] | {"TROUPE_PLUGINS": PLUGINS}
    says(train(folder, "--bf16", "--hidden-size", "128", *plain, "--log-file", "without.jsonl", iterations=1, settings=own), 0)
    expect(digests(folder / "without.jsonl") == digests(folder / "heads of 64 own.jsonl"), "without the library, own kernels compute")


def check_scalar_attention(folder):
    """Warns once when scalar kernels compute 16-bit attention without being selected, with the reason and a remedy."""
    there = with_library(folder)
    none = ["--attention-dropout", "0"]
    scalar, instead = "is computed by scalar kernels", "TROUPE_ATTENTION=cudnn,own"
    for kind, words, settings in (
            ("attention with dropout", ["--bf16", "--hidden-size", "128", "--attention-dropout", "0.1"], there),
            ("attention of packed sequences", ["--bf16", "--hidden-size", "128", *none, "--reset-attention-mask"], there),
            ("attention", ["--bf16", *none], {})):  # without the library
        answer = train(folder, *words, iterations=3, settings=settings)
        says(answer, 0, f"{kind} {scalar}", "cuDNN is missing" if settings == {} else "cuDNN's is not used for it", instead)
        expect((answer.stdout + answer.stderr).count(scalar) == 1, "it is reported once", answer)
    for words, settings in ((["--bf16", "--hidden-size", "128", *none], there), (none, {}),
                            *((["--bf16", *none], {"TROUPE_ATTENTION": x}) for x in ("own", "scalar", "cudnn,own"))):
        answer = train(folder, *words, iterations=2, settings=settings)
        says(answer, 0)
        expect(scalar not in answer.stdout + answer.stderr, f"no warning with {words}, {settings}", answer)


def check_rounding(folder):
    """Only --allow-nondeterministic lets the library compute gradients with varying bits."""
    there = with_library(folder)
    words = ["--bf16", "--hidden-size", "128", "--attention-dropout", "0", "--log-file"]  # heads of 64
    flag = "--allow-nondeterministic"
    for name, more, settings in (("exact", [], there), ("rounded", [flag], there),
                                 ("own", [], None), ("own_rounded", [flag], None)):
        says(train(folder, *words, f"{name}.jsonl", *more, iterations=2, settings=settings), 0)
    of = {x: digests(folder / f"{x}.jsonl") for x in ("exact", "rounded", "own", "own_rounded")}
    expect(of["exact"] != of["own"], "the library computes")
    expect(of["exact"] != of["rounded"], "the library may use varying bits")
    expect(of["own"] == of["own_rounded"], "troupe's own attention always has the same bits")
    for more in (["--recovery", "on"], ["--verify-fraction", "0.5"], ["--strict-identity"]):
        says(train(folder, *words, "no.jsonl", flag, *more), 2, "gives other bits each time", flag, more[0])
    words[words.index("128")] = "96"  # heads of 48
    reason = "heads of 48 are no faster for tests"
    for name, more, times in (("usual", [], 0), ("usual_instead", [flag], 1)):
        answer = train(folder, *words, f"{name}.jsonl", *more, settings=there)
        says(answer, 0)
        said = answer.stdout + answer.stderr
        expect(said.count(reason) == times, f"{times} warnings that the usual kernel computes", answer)
        expect(said.count("cuDNN's usual kernel computes") == times, "the warning has its consequence", answer)
    expect(digests(folder / "usual.jsonl") == digests(folder / "usual_instead.jsonl"), "the usual kernel computes")


def check_saving(folder):
    """A snapshot is copied during the next step and contains the state of the previous step."""
    says(train(folder, "--bf16", "--log-file", "a.jsonl"), 0)
    says(train(folder, "--bf16", "--log-file", "b.jsonl", "--save", "b", "--save-interval", "1"), 0)
    expect(digests(folder / "a.jsonl") == digests(folder / "b.jsonl"), "saving changes no bit")
    for at in (1, 2, 3):
        latest = folder / "b/latest_checkpointed_iteration.txt"
        latest.write_text(str(at))
        log = f"from{at}.jsonl"
        says(train(folder, "--bf16", "--log-file", log, "--load", "b"), 0, f"resuming from iteration {at}")
        expect(digests(folder / log) == {k: v for k, v in digests(folder / "a.jsonl").items() if k > at},
               f"the checkpoint of iteration {at} continues with the same bits")


def check_occupied(folder):
    """A run allocates nothing on devices that it does not use, so another process may occupy them exclusively."""
    for used, other in ((0, 1), (1, 0)):
        env = {"TROUPE_EMULATED_DEVICES": 2, "TROUPE_EMULATED_OCCUPIED": other}
        says(run(["doctor"], folder, **env), 0, "2 devices can compute")
        says(train(folder, "--devices", str(used), "--log-file", f"{used}.jsonl", "--save", f"s{used}", settings=env), 0)
        says(train(folder, "--devices", str(other), settings=env), 3, "cudaErrorDevicesUnavailable")
    expect(digests(folder / "0.jsonl") == digests(folder / "1.jsonl"), "the same bits")
    says(train(folder, iterations=1, settings={"TROUPE_EMULATED_DEVICES": 2, "TROUPE_EMULATED_OCCUPIED": 1}), 0)


def check_failing_device(folder):
    """A failing device ends the run with the failed call and the chain of failed actors."""
    faults = ["cudaLaunchKernelEx@200=700", "cudaLaunchKernelEx@300=719"]
    faults += [f"cudaEventRecord@{n}=700" for n in (7, 16, 31)]
    for fault in faults:  # freeing memory during shutdown must not fail again
        answer = train(folder, settings={"TROUPE_EMULATED_FAULT": fault})
        says(answer, 3, "cudaErrorLaunchFailure" if "719" in fault else "cudaErrorIllegalAddress", "stage:0.0")


def check_memory_estimate(folder):
    """The forecast of a device includes an estimate for PyTorch, unless the model is split."""
    shape = [x for x in MODEL if x != "--mock-data"]
    words = ["memory", *shape, "--bf16", "--backend", "cuda"]
    says(run(words, folder), 0, "Estimate for PyTorch on each device", "eager", "compiled", "The formula was compared with PyTorch on a")
    parts = run([*words, "--world-size", "2", "--pipeline-model-parallel-size", "2"], folder,
                TROUPE_EMULATED_DEVICES=2)
    says(parts, 0, "Troupe's forecast")
    expect("PyTorch" not in parts.stdout, "no estimate for half a model", parts)


def check_several_devices(folder):
    """One device per stage: a lane that frees borrowed tensors does not change its own current device."""
    four = {"TROUPE_EMULATED_DEVICES": 4}
    whole = ["--num-layers", "4", "--micro-batch-size", "1"]
    says(train(folder, *whole, "--log-file", "one.jsonl"), 0)
    for name, more in {"four": ["--pipeline-model-parallel-size", "4"],
                       "turns": ["--pipeline-model-parallel-size", "2",
                                 "--num-layers-per-virtual-pipeline-stage", "1"]}.items():
        says(train(folder, *whole, *more, "--log-file", f"{name}.jsonl", settings=four), 0)
        expect(digests(folder / f"{name}.jsonl") == digests(folder / "one.jsonl"), f"{name}: the same bits")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        globals()["check_" + sys.argv[3]](pathlib.Path(tmp))
