"""--profile-operations: checks the table and the file, and that the bits stay the same. Run by ctest.

    profile_test.py PROGRAM
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

JOB = """--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2
    --global-batch-size 8 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 63
    --eval-iters 0 --threads-per-worker 1 --log-interval 1 --backend cpu --no-progress""".split()


def train(program, *more):
    done = subprocess.run([program, "train", "gpt", *JOB, *map(str, more)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def complaints(program, folder):
    file = folder / "profile.json"
    plain, profiled = folder / "plain.jsonl", folder / "profiled.jsonl"
    train(program, "--train-iters", 5, "--log-file", plain)
    code, text = train(program, "--train-iters", 5, "--profile-operations", file, "--log-file", profiled)
    if code != 0:
        yield f"exit code {code}: {text}"
        return
    digests = [[json.loads(x)["state_digest"] for x in f.read_text().splitlines() if "state_digest" in x] for f in [plain, profiled]]
    if len(digests[0]) != 5 or digests[0] != digests[1]:
        yield f"timing operations changes bits, or nothing was compared: {digests}"
    found = json.loads(file.read_text())
    names = {x["name"] for x in found["operations"]}
    if found["steps"] != 3 or not {"linear_forward<float>", "adamw_pieces<float>", "attention_backward<float>"} <= names:
        yield f"{found['steps']} steps, operations {sorted(names)}"
    # Two layers and four micro-batches: 4 products per layer, and the head, in the forward pass.
    calls = sum(x["calls_per_step"] for x in found["operations"] if x["name"] == "linear_forward<float>")
    if calls != 4 * (2 * 4 + 1):
        yield f"{calls} products a step"
    total = sum(x["ms_per_step"] for x in found["operations"]) + found["between_ms"]
    if abs(total - found["step_ms"]) > 1e-6 * found["step_ms"] or found["between_ms"] < 0:
        yield f"{total} of {found['step_ms']} ms are accounted for"
    if not re.search(r"^ +share +ms +calls +TFLOP/s +GB/s", text, re.M) or not re.search(r"% .*linear_forward<float> \d+ x \d+ x \d+$", text, re.M):
        yield f"no table: {text}"

    code, text = train(program, "--train-iters", 2, "--profile-operations", file)
    if code != 0 or "no step was timed" not in text:
        yield f"no warning that the run is too short: {code} {text}"
    # Two workers, each with three timed steps.
    code, text = train(program, "--train-iters", 5, "--profile-operations", file, "--world-size", 2, "--pipeline-model-parallel-size", 2)
    if code != 0 or json.loads(file.read_text())["steps"] != 6:
        yield f"two stages: {code} {text}"
    code, text = train(program, "--train-iters", 3, "--profile-operations", "/dev/full")
    if code != 2 or "cannot save the profile of operations" not in text:
        yield f"a lost profile is not reported: {code} {text}"
    code, text = train(program, "--train-iters", 3, "--profile-operations", file, "--trace", file)
    if code != 2 or "give each its own file" not in text:
        yield f"one file for two is not refused: {code} {text}"


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(complaints(program, pathlib.Path(folder)))
    print("\n".join(wrong) or "passed")
    return len(wrong) != 0


sys.exit(main(sys.argv[1]))
