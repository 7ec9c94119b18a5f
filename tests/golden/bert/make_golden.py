#!/usr/bin/env python3
"""Makes the golden losses of BERT: trains the models of bert_model.py with PyTorch.

  make_golden.py [CASE ...]    writes CASE.json beside this script (default: every case, and vectors.json)

Needs torch, transformers, safetensors and megatron-core (README.md names the versions); the tests need none of it. The
step is that of ../gpt/make_golden.py. Each micro-batch adds the mean loss of its masked tokens and that of its orders
of sentences, as Megatron-LM's pretrain_bert does. That of a task adds the mean loss of its samples, as tasks/glue and
tasks/race do.
"""
import sys
import tempfile
from pathlib import Path

import safetensors.torch
import torch

import bert_model
from bert_model import RUN

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from small_steps import (certificate, compact, listed, load, main, make, rounded, start_megatron, train,  # noqa: E402
                         write_parts)


def prepare(model, dtype):
    """Token 0 is a word here. PyTorch would give the row of padding no gradient from the embedding."""
    model.base_model.embeddings.word_embeddings.padding_idx = None
    model.to(dtype).eval()


class Hub:
    """A model of transformers."""

    def __init__(self, case, folder, dtype):
        import transformers
        c = bert_model.CASES[case]
        kind = transformers.BertConfig if c["model_type"] == "bert" else transformers.MegatronBertConfig
        config = kind(**{k: v for k, v in c.items() if k not in ("architectures", "model_type")})
        config._attn_implementation = "eager"
        self.version = "transformers " + transformers.__version__
        self.model = getattr(transformers, c["architectures"][0])(config)
        values = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        missing, unexpected = self.model.load_state_dict(values, strict=False)
        copies = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
        assert not unexpected and set(missing) <= copies | {"bert.embeddings.position_ids"}, (missing, unexpected)
        self.model.tie_weights()
        prepare(self.model, dtype)

    def logits(self, tokens, real, types):
        out = self.model(input_ids=tokens, attention_mask=real.long(), token_type_ids=types)
        return (out.logits, None) if hasattr(out, "logits") else (out.prediction_logits, out.seq_relationship_logits)


class Task:
    """A model of transformers with the head of a task."""

    def __init__(self, case, folder, dtype):
        import transformers
        c = bert_model.CASES[case]
        self.choices, classes = bert_model.TASKS[case]
        kind = transformers.BertConfig if c["model_type"] == "bert" else transformers.MegatronBertConfig
        config = kind(**{k: v for k, v in c.items() if k not in ("architectures", "model_type")}, num_labels=classes)
        config._attn_implementation = "eager"
        self.version = "transformers " + transformers.__version__
        name = c["architectures"][0].replace("PreTraining",
                                             "MultipleChoice" if self.choices > 1 else "SequenceClassification")
        self.model = getattr(transformers, name)(config)
        values = {k: v for k, v in safetensors.torch.load_file(Path(folder) / "model.safetensors").items()
                  if not k.startswith("cls.")}
        values |= {k.replace("classification_head", "classifier"): v
                   for k, v in safetensors.torch.load_file(Path(folder) / "head" / "model.safetensors").items()}
        missing, unexpected = self.model.load_state_dict(values, strict=False)
        assert not unexpected and set(missing) <= {"bert.embeddings.position_ids"}, (missing, unexpected)
        prepare(self.model, dtype)

    def forward(self, samples):
        texts = [text for sample in samples for text in sample["texts"]]
        shape = (len(samples), self.choices, -1) if self.choices > 1 else (len(samples), -1)
        given = dict(input_ids=padded(texts, "tokens"), attention_mask=real_tokens(texts).long(),
                     token_type_ids=padded(texts, "types"))
        out = self.model(**{name: x.view(shape) for name, x in given.items()}).logits
        labels = torch.tensor([sample["label"] for sample in samples])
        right = (out.argmax(-1) == labels).sum()
        return out[:, None], dict(task_loss=(torch.nn.functional.cross_entropy(out, labels, reduction="sum"),
                                             len(samples)), accuracy=(right, len(samples)))


class Megatron:
    """BertModel of Megatron-core, of its own layers."""

    def __init__(self, case, folder, dtype):
        import megatron.core
        from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
        from megatron.core.models.bert.bert_model import BertModel
        from megatron.core.transformer.transformer_config import TransformerConfig
        start_megatron()
        c = bert_model.CASES[case]
        self.version = "megatron-core " + megatron.core.__version__
        config = TransformerConfig(num_layers=c["num_hidden_layers"], hidden_size=c["hidden_size"],
                                   num_attention_heads=c["num_attention_heads"],
                                   ffn_hidden_size=c["intermediate_size"], hidden_dropout=0.0, attention_dropout=0.0,
                                   layernorm_epsilon=c["layer_norm_eps"], use_cpu_initialization=True,
                                   params_dtype=dtype, pipeline_dtype=dtype, masked_softmax_fusion=False,
                                   bias_dropout_fusion=False, bias_activation_fusion=False,
                                   gradient_accumulation_fusion=False,
                                   activation_func=lambda x: torch.nn.functional.gelu(x, approximate="tanh"))
        self.model = BertModel(config, 2, bert_layer_local_spec, c["vocab_size"], c["max_position_embeddings"],
                               share_embeddings_and_output_weights=True, add_binary_head=True)
        load(self.model, safetensors.torch.load_file(Path(folder) / "model.safetensors"))
        self.model.to(dtype).eval()

    def logits(self, tokens, real, types):
        out, order = self.model(tokens, real.long(), types)
        return (out if out.shape[0] == tokens.shape[0] else out.transpose(0, 1)), order


def padded(samples, name, dtype=torch.long):
    out = torch.zeros(len(samples), RUN["sequence_length"], dtype=dtype)
    for b, sample in enumerate(samples):
        out[b, :len(sample[name])] = torch.tensor(sample[name])
    return out


def real_tokens(texts):
    out = torch.zeros(len(texts), RUN["sequence_length"], dtype=torch.bool)
    for b, text in enumerate(texts):
        out[b, :len(text["tokens"])] = True
    return out


def run_case(case, folder, dtype):
    if case in bert_model.TASKS:
        task = Task(case, folder, dtype)
        return *train(RUN, task.model, lambda i: bert_model.step_data(case, i), task.forward), task.version
    by = (Megatron if case == "bert_megatron" else Hub)(case, folder, dtype)

    def forward(samples):
        out, order = by.logits(padded(samples, "tokens"), real_tokens(samples), padded(samples, "types"))
        mask, labels = padded(samples, "mask", dtype), padded(samples, "labels")
        losses = torch.nn.functional.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="none")
        sums = dict(lm_loss=((losses.view(labels.shape) * mask).sum(), mask.sum()))
        if order is not None:
            targets = torch.tensor([sample["is_random"] for sample in samples])
            sums["sop_loss"] = (torch.nn.functional.cross_entropy(order, targets, reduction="sum"), len(samples))
        return out, sums

    return *train(RUN, by.model, lambda i: bert_model.step_data(case, i), forward), by.version


def make_case(case):
    make("tests/golden/bert/make_golden.py", case, bert_model.CASES[case], RUN, bert_model.write_model,
         lambda folder, dtype: run_case(case, folder, dtype), lambda i: bert_model.step_data(case, i),
         (0,) if case in bert_model.TASKS else (0, 1, len(bert_model.sample(case, 0)["tokens"]) - 1))


def vectors_of(case, kind, body):
    """Means and first rows of the last hidden states by transformers' `kind`."""
    import transformers
    with tempfile.TemporaryDirectory() as folder:
        bert_model.write_text_model(case, folder, body)
        tokenizer = transformers.BertTokenizer(str(Path(folder) / "vocab.txt"))
        model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    out = []
    for text in bert_model.TEXTS:
        ids = tokenizer(text, truncation=True, max_length=model.config.max_position_embeddings,
                        return_tensors="pt")["input_ids"]
        with torch.no_grad():
            rows = model(input_ids=ids).last_hidden_state[0]
        out.append({pooling: [rounded(x) for x in row.tolist()]
                    for pooling, row in (("mean", rows[1:-1].mean(0)), ("first", rows[0]))})
    return out


def make_vectors():
    """Vectors of texts, of the encoders alone. The folders with and without heads must give the same."""
    import transformers
    found = {}
    for case, kind in (("bert_post", "BertModel"), ("bert_pre", "MegatronBertModel")):
        found[case], other = (vectors_of(case, getattr(transformers, kind), body) for body in (True, False))
        assert found[case] == other, case
    birth = certificate("tests/golden/bert/make_golden.py", "vectors", "transformers " + transformers.__version__)
    write_parts(Path(__file__).with_name("vectors.json"),
                [("certificate", compact(birth)), *((case, listed(x)) for case, x in found.items())])


if __name__ == "__main__":
    names = sys.argv[1:]
    if not names or "vectors" in names:
        make_vectors()
    if names != ["vectors"]:
        main(bert_model.CASES, make_case, [x for x in names if x != "vectors"])
