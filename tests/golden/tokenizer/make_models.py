"""Makes tokenizer_models.json, the reference for runtime/tokenizer/pipeline_tokenizer and related tokenizers: a small
tokenizer of each kind, with ids and texts by Hugging Face's `tokenizers`, `sentencepiece` and `tiktoken`.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 regex protobuf
    /tmp/golden/bin/python tests/golden/tokenizer/make_models.py

Texts use only characters of Unicode 3.2, as in make_json.py.
"""

import base64
import datetime
import importlib.metadata
import io
import json
import pathlib
import tempfile

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make import TEXTS, TRAINING
from make_json import MORE_TEXTS, random_texts

TEXTS = TEXTS[4:] + MORE_TEXTS + random_texts(8) + [
    "", " ", "  two  blanks  ", "\u2581marks \u2581\u2581 here", "<s>the</s> stage<unk>[SEP]x", "<0x41>A<0x0A>",
    "\u4e2d\u6587 and \u65e5\u672c", "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m", "do not . don't , we 're ! it 's", "x" * 120 + " y",
    "a" * 40, "0000000000", "line\nbreak\ttab\u00a0hard\u200bzero", "\u00ad\u0600\u0301 control\u0007s",
]
SPECIALS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
END = "<|endoftext|>"


def trained(tokenizer, trainer, texts=TRAINING):
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def llama2(new=False):
    t = trained(Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True)),
                trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIALS + BYTES + ["\u2581"], show_progress=False),
                [word for text in TRAINING for word in text.split()])
    file = json.loads(t.to_str())
    vocab, merges = file["model"]["vocab"], file["model"]["merges"]
    for right in ["\u2581", "\u2581\u2581", "th", "the", "s", "a", "st"]:
        if right in vocab:
            vocab.setdefault("\u2581" + right, len(vocab))
            merges.append(["\u2581", right])
    t = Tokenizer.from_str(json.dumps(file))
    if new:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t, "</s>"


def unigram(with_bytes):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFC() if with_bytes else normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=not with_bytes)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if with_bytes else decoders.Metaspace()
    trained(t, trainers.UnigramTrainer(vocab_size=500 if with_bytes else 260, unk_token="<unk>", show_progress=False,
                                       special_tokens=SPECIALS + (BYTES if with_bytes else [])))
    file = json.loads(t.to_str())
    file["model"]["byte_fallback"] = with_bytes
    t = Tokenizer.from_str(json.dumps(file))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return t, "</s>"


def characters_mapped():
    """T5's parts, with a custom table of characters."""
    rules = {"\ufb01": "fi", "\u00a0": " ", "\u200b": "", "A": "a", "\u212b": "\u00e5", "e\u0301": "\u00e9", "\u2460": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "rules.tsv").write_text("".join(
            " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in TRAINING for line in text.split("\n")), model_writer=model, vocab_size=120,
            model_type="unigram", normalization_rule_tsv=str(path / "rules.tsv"), minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    t = Tokenizer(models.Unigram([(x.piece, x.score) for x in proto.pieces], 0, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                                         normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.add_special_tokens(["</s>"])
    return t, "</s>"


def word_piece(lower):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    trained(t, trainers.WordPieceTrainer(vocab_size=260, special_tokens=BERT, show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t, "[SEP]"


def clip():
    t = Tokenizer(models.BPE(unk_token=END, end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("</w>", " ")])
    trained(t, trainers.BpeTrainer(vocab_size=600, special_tokens=["<|startoftext|>", END], end_of_word_suffix="</w>",
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing((END, 1), ("<|startoftext|>", 0), add_prefix_space=False)
    return t, END


def falcon():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    t.decoder = decoders.ByteLevel()
    trained(t, trainers.BpeTrainer(vocab_size=320, special_tokens=[END], show_progress=False,
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t, END


def prefixed():
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFD(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    trained(t, trainers.BpeTrainer(vocab_size=280, special_tokens=["[UNK]", "</s>"], continuing_subword_prefix="##",
                                   show_progress=False))
    return t, "</s>"


def whole_words():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    trained(t, trainers.WordLevelTrainer(vocab_size=60, special_tokens=["[UNK]", "</s>"], show_progress=False))
    return t, "</s>"


def bytes_first():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Split(Regex("\u0120?[a-z]+|."), "isolated")
    t.decoder = decoders.Sequence([decoders.ByteLevel()])
    trained(t, trainers.BpeTrainer(vocab_size=320, special_tokens=[END], show_progress=False,
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t, END


KINDS = {
    "llama2": llama2, "llama2 new": lambda: llama2(True), "unigram": lambda: unigram(False),
    "unigram with bytes": lambda: unigram(True), "t5": characters_mapped, "bert": lambda: word_piece(True),
    "bert cased": lambda: word_piece(False), "clip": clip, "falcon": falcon, "prefixed": prefixed,
    "whole words": whole_words, "bytes first": bytes_first,
}


def hub(make):
    theirs, end = make()
    cases = []
    for text in TEXTS:
        theirs.encode_special_tokens = False
        framed = theirs.encode(text).ids
        theirs.encode_special_tokens = True
        plain = theirs.encode(text, add_special_tokens=False).ids
        cases.append([framed, plain, theirs.decode(framed, skip_special_tokens=False), theirs.decode(framed)])
    return {"end": end, "file": json.loads(theirs.to_str()), "cases": cases}


def sentence_piece(kind, **settings):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in TRAINING for line in text.split("\n")), model_writer=model, model_type=kind,
        minloglevel=2, normalization_rule_name="identity", **settings)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = [[ids, theirs.decode(ids)] for ids in map(theirs.encode, TEXTS)]
    return {"model": base64.b64encode(model.getvalue()).decode(), "cases": cases}


def tik_token():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained(t, trainers.BpeTrainer(vocab_size=330, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(moved)}
    vocab = t.get_vocab()
    learnt = [bytes(byte_of[c] for c in token) for token in sorted(vocab, key=vocab.get)]
    tokens = [bytes([byte]) for byte in range(256)] + [token for token in learnt if len(token) > 1]
    cl100k = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
    v1 = r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    specials = {END: 100257, "<|fim_prefix|>": 100258}
    lines = tiktoken.Encoding("lines", pat_str=cl100k, mergeable_ranks={x: i for i, x in enumerate(tokens)}, special_tokens=specials)
    named = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>", "<SPECIAL_7>", "<SPECIAL_8>"]
    megatron = tiktoken.Encoding("json", pat_str=v1, mergeable_ranks={x: i + 9 for i, x in enumerate(tokens)},
                                 special_tokens={x: i for i, x in enumerate(named)})
    return {"tokens": [base64.b64encode(x).decode() for x in tokens],
            "cl100k_base": [lines.encode(text, allowed_special="all") for text in TEXTS],
            "v1": [megatron.encode(text, allowed_special="all") for text in TEXTS]}


def main():
    golden = {
        "birth": {"made_by": "tests/golden/tokenizer/make_models.py", "date": datetime.date.today().isoformat(),
                  **{name: importlib.metadata.version(name) for name in ("tokenizers", "sentencepiece", "tiktoken")}},
        "texts": TEXTS,
        "kinds": {name: hub(make) for name, make in KINDS.items()},
        "sentencepiece": {"bpe": sentence_piece("bpe", vocab_size=360, byte_fallback=True, user_defined_symbols=["stage"]),
                          "unigram": sentence_piece("unigram", vocab_size=120)},
        "tiktoken": tik_token(),
    }
    path = pathlib.Path(__file__).with_name("tokenizer_models.json")
    path.write_text(json.dumps(golden, separators=(",", ":")).replace('{"end":', '\n{"end":') + "\n")


if __name__ == "__main__":
    main()
