"""Makes merge.json, the reference for runtime/data/merge_datasets.hpp and the reader in indexed_dataset.hpp:
data sets by megatron-core with each token type, with and without modes, and merged.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.15.0 packaging
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/data/merge.py

Each run writes the same file except for its date. The tests need none of these packages.
"""

import datetime
import importlib.metadata
import json
import pathlib
import tempfile

import numpy
import torch
from megatron.core.datasets.indexed_dataset import (
    DType,
    IndexedDataset,
    IndexedDatasetBuilder,
    get_bin_path,
    get_idx_path,
)


def files(prefix):
    return {"idx": pathlib.Path(get_idx_path(prefix)).read_bytes().hex(),
            "bin": pathlib.Path(get_bin_path(prefix)).read_bytes().hex()}


def write(prefix, dtype, documents, multimodal=False):
    """Documents are lists of sequences, sequences lists of ids."""
    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=dtype, multimodal=multimodal)
    for sequences in documents:
        ids = torch.tensor([x for sequence in sequences for x in sequence], dtype=torch.int64)
        modes = [0] * len(sequences) if multimodal else None
        builder.add_document(ids, [len(sequence) for sequence in sequences], modes)
    builder.finalize(get_idx_path(prefix))


def type_case(folder, dtype):
    largest = 99 if dtype in (numpy.float32, numpy.float64) else min(numpy.iinfo(dtype).max, 2**31 - 1)
    documents = [[[0, 1, largest]], [], [[largest - 1], [], [5, 6]]]
    prefix = f"{folder}/{numpy.dtype(dtype).name}"
    write(prefix, dtype, documents)
    read = IndexedDataset(prefix)
    expected = [sequence for document in documents for sequence in document]
    assert [x.tolist() for x in read] == expected
    return {"type": numpy.dtype(dtype).name, "sequences": expected, **files(prefix)}


def merged_case(folder, dtype, parts):
    """Merges like tools/merge_datasets.py."""
    inputs = []
    for i, documents in enumerate(parts):
        inputs.append(f"{folder}/part{i}")
        write(inputs[-1], dtype, documents)
    builder = IndexedDatasetBuilder(get_bin_path(f"{folder}/all"), dtype=IndexedDataset(inputs[0]).index.dtype)
    for prefix in inputs:
        builder.add_index(prefix)
    builder.finalize(get_idx_path(f"{folder}/all"))
    return {"inputs": [files(prefix) for prefix in inputs], "merged": files(f"{folder}/all")}


def main():
    a = [[[7, 8, 9]], [[1, 2, 3, 4, 5]], [[6, 6]]]
    b = [[[1], [2, 3], []], [], [[4]]]
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/modes", numpy.int32, a, multimodal=True)
        out = {
            "birth": {
                "made_by": "tests/golden/data/merge.py",
                "date": datetime.date.today().isoformat(),
                **{name: importlib.metadata.version(name) for name in ["megatron-core", "numpy", "torch"]},
            },
            "types": [type_case(folder, DType.dtype_from_code(code.value)) for code in DType],
            "modes": files(f"{folder}/modes"),
            "merged": [
                merged_case(folder, dtype, parts)
                for dtype, parts in [
                    (numpy.uint16, [a, b]),
                    (numpy.uint16, [b, a, b]),
                    (numpy.int32, [b, [[]], a]),
                    (numpy.uint8, [a]),
                    (numpy.int64, [a, a]),
                ]
            ],
        }
    text = json.dumps(out, separators=(",", ":")).replace('{"type"', '\n{"type"').replace('{"inputs"', '\n{"inputs"')
    pathlib.Path(__file__).with_name("merge.json").write_text(text + "\n")


main()
