#!/usr/bin/env python3
"""Writes the small BERTs and the data of the golden training runs, from the formulas of ../gpt/hf_model.py.

  bert_model.py CASE OUTDIR    writes OUTDIR/config.json and OUTDIR/model.safetensors (float32), and for a task
                               OUTDIR/head with the same two

Needs the Python standard library only. Element i of tensor `name` of a case is

  offset + 2^-s * uniform(CASE + "/" + name, i)      offset 1 for the gains of norms, otherwise 0

Sample n of a run has, with h(t) = draw(CASE + "/tokens", n * 1024 + t), N = T - h(0) mod (T / 2) tokens. Token t is
h(1 + t) mod V, type t is 1 from (N + h(1) mod 3) / 2 on. The label of token t counts if h(512 + t) mod 4 is 0, or t is
1; it is (token 3 t mod N) + 1 mod V. The order of the sentences is h(1000) mod 2.

Sample n of a task has the texts of the samples n * choices, n * choices + 1, ..., and the class h(1001) mod classes of
the first of them.
"""
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "gpt"), str(Path(__file__).resolve().parent.parent)]
import small_model  # noqa: E402
from hf_model import draw, fnv, training  # noqa: E402

RUN = training(sequence_length=18, masked=True)


def hub(kind, architecture):
    return dict(architectures=[architecture], model_type=kind, vocab_size=96, hidden_size=32, num_hidden_layers=3,
                num_attention_heads=4, intermediate_size=48, hidden_act="gelu", hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, max_position_embeddings=24, type_vocab_size=2, initializer_range=0.02,
                layer_norm_eps=1e-12, tie_word_embeddings=True, pad_token_id=0)


CASES = {"bert_post": hub("bert", "BertForPreTraining"), "bert_masked": hub("bert", "BertForMaskedLM"),
         "bert_pre": hub("megatron-bert", "MegatronBertForPreTraining"),
         "bert_megatron": hub("megatron", "") | dict(layer_norm_eps=1e-5),
         "bert_classes": hub("bert", "BertForPreTraining"),
         "bert_choices": hub("megatron-bert", "MegatronBertForPreTraining")}
# Heads of tasks: texts of a sample, and classes.
TASKS = {"bert_classes": (1, 3), "bert_choices": (4, 4)}
# s of 2^-s: large enough that types and positions can be seen in the loss.
SHIFTS = dict(embedding=2, position=2, type=2, input=2, output=2, gain=4, bias=4, head=2)


def has_binary_head(case):
    return case != "bert_masked"


def linear(name, out, inputs, kind="input"):
    return [(name + ".weight", (out, inputs), kind), (name + ".bias", (out,), "bias")]


def norm(name, width):
    return [(name + ".weight", (width,), "gain"), (name + ".bias", (width,), "bias")]


def hub_tensors(case):
    """(name, shape, kind) of the tensors of transformers' BERT and MegatronBERT."""
    c = CASES[case]
    C, F, V, post = c["hidden_size"], c["intermediate_size"], c["vocab_size"], c["model_type"] == "bert"
    rows = [("bert.embeddings.word_embeddings.weight", (V, C), "embedding"),
            ("bert.embeddings.position_embeddings.weight", (c["max_position_embeddings"], C), "position"),
            ("bert.embeddings.token_type_embeddings.weight", (2, C), "type")]
    rows += norm("bert.embeddings.LayerNorm", C) if post else []
    for layer in range(c["num_hidden_layers"]):
        stem = f"bert.encoder.layer.{layer}."
        rows += [] if post else norm(stem + "attention.ln", C) + norm(stem + "ln", C)
        for part in ("query", "key", "value"):
            rows += linear(f"{stem}attention.self.{part}", C, C)
        rows += linear(stem + "attention.output.dense", C, C, "output") + linear(stem + "intermediate.dense", F, C) \
            + linear(stem + "output.dense", C, F, "output")
        rows += norm(stem + "attention.output.LayerNorm", C) + norm(stem + "output.LayerNorm", C) if post else []
    rows += [] if post else norm("bert.encoder.ln", C)
    if has_binary_head(case):
        rows += linear("bert.pooler.dense", C, C, "head") + linear("cls.seq_relationship", 2, C, "head")
    return rows + linear("cls.predictions.transform.dense", C, C, "head") \
        + norm("cls.predictions.transform.LayerNorm", C) + [("cls.predictions.bias", (V,), "bias")]


def megatron_tensors(case):
    """(name, shape, kind) of the parameters of Megatron-core's BERT."""
    c = CASES[case]
    C, F, V = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    rows = [("embedding.word_embeddings.weight", (V, C), "embedding"),
            ("embedding.position_embeddings.weight", (c["max_position_embeddings"], C), "position"),
            ("embedding.tokentype_embeddings.weight", (2, C), "type")]
    for layer in range(c["num_hidden_layers"]):
        stem = f"encoder.layers.{layer}."
        rows += norm(stem + "input_layernorm", C) + linear(stem + "self_attention.linear_qkv", 3 * C, C) \
            + linear(stem + "self_attention.linear_proj", C, C, "output") + norm(stem + "pre_mlp_layernorm", C) \
            + linear(stem + "mlp.linear_fc1", F, C) + linear(stem + "mlp.linear_fc2", C, F, "output")
    return rows + norm("encoder.final_layernorm", C) + linear("pooler.dense", C, C, "head") \
        + linear("binary_head", 2, C, "head") + linear("lm_head.dense", C, C, "head") \
        + norm("lm_head.layer_norm", C) + [("output_layer.bias", (V,), "bias")]


def head_tensors(case):
    """(name, shape, kind) of the head of a task, with Megatron-LM's names."""
    choices, classes = TASKS[case]
    return linear("classification_head", 1 if choices > 1 else classes, CASES[case]["hidden_size"], "head")


def write_model(case, folder):
    tensors = megatron_tensors(case) if case == "bert_megatron" else hub_tensors(case)
    parts = {folder: tensors} | ({Path(folder) / "head": head_tensors(case)} if case in TASKS else {})
    for part, its in parts.items():
        small_model.write(part, CASES[case],
                          ((name, shape, small_model.weights(f"{case}/{name}", shape, kind, SHIFTS[kind]))
                           for name, shape, kind in its))


def sample(case, n):
    """Sample n without padding."""
    T, V, seed = RUN["sequence_length"], CASES[case]["vocab_size"], fnv(case + "/tokens")

    def h(t):
        return draw(seed, n * 1024 + t)

    N = T - h(0) % (T // 2)
    tokens = [h(1 + t) % V for t in range(N)]
    second = (N + h(1) % 3) // 2
    return dict(tokens=tokens, types=[int(t >= second) for t in range(N)],
                labels=[(tokens[3 * t % N] + 1) % V for t in range(N)],
                mask=[int(h(512 + t) % 4 == 0 or t == 1) for t in range(N)], is_random=h(1000) % 2)


def task_sample(case, n):
    choices, classes = TASKS[case]
    first = n * choices
    return dict(texts=[{key: sample(case, first + c)[key] for key in ("tokens", "types")} for c in range(choices)],
                label=draw(fnv(case + "/tokens"), first * 1024 + 1001) % classes)


# Texts of vectors.json: one of one word, one with an unknown word, and one that is cut.
TEXTS = ["w5", "w17 w40 w8", "w9 zz w95 w9", " ".join(f"w{5 + 7 * i % 91}" for i in range(21)),
         " ".join(f"w{5 + 11 * i % 91}" for i in range(40))]


def write_body(case, folder):
    """The parameters without heads of tokens and sentences. That of `bert_pre` has no pooler either."""
    tensors = [(name, shape, small_model.weights(f"{case}/{name}", shape, kind, SHIFTS[kind]))
               for name, shape, kind in hub_tensors(case)
               if name.startswith("bert.") and not (case == "bert_pre" and ".pooler." in name)]
    config = CASES[case] | dict(architectures=[CASES[case]["architectures"][0].replace("ForPreTraining", "Model")])
    small_model.write(folder, config, ((name.removeprefix("bert."), *rest) for name, *rest in tensors))


def write_text_model(case, folder, body=False):
    """A model with a vocabulary of words; with `body` the folder of a BertModel or MegatronBertModel."""
    (write_body if body else write_model)(case, folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"w{i}" for i in range(len(words), CASES[case]["vocab_size"])]
    (Path(folder) / "vocab.txt").write_text("\n".join(words) + "\n")


def step_data(case, iteration):
    B = RUN["global_batch_size"]
    of = task_sample if case in TASKS else sample
    return [of(case, (iteration - 1) * B + b) for b in range(B)]


if __name__ == "__main__":
    write_model(*sys.argv[1:])
