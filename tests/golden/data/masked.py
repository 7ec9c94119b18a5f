"""Makes masked.json, the reference for the samples of BERT and T5 (runtime/data/masked_pairs.hpp, masked_spans.hpp):
indices and all samples of megatron-core's data sets on three small corpora.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.6.0 packaging
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/data/masked.py

Three differences are taken out. With permutations, megatron-core draws n-grams from numpy's global generator; here they
come from the generator of the sample. Labels outside the loss mask are 0. A text ends at its last separator;
megatron-core also takes random tokens [PAD] within it for padding. Each run writes the same file except for its date.
The tests need none of these packages.
"""

import datetime
import hashlib
import importlib.metadata
import json
import pathlib
import platform
import tempfile

import numpy
import torch
from megatron.core.datasets.bert_dataset import BERTMaskedWordPieceDataset, BERTMaskedWordPieceDatasetConfig
from megatron.core.datasets.indexed_dataset import (
    DType,
    IndexedDataset,
    IndexedDatasetBuilder,
    get_bin_path,
    get_idx_path,
)
from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset, T5MaskedWordPieceDatasetConfig
from megatron.core.datasets.utils import Split

VOCABULARY, FIRST_PART, SENTINELS = 200, 120, 60
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Tokenizer:
    """Ids 0 to 4 are SPECIAL, then words, from FIRST_PART on parts of words, and behind all of them sentinels."""

    inv_vocab = {i: SPECIAL[i] if i < len(SPECIAL) else f"w{i}" if i < FIRST_PART else f"##p{i}"
                 for i in range(VOCABULARY)}
    pad, cls, sep, mask = 0, 2, 3, 4
    bos, eos = cls, sep
    additional_special_tokens_ids = list(range(VOCABULARY, VOCABULARY + SENTINELS))
    unique_identifiers = {"vocabulary": VOCABULARY}


class SampleDraws:
    """Draws n-grams of permutations from the generator of the sample."""

    def _create_masked_lm_predictions(self, tokens, length, state):
        numpy.random.choice = state.choice
        return super()._create_masked_lm_predictions(tokens, length, state)


class Pairs(SampleDraws, BERTMaskedWordPieceDataset):
    pass


class Spans(SampleDraws, T5MaskedWordPieceDataset):
    pass


def token(sequence, position):
    return 5 + (sequence * 31 + position * position * 7 + position * 13) % (VOCABULARY - 5)


def corpora():
    """Documents, as lists of the lengths of their sentences."""
    draw = numpy.random.RandomState(48)
    short = [draw.randint(1, 12, draw.randint(1, 9)).tolist() for _ in range(40)]
    long = [draw.randint(1, 60, draw.randint(20, 50)).tolist() for _ in range(6)]
    odd = [[3], [], [5, 600, 4], [7, 2], [1, 1, 1], [600], [512, 2], [513], [], [9, 0, 4], [2, 2, 2, 2]]
    return [short, long, odd]


def write(prefix, documents):
    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=DType.optimal_dtype(VOCABULARY))
    sequence = 0
    for lengths in documents:
        ids = []
        for length in lengths:
            ids += [token(sequence, t) for t in range(length)]
            sequence += 1
        builder.add_document(torch.tensor(ids, dtype=torch.int64), lengths)
    builder.finalize(get_idx_path(prefix))


def bytes_of(parts):
    return numpy.concatenate([numpy.atleast_1d(x) for x in parts]).astype(numpy.int32).tobytes()


def pair(sample):
    mask = sample["loss_mask"]
    out = {"tokens": sample["text"], "types": sample["types"], "labels": sample["labels"] * mask, "mask": mask,
           "length": numpy.flatnonzero(sample["text"]).max() + 1}
    assert (sample["labels"][mask == 0] == -1).all()
    assert (sample["padding_mask"] == (sample["text"] != 0)).all()
    return {**out, "is_random": sample["is_random"]}


def span(sample):
    mask = sample["loss_mask"]
    assert (sample["enc_mask"][:sample["enc_mask"].sum()] == 1).all() and (sample["dec_mask"] == mask).all()
    return {"encoder_tokens": sample["text_enc"], "tokens": sample["text_dec"], "labels": sample["labels"] * mask,
            "mask": mask, "length": mask.sum(), "encoder_length": sample["enc_mask"].sum()}


def case(folder, corpus, kind, how):
    masking = {"probability": 0.15, "short_sequences": 0.1, "max_ngram": 3, "whole_words": True,
               "permutation": False, "longer_ngrams": False, "geometric": False, **how.get("masking", {})}
    wanted = {"seed": 1234, "length": 32, "samples": 100, "documents": None, **how, "masking": masking}
    settings = dict(
        random_seed=wanted["seed"], sequence_length=wanted["length"], split="1", tokenizer=Tokenizer(),
        path_to_cache=str(folder / "cache"), masking_probability=masking["probability"],
        short_sequence_probability=masking["short_sequences"], masking_max_ngram=masking["max_ngram"],
        masking_do_full_word=masking["whole_words"], masking_do_permutation=masking["permutation"],
        masking_use_longer_ngrams=masking["longer_ngrams"], masking_use_geometric_distribution=masking["geometric"])
    if kind is Pairs:
        config = BERTMaskedWordPieceDatasetConfig(classification_head=wanted["pairs"], **settings)
    else:
        config = T5MaskedWordPieceDatasetConfig(sequence_length_decoder=wanted["decoder"], **settings)
    data = IndexedDataset(str(folder / f"corpus{corpus}"))
    begin, end = wanted["documents"] or [0, data.document_indices.shape[0] - 1]
    set_ = kind(data, f"corpus{corpus}", numpy.arange(begin, end, dtype=numpy.int32), wanted["samples"], Split.train,
                config)
    index = numpy.asarray(set_.sample_index)
    assert index.dtype == numpy.uint32
    rows = [(pair if kind is Pairs else span)(set_[i]) for i in range(len(set_))]
    all_ = hashlib.sha256(b"".join(bytes_of(row.values()) for row in rows)).hexdigest()
    return {"corpus": corpus, **wanted, "documents": [int(begin), int(end)], "count": len(set_),
            "index_sha256": hashlib.sha256(index.tobytes()).hexdigest(), "first_rows": index[:6].tolist(),
            "samples_sha256": all_,
            "some": [{k: numpy.asarray(x).tolist() for k, x in rows[i].items()} for i in (0, len(rows) // 2)]}


def main():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    out = {"origin": {"script": "tests/golden/data/masked.py", "made": datetime.date.today().isoformat(),
                      "python": platform.python_version(), "numpy": numpy.__version__, "torch": torch.__version__,
                      "megatron-core": importlib.metadata.version("megatron-core")},
           "vocabulary": VOCABULARY, "first_part": FIRST_PART, "sentinels": SENTINELS, "corpora": corpora()}
    more = [{}, {"length": 64, "samples": 700, "seed": 7}, {"length": 128, "masking": {"short_sequences": 0.5}},
            {"masking": {"short_sequences": 0, "probability": 0.4}}, {"masking": {"whole_words": False}},
            {"masking": {"longer_ngrams": True, "max_ngram": 10}, "length": 96},
            {"masking": {"longer_ngrams": True, "max_ngram": 21}, "length": 96},
            {"masking": {"max_ngram": 17, "probability": 0.5}, "length": 96},
            {"masking": {"geometric": True, "max_ngram": 10}, "length": 64},
            {"masking": {"permutation": True}, "length": 64}, {"documents": [3, 5], "seed": 2**31 - 2}]
    pairs = more + [{"length": 5, "samples": 300}]
    spans = [{"length": 64, "decoder": 40, "samples": 300, "masking": {"geometric": True, "max_ngram": 10}},
             {"length": 128, "decoder": 60, "seed": 3, "masking": {"geometric": True, "max_ngram": 10}},
             {"length": 32, "decoder": 30, "masking": {"permutation": True, "probability": 0.3}},
             {"length": 4, "decoder": 8, "masking": {"whole_words": False}}]
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        for n, documents in enumerate(out["corpora"]):
            write(str(folder / f"corpus{n}"), documents)
        every = range(len(out["corpora"]))
        out["pairs"] = [case(folder, n, Pairs, {"pairs": head, **how}) for n in every for head in (True, False)
                        for how in pairs]
        out["spans"] = [case(folder, n, Spans, how) for n in every for how in spans]
    texts = {k: json.dumps(x) for k, x in out.items() if k not in ("pairs", "spans")}
    for k in ("pairs", "spans"):
        texts[k] = "[\n" + ",\n".join(json.dumps(x) for x in out[k]) + "]"
    text = "{" + ",\n".join(f"{json.dumps(k)}: {x}" for k, x in texts.items()) + "}\n"
    pathlib.Path(__file__).with_name("masked.json").write_text(text)


if __name__ == "__main__":
    main()
