"""Makes golden.json, the reference for runtime/data: random numbers by numpy; files, sample order,
samples and mock data by megatron-core.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.6.0 packaging
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/data/make.py

Each run writes the same file except for its date. The tests need none of these packages.
"""

import datetime
import hashlib
import importlib.metadata
import itertools
import json
import pathlib
import platform
import tempfile

import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.blended_megatron_dataset_config import (
    convert_split_vector_to_split_matrix,
    parse_and_normalize_split,
)
from megatron.core.datasets.gpt_dataset import (
    GPTDataset,
    GPTDatasetConfig,
    MockGPTDataset,
    MockGPTLowLevelDataset,
)
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder, get_bin_path, get_idx_path

SPLITS = ["train", "valid", "test"]


class Tokenizer:
    """The part of a tokenizer that GPTDataset needs, without a pad token."""

    def __init__(self, vocab_size, eod):
        self.vocab_size = vocab_size
        self.eod = eod
        self.unique_identifiers = {"vocab_size": vocab_size, "eod": eod}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def token(sequence, position, vocabulary):
    """A token that differs from its neighbours and from those at the same place in other sequences."""
    return (sequence * 31 + position * 7 + 1) % (vocabulary - 1) + 1


def write(prefix, vocabulary, documents, eod=0):
    """Documents are lists of sequence lengths; each sequence ends in eod."""
    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=DType.optimal_dtype(vocabulary))
    sequence = itertools.count()
    for lengths in documents:
        ids = []
        for length in lengths:
            s = next(sequence)
            ids += [token(s, t, vocabulary) for t in range(length)]
            if length:
                ids[-1] = eod
        builder.add_document(torch.tensor(ids, dtype=torch.int64), lengths)
    builder.finalize(get_idx_path(prefix))


def file_cases(folder):
    out = []
    for vocabulary, documents in [
        (1000, [[3], [5], [2]]),
        (65499, [[1], [2, 3, 4], [5]]),
        (65500, [[1], [2, 3, 4], [5]]),
        (300, [[2], [], [4, 1], []]),
        (100000, [[7]]),
    ]:
        prefix = f"{folder}/files{len(out)}"
        write(prefix, vocabulary, documents)
        out.append({
            "vocabulary": vocabulary,
            "documents": documents,
            "idx": pathlib.Path(get_idx_path(prefix)).read_bytes().hex(),
            "bin": pathlib.Path(get_bin_path(prefix)).read_bytes().hex(),
        })
    return out


def numpy_cases():
    legacy, modern = [], []
    for seed in [0, 1, 1234, 2**32 - 1]:
        r = numpy.random.RandomState(seed)
        case = {"seed": seed, "bits": r.randint(0, 2**32, 4, dtype=numpy.int64).tolist()}
        case["random"] = [r.random_sample().hex() for _ in range(3)]
        for n in [0, 1, 2, 17, 1000]:
            x = numpy.arange(n, dtype=numpy.int32)
            r.shuffle(x)
            case[f"shuffle_{n}"] = x.tolist() if n < 100 else sha256(x.tobytes())
        legacy.append(case)

        g = numpy.random.default_rng(seed)
        case = {"seed": seed, "raw": [str(x) for x in g.bit_generator.random_raw(3)]}
        case["integers"] = [[low, high, int(g.integers(low, high, dtype=numpy.int32))]
                            for low, high in [(1, 4096), (0, 1), (0, 3 * 2**29), (0, 3 * 2**29), (-7, 7),
                                              (-2**31, 2**31 - 1), (0, 3 * 2**29), (5, 6), (0, 2)]]
        case["many"] = sha256(g.integers(0, 3 * 2**29, 1001, dtype=numpy.int32).tobytes())
        modern.append(case)
    return {"legacy": legacy, "generator": modern}


def split_cases():
    out = []
    for text in ["969,30,1", "1,1,1", "99,1,0", "100", "0,1,0", "0.8,.1,0.1", "98, 1.5, .5", "1,0,2"]:
        matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split(text))
        ranges = {}
        for count in [1, 2, 7, 10, 1000, 123457]:
            ranges[str(count)] = [
                None if b is None else [int(round(b[0] * float(count))), int(round(b[1] * float(count)))]
                for b in matrix
            ]
        out.append({"split": text,
                    "matrix": [b and [b[0].hex() if isinstance(b[0], float) else float(b[0]).hex(), b[1].hex()]
                               for b in matrix],
                    "ranges": ranges})
    return out


def npy(array):
    with tempfile.TemporaryFile() as f:
        numpy.save(f, array)
        f.seek(0)
        return f.read()


def index_of(dataset):
    out = {"samples": len(dataset)}
    for name in ["document_index", "sample_index", "shuffle_index"]:
        array = getattr(dataset, name)
        out[name] = {"shape": list(array.shape), "dtype": array.dtype.str, "npy_sha256": sha256(npy(array))}
        if array.size <= 80:
            out[name]["values"] = array.reshape(-1).tolist()
    return out


def rows_of(dataset, wanted):
    out = []
    for i in wanted:
        row = dataset[i]
        out.append({"i": i, **{k: row[k].int().tolist() for k in ["tokens", "labels", "loss_mask", "position_ids"]}})
    return out


def config(tokenizer, **more):
    settings = dict(random_seed=1234, sequence_length=4, split="969,30,1", tokenizer=tokenizer,
                    reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
                    create_attention_mask=False, mmap_bin_files=True)
    return GPTDatasetConfig(**{**settings, **more})


def gpt_cases(folder):
    small = [5, 3, 7, 2, 9, 4]
    rng = numpy.random.RandomState(5)
    middle = rng.randint(1, 60, 200).tolist()
    large = rng.randint(1, 3000, 3000).tolist()
    sparse = [0, 3, 0, 0, 12, 1, 0, 6, 0]
    plan = [
        # lengths, sequence length, split, samples of train/valid/test, seed, other settings
        (small, 4, "1", [7, 0, 0], 1234, {}),
        (small, 4, "1", [10, 0, 0], 1234, {}),
        (small, 4, "1", [13, 0, 0], 1234, {}),
        (small, 4, "1", [14, 0, 0], 1234, {}),
        (small, 4, "1", [100, 0, 0], 7, {}),
        (small, 29, "1", [1, 0, 0], 0, {}),
        (small, 30, "1", [1, 0, 0], 0, {}),
        (small, 64, "1", [3, 0, 0], 2**32 - 1, {}),
        (small, 1, "1", [29, 0, 0], 3, {}),
        (sparse, 5, "1", [9, 0, 0], 11, {}),
        (small, 4, "1,1,1", [5, 3, 2], 1234, {"eod_mask_loss": True, "reset_position_ids": True}),
        (small, 4, "0,1,0", [0, 7, 0], 1234, {"drop_last_partial_validation_sequence": False}),
        (small, 7, "0,1,0", [0, 9, 0], 1234, {"drop_last_partial_validation_sequence": False,
                                              "reset_position_ids": True}),
        (middle, 16, "949,30,21", [700, 20, 3], 42, {"eod_mask_loss": True}),
        (middle, 16, "90,8,2", [2000, 50, 30], 43, {}),
        (large, 128, "969,30,1", [100000, 1000, 100], 1234, {}),
    ]
    out = []
    for lengths, S, split, samples, seed, more in plan:
        prefix = f"{folder}/gpt{len(out)}"
        write(prefix, 97, [[n] for n in lengths])
        settings = config(Tokenizer(97, 0), blend=([prefix], None), split=split, sequence_length=S,
                          random_seed=seed, path_to_cache=f"{folder}/cache{len(out)}", **more)
        parts = BlendedMegatronDatasetBuilder(GPTDataset, samples, lambda: True, settings).build()
        case = {"lengths": lengths, "sequence_length": S, "split": split, "requested": samples, "seed": seed,
                "options": more, "parts": {}}
        for name, part in zip(SPLITS, parts):
            if part is not None:
                wanted = range(len(part)) if len(part) <= 16 else [0, 1, len(part) // 2, len(part) - 1]
                if S > 64:
                    wanted = []
                case["parts"][name] = {**index_of(part), "rows": rows_of(part, wanted)}
        out.append(case)
    return out


def mock_case():
    low = MockGPTLowLevelDataset(Tokenizer(50, 49))
    out = {"vocabulary": 50, "eod": 49, "lengths": low.sequence_lengths[:20].tolist(),
           "lengths_sha256": sha256(low.sequence_lengths.astype(numpy.int32).tobytes()),
           "sequence": 3, "sequence_tokens_sha256": sha256(low[3].astype(numpy.int32).tobytes()),
           "slice": [3, 45, low.get(3, 45, 10).tolist()]}
    parts = BlendedMegatronDatasetBuilder(
        MockGPTDataset, [1000, 20, 20], lambda: True, config(Tokenizer(50, 49), sequence_length=32)).build()
    out["parts"] = {name: {**index_of(part), "rows": rows_of(part, [0, 17])} for name, part in zip(SPLITS, parts)}
    return out


def main():
    with tempfile.TemporaryDirectory() as folder:
        golden = {
            "birth": {
                "made_by": "tests/golden/data/make.py",
                "date": datetime.date.today().isoformat(),
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in ["megatron-core", "numpy", "torch"]},
            },
            "files": file_cases(folder),
            "numpy": numpy_cases(),
            "splits": split_cases(),
            "gpt": gpt_cases(folder),
            "mock": mock_case(),
        }
    text = json.dumps(golden, separators=(",", ":"))
    text = text.replace('{"lengths"', '\n{"lengths"').replace(',"numpy"', ',\n"numpy"')
    pathlib.Path(__file__).with_name("golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
