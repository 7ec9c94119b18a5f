"""Compares troupe and megatron-core in turn: opening a data set of many documents and building its sample order.

    nice -n 5 ninja -C build/release bench_gpt_index
    python3 -m venv /tmp/peers
    /tmp/peers/bin/pip install numpy torch packaging
    /tmp/peers/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/peers/bin/python tests/bench/gpt_index_against_megatron.py build/release/bin/bench_gpt_index [DOCUMENTS]

The .bin is a sparse file, because only lengths are read. Memory is the peak of each process; for megatron-core also
the peak after loading its modules. megatron-core checks nothing when it opens, and writes its index to a cache.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

SEQUENCE_LENGTH, EPOCHS, TURNS = 256, 1.5, 3


def write(prefix, documents):
    """Writes documents of one sequence with 1 to 200 uint16 tokens. Returns the number of tokens."""
    import numpy

    lengths = numpy.random.RandomState(1).randint(1, 201, documents).astype(numpy.int32)
    ends = numpy.cumsum(lengths.astype(numpy.int64))
    with open(f"{prefix}.idx", "wb") as idx:
        idx.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x08")
        idx.write(documents.to_bytes(8, "little") + (documents + 1).to_bytes(8, "little"))
        idx.write(lengths.tobytes())
        idx.write(((ends - lengths) * 2).tobytes())
        idx.write(numpy.arange(documents + 1, dtype=numpy.int64).tobytes())
    with open(f"{prefix}.bin", "wb") as data:
        data.truncate(int(ends[-1]) * 2)
    return int(ends[-1])


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peer(prefix, samples):
    """Measures megatron-core, in its own process."""
    import numpy
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class tokenizer:
        vocab_size, eod = 50000, 0
        unique_identifiers = {"vocab_size": 50000}

    loaded = peak_mb()
    started = time.perf_counter()
    data = IndexedDataset(prefix)
    opened = time.perf_counter() - started
    config = GPTDatasetConfig(random_seed=1234, sequence_length=SEQUENCE_LENGTH, split="1", tokenizer=tokenizer(),
                              blend=([prefix], None), reset_position_ids=False, reset_attention_mask=False,
                              eod_mask_loss=False, create_attention_mask=False)
    documents = numpy.arange(len(data), dtype=numpy.int32)
    made = GPTDataset(data, prefix, documents, samples, Split.train, config)
    built = time.perf_counter() - started - opened
    print(json.dumps({"open": round(opened, 3), "build": round(built, 3), "samples": len(made),
                      "first": int(made.shuffle_index[0]), "peak_mb": round(peak_mb()),
                      "loaded_mb": round(loaded)}))


def measured(*words):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(bench, documents):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        prefix = str(pathlib.Path(folder) / "data")
        samples = int(write(prefix, documents) * EPOCHS) // SEQUENCE_LENGTH
        for _ in range(TURNS):
            ours = measured(bench, prefix, SEQUENCE_LENGTH, samples)
            shutil.rmtree(pathlib.Path(prefix) / "cache", ignore_errors=True)  # the cache of megatron-core
            theirs = measured(sys.executable, __file__, "--peer", prefix, samples)
            print(f"troupe         {ours}\nmegatron-core  {theirs}")
            if any(ours[key] != theirs[key] for key in ("samples", "first")):
                sys.exit("the sample orders differ")


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        peer(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
