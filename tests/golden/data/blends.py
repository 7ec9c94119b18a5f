"""Makes blends.json, the reference for runtime/data/blend.hpp: blends by megatron-core, with its own
builder, its C++ helpers and its order of summing weights.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.6.0 packaging
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/data/blends.py

Each run writes the same file except for its date. The tests need none of these packages. It
has short orders, and the SHA-256 of long ones.
"""

import datetime
import hashlib
import importlib.metadata
import json
import pathlib
import tempfile

import make
import numpy
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_megatron_dataset_builder import (
    BlendedMegatronDatasetBuilder,
    _get_size_per_split_per_dataset,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.utils import get_blend_from_list, normalize


def order(dataset, sample):
    out = {
        "size": len(dataset),
        "dataset_sha256": hashlib.sha256(dataset.tobytes()).hexdigest(),
        "sample_sha256": hashlib.sha256(sample.tobytes()).hexdigest(),
    }
    if len(dataset) <= 40:
        out["dataset"], out["sample"] = dataset.tolist(), sample.tolist()
    return out


def weighted(weights, samples):
    once = normalize(weights)
    sizes = [size[0] for size in _get_size_per_split_per_dataset(once, [samples])]
    asked = [size[0] for size in _get_size_per_split_per_dataset(once, [samples], surplus=0.005)]
    twice = normalize(once)
    size = sum(sizes)
    dataset, sample = numpy.zeros(size, dtype=numpy.int16), numpy.zeros(size, dtype=numpy.int64)
    helpers.build_blending_indices(dataset, sample, twice, len(twice), size, False)
    return {
        "weights": weights,
        "samples": samples,
        "normalized": [weight.hex() for weight in once],
        "asked": asked,
        "order": order(dataset, sample),
    }


def exhaustive(sizes):
    total = sum(sizes)
    dataset, sample = numpy.zeros(total, dtype=numpy.int16), numpy.zeros(total, dtype=numpy.int64)
    helpers.build_exhaustive_blending_indices(dataset, sample, sizes, len(sizes))
    return {"sizes": sizes, "order": order(dataset, sample)}


def rows(dataset):
    """Tokens of all samples of a blend."""
    return [dataset[i]["tokens"].tolist() for i in range(len(dataset))]


def built(lengths, weights, split, requested, per_split):
    """Runs the builder on data sets with one sequence per document."""
    with tempfile.TemporaryDirectory() as folder:
        prefixes = [f"{folder}/{name}" for name in range(len(lengths))]
        for prefix, of_one in zip(prefixes, lengths):
            make.write(prefix, 97, [[length] for length in of_one])
        blend = (prefixes, weights)
        where = {"blend_per_split": [blend, blend, None]} if per_split else {"blend": blend, "split": split}
        config = GPTDatasetConfig(
            random_seed=1234,
            sequence_length=4,
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
            tokenizer=make.Tokenizer(97, 0),
            **where,
        )
        parts = BlendedMegatronDatasetBuilder(GPTDataset, requested, lambda: True, config).build()
        return {
            "lengths": lengths,
            "weights": weights,
            "split": None if per_split else split,
            "requested": requested,
            "parts": {name: rows(part) for name, part in zip(make.SPLITS, parts) if part is not None},
        }


def main():
    random = numpy.random.RandomState(1)
    many = [float(x) for x in random.random(200)]
    blends = [
        weighted([0.2, 0.3, 0.5], 20),
        weighted([30.0, 70.0], 10),
        weighted([1.0], 7),
        weighted([1.0, 1.0, 1.0], 9),
        weighted([0.1, 0.2, 0.3, 0.1, 0.05, 0.1, 0.1, 0.03, 0.02], 1000),
        weighted([1e-6, 1.0], 4000),
        weighted(many[:9], 5000),
        weighted(many[:130], 20000),
        weighted(many, 3000),
    ]
    words = [["a"], ["a", "b", "c"], ["30", "a", "70", "b"], ["a", "b"], ["1e-1", "a", ".5", "b"]]
    out = {
        "made": datetime.date.today().isoformat(),
        "by": {name: importlib.metadata.version(name) for name in ("megatron-core", "numpy")},
        "weighted": blends,
        "exhaustive": [exhaustive([3, 2, 5]), exhaustive([7]), exhaustive([1, 1000, 37, 2]),
                       exhaustive([int(x) for x in random.randint(1, 400, 60)])],
        "built": [
            built(lengths, weights, split, requested, per_split)
            for lengths in [[[5, 3, 7, 2, 9, 4], [8, 8, 8, 9], [6, 5, 12, 3, 3]]]
            for weights, split, requested, per_split in [
                ([0.2, 0.3, 0.5], "70,30,0", [30, 8, 0], False),
                ([3.0, 1.0, 1.0], "1", [11, 0, 0], True),
                (None, "1", [12, 0, 0], False),
            ]
        ]
        + [built([[5, 3, 7, 2, 9, 4]], [2.0], "1", [9, 0, 0], False)],
        "words": [{"words": x, "blend": get_blend_from_list(x)} for x in words],
    }
    path = pathlib.Path(__file__).with_name("blends.json")
    path.write_text(json.dumps(out) + "\n")


main()
