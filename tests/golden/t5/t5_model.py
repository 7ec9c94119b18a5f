#!/usr/bin/env python3
"""Writes the small T5s and the data of the golden training runs, from the formulas of ../gpt/hf_model.py.

  t5_model.py CASE OUTDIR    writes OUTDIR/config.json and OUTDIR/model.safetensors (float32)

Needs the Python standard library only. Element i of tensor `name` of a case is

  offset + 2^-s * uniform(CASE + "/" + name, i)      offset 1 for the gains of norms, otherwise 0

Sample n of a run has, with h(t) = draw(CASE + "/tokens", n * 1024 + t):

  encoder  E - h(0) mod (E / 2) tokens, token t: 1 + h(1 + t) mod (V - 1)
  labels   D - h(512) mod (D / 2): label t is the encoder's token (3 t) mod its length, plus 1 in every fourth place
  tokens   0, then the labels but the last
"""
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "gpt"), str(Path(__file__).resolve().parent.parent)]
import small_model  # noqa: E402
from hf_model import draw, fnv, training  # noqa: E402

RUN = training(sequence_length=14, masked=True)
RUN["encoder_sequence_length"] = 20


def hub(version, **changes):
    """config.json of a T5ForConditionalGeneration: an encoder of two layers, a decoder of three."""
    first = version == "v1.0"
    return dict(architectures=["T5ForConditionalGeneration"], model_type="t5", is_encoder_decoder=True, vocab_size=96,
                d_model=32, d_kv=12, d_ff=48, num_layers=2, num_decoder_layers=3, num_heads=4, n_positions=64,
                relative_attention_num_buckets=8, relative_attention_max_distance=12,
                feed_forward_proj="relu" if first else "gated-gelu", layer_norm_epsilon=1e-6, dropout_rate=0.0,
                initializer_factor=1.0, tie_word_embeddings=first, decoder_start_token_id=0, pad_token_id=0,
                eos_token_id=1, use_cache=False) | changes


MEGATRON = dict(model_type="megatron", vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=3,
                num_heads=4, n_positions=24, layer_norm_epsilon=1e-5)
CASES = {"t5_v1_0": hub("v1.0"), "t5_v1_1": hub("v1.1"), "t5_megatron": MEGATRON}
# s of 2^-s: large enough that biases of scores and positions can be seen in the loss.
SHIFTS = dict(embedding=1, position=2, head=2, input=2, query=3, output=2, gain=4, bias=4, distance=0)
SHIFTS_OF = {"t5_megatron": dict(embedding=3, query=2)}


def hub_tensors(c):
    """(name, shape, kind) of the tensors of transformers' T5."""
    C, A, F, H, V = c["d_model"], c["num_heads"] * c["d_kv"], c["d_ff"], c["num_heads"], c["vocab_size"]
    gated = c["feed_forward_proj"].startswith("gated")

    def attention(name):
        return [(f"{name}.{x}.weight", (A, C), "query" if x == "q" else "input") for x in "qkv"] \
            + [(name + ".o.weight", (C, A), "output")]

    rows = [("shared.weight", (V, C), "embedding")]
    for stack, layers in (("encoder", c["num_layers"]), ("decoder", c["num_decoder_layers"])):
        for block in range(layers):
            parts = [attention("SelfAttention")] + [attention("EncDecAttention")] * (stack == "decoder")
            if block == 0:
                parts[0].append(("SelfAttention.relative_attention_bias.weight",
                                 (c["relative_attention_num_buckets"], H), "distance"))
            inner = ("wi_0", "wi_1") if gated else ("wi",)
            parts.append([(f"DenseReluDense.{x}.weight", (F, C), "input") for x in inner]
                         + [("DenseReluDense.wo.weight", (C, F), "output")])
            for number, part in enumerate(parts):
                stem = f"{stack}.block.{block}.layer.{number}."
                rows += [(stem + name, shape, kind)
                         for name, shape, kind in [*part, ("layer_norm.weight", (C,), "gain")]]
        rows.append((stack + ".final_layer_norm.weight", (C,), "gain"))
    return rows + ([] if c["tie_word_embeddings"] else [("lm_head.weight", (V, C), "head")])


def megatron_tensors(c):
    """(name, shape, kind) of the parameters of Megatron-core's T5."""
    C, A, F, V = c["d_model"], c["num_heads"] * c["d_kv"], c["d_ff"], c["vocab_size"]

    def linear(name, out, inputs, kind):
        return [(name + ".weight", (out, inputs), kind), (name + ".bias", (out,), "bias")]

    def norm(name):
        return [(name + ".weight", (C,), "gain"), (name + ".bias", (C,), "bias")]

    rows = [("embedding.word_embeddings.weight", (V, C), "embedding"),
            ("embedding.position_embeddings.weight", (c["n_positions"], C), "position")]
    for stack, layers in (("encoder", c["num_layers"]), ("decoder", c["num_decoder_layers"])):
        for layer in range(layers):
            block = norm("input_layernorm") + linear("self_attention.linear_qkv", 3 * A, C, "input") \
                + linear("self_attention.linear_proj", C, A, "output")
            if stack == "decoder":
                block += norm("pre_cross_attn_layernorm") + linear("cross_attention.linear_q", A, C, "input") \
                    + linear("cross_attention.linear_kv", 2 * A, C, "input") \
                    + linear("cross_attention.linear_proj", C, A, "output")
            block += norm("pre_mlp_layernorm") + linear("mlp.linear_fc1", F, C, "input") \
                + linear("mlp.linear_fc2", C, F, "output")
            rows += [(f"{stack}.layers.{layer}.{name}", shape, kind) for name, shape, kind in block]
        rows += [(f"{stack}.{name}", shape, kind) for name, shape, kind in norm("final_layernorm")]
    return rows + [("output_layer.bias", (V,), "bias")]


def tensors(case):
    config = CASES[case]
    return megatron_tensors(config) if config["model_type"] == "megatron" else hub_tensors(config)


def write_model(case, folder):
    shifts = SHIFTS | SHIFTS_OF.get(case, {})
    small_model.write(folder, CASES[case],
                      ((name, shape, small_model.weights(f"{case}/{name}", shape, kind, shifts[kind]))
                       for name, shape, kind in tensors(case)))


def sample(case, n):
    """Sample n without padding: the encoder's text, input and labels of the decoder."""
    config, seed = CASES[case], fnv(case + "/tokens")

    def h(t):
        return draw(seed, n * 1024 + t)

    E, D, V = RUN["encoder_sequence_length"], RUN["sequence_length"], config["vocab_size"]
    text = [1 + h(1 + t) % (V - 1) for t in range(E - h(0) % (E // 2))]
    labels = [(text[3 * t % len(text)] + (t % 4 == 3)) % V for t in range(D - h(512) % (D // 2))]
    return dict(encoder=text, tokens=[0, *labels[:-1]], labels=labels)


def step_data(case, iteration):
    B = RUN["global_batch_size"]
    return [sample(case, (iteration - 1) * B + b) for b in range(B)]


if __name__ == "__main__":
    write_model(*sys.argv[1:])
