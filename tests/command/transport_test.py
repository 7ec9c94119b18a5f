"""`troupe train gpt --transport ucx`. Run by ctest: transport_test.py PROGRAM"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
MODEL = ("--mock-data --tokenizer-type NullTokenizer --vocab-size 63 --num-layers 2 --hidden-size 32 "
         "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 "
         "--global-batch-size 8 --lr 1e-3 --lr-decay-iters 8 --log-interval 1 --eval-iters 0 --train-iters 4 "
         "--pipeline-model-parallel-size 2 --backend cpu").split()


def train(folder, *more, **settings):
    return subprocess.run([PROGRAM, "train", "gpt", *MODEL, *more], cwd=folder, capture_output=True, text=True,
                          timeout=120, env={**os.environ, **settings})


def expect(condition, what, answer):
    if not condition:
        sys.exit(f"failed: {what}: exit {answer.returncode}\n{answer.stdout}\n{answer.stderr}")


def digests(path):
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    return [x["state_digest"] for x in lines if "state_digest" in x]


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for transport in ("tickets", "ucx"):
        done = train(folder, "--transport", transport, "--log-file", transport)
        expect(done.returncode == 0 and "UCX" not in done.stdout, f"{transport} trains, without messages of UCX", done)
    expect(len(digests(folder / "ucx")) == 4 and digests(folder / "ucx") == digests(folder / "tickets"),
           "the same bits", done)

    (folder / "empty").mkdir()
    done = train(folder, "--transport", "ucx", TROUPE_PLUGINS=str(folder / "empty"))
    expect(done.returncode == 2 and "UCX is not available: libtroupe_ucx.so was not found" in done.stderr
           and "--transport tickets" in done.stderr, "a missing plug-in is reported", done)
    built = (pathlib.Path(PROGRAM).resolve().parent / "libtroupe_ucx.so").read_bytes()
    other_build, count = re.subn(rb"(headers )[0-9a-f]{12}", rb"\g<1>000000000000", built)
    assert count, "the plug-in has no hash of its headers"
    planted = {"text": (b"no library", "libtroupe_ucx.so"),
               "another build": (other_build, "is of another build of troupe"),
               "no UCX": (built.replace(b"libucp.so.0", b"libno!.so.0"), "libno!.so.0")}
    for what, (data, said) in planted.items():
        (folder / what).mkdir()
        (folder / what / "libtroupe_ucx.so").write_bytes(data)
        done = train(folder, "--transport", "ucx", TROUPE_PLUGINS=str(folder / what))
        expect(done.returncode == 2 and "UCX is not available: " in done.stderr and said in done.stderr
               and "--transport tickets" in done.stderr, f"the wrong plug-in ({what}) is reported", done)
    done = train(folder, "--transport", "smoke")
    expect(done.returncode == 2 and "tickets" in done.stderr and "ucx" in done.stderr, "an unknown name is refused", done)
print("passed")
