#!/usr/bin/env python3
"""Writes the small Hugging Face models and token data of the golden training runs, from a formula.

  hf_model.py CASE OUTDIR    writes OUTDIR/config.json and OUTDIR/model.safetensors (float32) and
                             compares the latter with the hash in CASE.json beside this script
  hf_model.py --data CASE    prints the token ids and loss masks of all steps as JSON
  hf_model.py --list         prints the names of the cases

Needs the Python standard library only. Every number comes from one integer hash:

  fnv(text)      = FNV-1a-64 of the UTF-8 bytes of text
  draw(text, i)  = mix(fnv(text) + (i + 1) * 0x9E3779B97F4A7C15 mod 2^64), the i-th output of a
                   splitmix64 generator whose state starts at fnv(text)
  uniform(text, i) = (draw(text, i) >> 44) / 2^19 - 1, one of 2^20 even steps in [-1, 1)

Weights: element i (row-major, in the stored shape) of tensor `name` of a case is

  offset + 2^-s * uniform(CASE + "/" + name, i)      offset 1 for the gains of norms, otherwise 0;
                                                     0 for gains that are stored less one

with s by the kind of tensor (SHIFTS, or the case's own `shifts`). s of a gain is 4, so each value
needs at most 24 significant bits: it is exact in float32 and no platform can round it differently.

Tokens: the global sample n = (step - 1) * global_batch_size + micro_batch * micro_batch_size + row
has T + 1 ids; with h(t) = draw(CASE + "/tokens", n * (T + 1) + t) and N = V, but N = V // 8 in
every third step, whose few ids agree on the direction of the gradient and make it longer,

  id(0) = h(0) mod N
  id(t) = h(t) mod N             if h(t) >> 62 == 0   (one of four)
          (5 id(t-1) + 7) mod N  otherwise            (something to learn)

Inputs are id(0..T-1), labels id(1..T). The mask of label t (0..T-1) is 1, except in the cases with
masks, where it is 0 if draw(CASE + "/mask", n * T + t) mod 8 < 2 * micro_batch + 1.
"""
import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path

STEPS = 12
WORD = (1 << 64) - 1


def training(**changes):
    """The hyper-parameters of a run: the common ones with the changes of a case."""
    common = dict(steps=STEPS, sequence_length=24, micro_batch_size=2, global_batch_size=4,
                  masked=False, max_lr=2e-3, min_lr=1e-4, init_lr=0.0, lr_decay_style="cosine",
                  lr_warmup_iterations=3, lr_decay_iterations=STEPS, clip_grad=1.0,
                  adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, weight_decay=0.1)
    unknown = set(changes) - set(common) - {"loss_scale", "optimizer", "decoupled_lr", "per_token_loss", "bias_rate"}
    if unknown:
        raise KeyError(f"hf_model.py: unknown hyper-parameters {sorted(unknown)}")
    return {**common, **changes}


def gpt2(vocabulary, hidden, layers, heads, positions):
    """config.json of a GPT-2: learned positions, LayerNorm, tanh GELU, biases, tied embeddings."""
    return dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=vocabulary,
                n_positions=positions, n_ctx=positions, n_embd=hidden, n_layer=layers,
                n_head=heads, n_inner=None, activation_function="gelu_new",
                layer_norm_epsilon=1e-5, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                initializer_range=0.02, tie_word_embeddings=True, use_cache=False,
                bos_token_id=0, eos_token_id=0, torch_dtype="float32")


def llama(vocabulary, hidden, layers, heads, kv_heads, ffn, tied, rope_theta=10000.0, eps=1e-5):
    """config.json of a Llama: rotary positions, RMSNorm, SwiGLU, grouped queries, no biases."""
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=vocabulary,
                hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv_heads, hidden_act="silu",
                max_position_embeddings=64, rms_norm_eps=eps, rope_theta=rope_theta,
                rope_scaling=None, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
                initializer_range=0.02, tie_word_embeddings=tied, use_cache=False,
                bos_token_id=0, eos_token_id=0, torch_dtype="float32")


def llama_like(kind, name, **changes):
    """config.json of a model like a Llama, with `changes`."""
    shape = dict(vocabulary=128, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, tied=False)
    shape.update((key, changes.pop(key)) for key in list(changes)
                 if key in (*shape, "rope_theta", "eps"))
    return {**llama(**shape), "architectures": [name], "model_type": kind, **changes}


def qwen3(**changes):
    """config.json of a Qwen 3: a Llama with a norm for each head and an explicit head size."""
    return llama_like("qwen3", "Qwen3ForCausalLM",
                      **{**dict(head_dim=32, tied=True, use_sliding_window=False), **changes})


def mixtral(**changes):
    """config.json of a Mixtral: experts in all layers, each of the width of a feed-forward layer."""
    return llama_like("mixtral", "MixtralForCausalLM",
                      **{**dict(ffn=48, num_local_experts=8, num_experts_per_tok=2, router_jitter_noise=0.0,
                                sliding_window=None), **changes})


def qwen_moe(kind, name, **changes):
    """config.json of a Qwen with experts."""
    return llama_like(kind, name, num_experts=8, moe_intermediate_size=24, decoder_sparse_step=1,
                      use_sliding_window=False, **changes)


def olmoe():
    """config.json of an OLMoE. Without a pad token, whose embedding would have no gradient in transformers."""
    return llama_like("olmoe", "OlmoeForCausalLM", ffn=48, num_experts=8, num_experts_per_tok=2, norm_topk_prob=False,
                      clip_qkv=None, pad_token_id=None)


def deepseek(version, **changes):
    """config.json of a DeepSeek: latent attention, and experts behind a first layer without."""
    return llama_like(f"deepseek_v{version}", f"DeepseekV{version}ForCausalLM", kv_heads=4, eps=1e-6, kv_lora_rank=24,
                      qk_nope_head_dim=16, qk_rope_head_dim=8, head_dim=8, v_head_dim=12, n_routed_experts=8,
                      moe_intermediate_size=24, first_k_dense_replace=1, n_group=4, topk_group=2, **changes)


def nemotron():
    """config.json of a Nemotron: LayerNorm 1p, squared ReLU, rotation of half of each head, no biases."""
    return dict(architectures=["NemotronForCausalLM"], model_type="nemotron", vocab_size=128,
                hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=16, hidden_act="relu2", max_position_embeddings=64,
                norm_eps=1e-5, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                     partial_rotary_factor=0.5),
                initializer_range=0.02, tie_word_embeddings=False, use_cache=False,
                bos_token_id=0, eos_token_id=0, torch_dtype="float32")


def persimmon():
    """config.json of a Persimmon: LayerNorm of the whole and of each head, squared ReLU, biases."""
    return dict(architectures=["PersimmonForCausalLM"], model_type="persimmon", vocab_size=128,
                hidden_size=48, intermediate_size=112, num_hidden_layers=2, num_attention_heads=3,
                hidden_act="relu2", max_position_embeddings=64, layer_norm_eps=1e-5,
                qk_layernorm=True, hidden_dropout=0.0, attention_dropout=0.0,
                rope_parameters=dict(rope_type="default", rope_theta=25000.0,
                                     partial_rotary_factor=0.5),
                initializer_range=0.02, tie_word_embeddings=False, use_cache=False,
                bos_token_id=0, eos_token_id=0, torch_dtype="float32")


# prefix: what stands before the names of a GPT-2's tensors. Files saved from the model with its
# head have "transformer.", the published files of GPT-2 have nothing.
# shifts: a smaller embedding or head, so that the gradient is longer than clip_grad in some steps
# and shorter in others.
# optimizer: what updates in place of AdamW, and its numbers; others: what muon leaves to it.
# per_token_loss: the mean over the tokens of the step, not first over those of each micro-batch.
# decoupled_lr: the maximum of the rate of the word embedding and the output layer.
# bias_rate: the change of the bias of experts in each update.
# precision: "bf16" or "f16" for parameters and activations in bfloat16 or float16, masters and
# gradients in float32; in float16 training has a loss_scale.
#
# Stretched rotations: of the 8 pairs of channels, at base 100 and 24 original positions, Llama 3
# keeps one, mixes two and stretches five; YaRN keeps two, mixes two and stretches four.
CASES = {
    "gpt2_learned_tied": dict(
        config=gpt2(vocabulary=128, hidden=32, layers=2, heads=4, positions=24),
        prefix="transformer.", shifts=dict(embedding=4), training=training()),
    "gpt2_padded_vocab": dict(
        config=gpt2(vocabulary=211, hidden=48, layers=2, heads=2, positions=32),
        prefix="", training=training(max_lr=3e-3)),
    "gpt2_masked": dict(
        config=gpt2(vocabulary=128, hidden=32, layers=3, heads=4, positions=24),
        prefix="transformer.",
        training=training(masked=True, global_batch_size=6, lr_decay_style="linear")),
    "gpt2_per_token_loss": dict(
        config=gpt2(vocabulary=128, hidden=32, layers=2, heads=4, positions=24),
        prefix="transformer.",
        training=training(masked=True, global_batch_size=6, per_token_loss=True)),
    "llama_untied_gqa": dict(
        config=llama(vocabulary=128, hidden=64, layers=2, heads=4, kv_heads=2, ffn=128, tied=False),
        training=training()),
    "llama_tied_rope_theta": dict(
        config=llama(vocabulary=128, hidden=32, layers=3, heads=4, kv_heads=4, ffn=96, tied=True,
                     rope_theta=1000000.0, eps=1e-6),
        training=training(sequence_length=32, max_lr=1e-3, lr_decay_style="constant")),
    "llama_gqa_accumulate": dict(
        config=llama(vocabulary=256, hidden=64, layers=2, heads=8, kv_heads=2, ffn=96, tied=False),
        shifts=dict(head=5),
        training=training(sequence_length=16, global_batch_size=8, max_lr=3e-3)),
    "qwen3_tied_gqa": dict(
        config=qwen3(rope_theta=1000000.0, eps=1e-6), training=training()),
    "mistral_window": dict(
        config=llama_like("mistral", "MistralForCausalLM", sliding_window=5, head_dim=16),
        training=training()),
    "llama_rope_llama3": dict(
        config=llama_like("llama", "LlamaForCausalLM", rope_theta=100.0,
                          max_position_embeddings=192,
                          rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                            high_freq_factor=3.0,
                                            original_max_position_embeddings=24)),
        training=training(sequence_length=32)),
    "qwen3_yarn": dict(
        config=qwen3(rope_theta=100.0, head_dim=16, max_position_embeddings=96,
                     rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.5,
                                       original_max_position_embeddings=24)),
        training=training(sequence_length=32)),
    "nemotron": dict(config=nemotron(), training=training()),
    "persimmon": dict(config=persimmon(), training=training()),
    "gpt2_sgd": dict(
        config=gpt2(vocabulary=128, hidden=32, layers=2, heads=4, positions=24),
        prefix="transformer.", shifts=dict(embedding=4),
        training=training(max_lr=5e-2, min_lr=1e-3, optimizer=dict(kind="sgd", momentum=0.9))),
    "llama_lion": dict(
        config=llama(vocabulary=128, hidden=64, layers=2, heads=4, kv_heads=2, ffn=128, tied=False),
        training=training(max_lr=5e-4, optimizer=dict(kind="lion", beta1=0.95, beta2=0.98))),
    "llama_muon": dict(
        config=llama(vocabulary=128, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, tied=False),
        training=training(max_lr=2e-3, decoupled_lr=4e-3, optimizer=dict(
            kind="muon", others="adam", momentum=0.95, nesterov=False, scale="spectral", extra=0.5,
            coefficients="quintic", steps=5))),
    "gpt2_muon_lion": dict(
        config=gpt2(vocabulary=128, hidden=32, layers=2, heads=4, positions=24),
        prefix="transformer.", shifts=dict(embedding=4),
        training=training(max_lr=1e-3, optimizer=dict(
            kind="muon", others="lion", beta1=0.95, beta2=0.98, momentum=0.9, nesterov=True,
            scale="shape_scaling", extra=1.0, coefficients="simple", steps=6))),
    "mixtral": dict(config=mixtral(), training=training()),
    "qwen2_moe": dict(
        config=qwen_moe("qwen2_moe", "Qwen2MoeForCausalLM", num_experts_per_tok=2,
                        shared_expert_intermediate_size=40, norm_topk_prob=False, mlp_only_layers=[0]),
        training=training()),
    "qwen3_moe": dict(
        config=qwen_moe("qwen3_moe", "Qwen3MoeForCausalLM", num_experts_per_tok=3, head_dim=32,
                        norm_topk_prob=True, mlp_only_layers=[]),
        training=training()),
    "olmoe": dict(config=olmoe(), training=training()),
    "deepseek_v2": dict(
        config=deepseek(2, q_lora_rank=None, num_experts_per_tok=3, n_shared_experts=2,
                        routed_scaling_factor=1.5, topk_method="group_limited_greedy",
                        norm_topk_prob=False),
        training=training()),
    "deepseek_v3": dict(
        config=deepseek(3, q_lora_rank=40, num_experts_per_tok=4, n_shared_experts=1,
                        routed_scaling_factor=2.5, norm_topk_prob=True, rope_theta=100.0,
                        max_position_embeddings=96,
                        rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.5,
                                          mscale=0.8, mscale_all_dim=0.5,
                                          original_max_position_embeddings=24)),
        training=training(sequence_length=32, bias_rate=1e-2)),
    "qwen3_bf16": dict(
        config=qwen3(rope_theta=1000000.0, eps=1e-6), precision="bf16",
        training=training(sequence_length=16, global_batch_size=8, max_lr=5e-4)),
    "mixtral_bf16": dict(
        config=mixtral(num_local_experts=4, num_experts_per_tok=4), precision="bf16",
        training=training(sequence_length=16, global_batch_size=8, max_lr=5e-4)),
    "qwen3_f16": dict(
        config=qwen3(rope_theta=1000000.0, eps=1e-6), precision="f16",
        training=training(steps=14, sequence_length=14, global_batch_size=4, max_lr=5e-4,
                          loss_scale=dict(initial=2.0**20, minimum=1.0, window=3, hysteresis=2))),
}

# s of 2^-s by the kind of tensor: large enough that attention is far from even and that positions,
# rotation and biases can be seen in the loss.
SHIFTS = dict(embedding=2, position=3, head=2, input=2, output=3, gain=4, gain1p=4, bias=4, choice=3)


def fnv(text):
    """FNV-1a-64."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        value = ((value ^ byte) * 0x100000001B3) & WORD
    return value


def draw(seed, index):
    """Output number `index` (from 0) of the splitmix64 generator with state `seed`."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def tensors(case):
    """The tensors of a case in file order: a list of (name, shape, kind)."""
    config = CASES[case]["config"]
    if config["model_type"] == "gpt2":
        return gpt2_tensors(config, CASES[case]["prefix"])
    if config["model_type"] == "persimmon":
        return persimmon_tensors(config)
    return llama_tensors(config)


def gpt2_tensors(config, prefix):
    """GPT-2 keeps its products as (inputs, outputs); c_attn is [query | key | value]."""
    C, V, T = config["n_embd"], config["vocab_size"], config["n_positions"]
    rows = [("wte.weight", (V, C), "embedding"), ("wpe.weight", (T, C), "position")]
    for layer in range(config["n_layer"]):
        block = [("ln_1.weight", (C,), "gain"), ("ln_1.bias", (C,), "bias"),
                 ("attn.c_attn.weight", (C, 3 * C), "input"),
                 ("attn.c_attn.bias", (3 * C,), "bias"),
                 ("attn.c_proj.weight", (C, C), "output"), ("attn.c_proj.bias", (C,), "bias"),
                 ("ln_2.weight", (C,), "gain"), ("ln_2.bias", (C,), "bias"),
                 ("mlp.c_fc.weight", (C, 4 * C), "input"), ("mlp.c_fc.bias", (4 * C,), "bias"),
                 ("mlp.c_proj.weight", (4 * C, C), "output"), ("mlp.c_proj.bias", (C,), "bias")]
        rows += [(f"h.{layer}.{name}", shape, kind) for name, shape, kind in block]
    rows += [("ln_f.weight", (C,), "gain"), ("ln_f.bias", (C,), "bias")]
    return [(prefix + name, shape, kind) for name, shape, kind in rows]


def gated(name, width, ffn, parts=("gate_proj", "up_proj", "down_proj")):
    """The products of a gated feed-forward layer."""
    gate, up, down = (f"{name}.{part}.weight" for part in parts)
    return [(gate, (ffn, width), "input"), (up, (ffn, width), "input"), (down, (width, ffn), "output")]


def feed_forward_tensors(config, layer):
    """The feed-forward layer of a Llama, or its experts."""
    C, kind = config["hidden_size"], config["model_type"]
    E = next((config[x] for x in ("num_local_experts", "num_experts", "n_routed_experts") if x in config), 0)
    dense = layer < config.get("first_k_dense_replace", 0) or layer in config.get("mlp_only_layers", [])
    if E == 0 or dense:
        return gated("mlp", C, config["intermediate_size"])
    name = "block_sparse_moe" if kind == "mixtral" else "mlp"
    ffn = config.get("moe_intermediate_size", config["intermediate_size"])
    rows = [(name + ".gate.weight", (E, C), "input")]
    if kind == "deepseek_v3":
        rows.append((name + ".gate.e_score_correction_bias", (E,), "choice"))
    for e in range(E):
        rows += gated(f"{name}.experts.{e}", C, ffn, *([("w1", "w3", "w2")] if kind == "mixtral" else []))
    if kind == "qwen2_moe":
        rows += gated("mlp.shared_expert", C, config["shared_expert_intermediate_size"])
        rows.append(("mlp.shared_expert_gate.weight", (1, C), "input"))
    if "n_shared_experts" in config:
        rows += gated("mlp.shared_experts", C, config["n_shared_experts"] * ffn)
    return rows


def latent_tensors(config):
    """The attention of a DeepSeek."""
    C, H = config["hidden_size"], config["num_attention_heads"]
    own, rotated, value = (config[x] for x in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    rank, q_rank = config["kv_lora_rank"], config["q_lora_rank"]
    queries = [("q_proj", (H * (own + rotated), C), "input")]
    if q_rank:
        queries = [("q_a_proj", (q_rank, C), "input"), ("q_a_layernorm", (q_rank,), "gain"),
                   ("q_b_proj", (H * (own + rotated), q_rank), "input")]
    rows = [*queries, ("kv_a_proj_with_mqa", (rank + rotated, C), "input"),
            ("kv_a_layernorm", (rank,), "gain"), ("kv_b_proj", (H * (own + value), rank), "input"),
            ("o_proj", (C, H * value), "output")]
    return [(f"self_attn.{name}.weight", shape, kind) for name, shape, kind in rows]


def llama_tensors(config):
    """Llama and models like it keep their products as (outputs, inputs)."""
    C, V = config["hidden_size"], config["vocab_size"]
    D = config.get("head_dim", C // config["num_attention_heads"])
    Q, G = D * config["num_attention_heads"], D * config["num_key_value_heads"]
    kind = config["model_type"]
    normed = (Q, G) if kind == "olmoe" else (D, D) if kind.startswith("qwen3") else ()
    nemotron_like = kind == "nemotron"
    biases = [(f"self_attn.{x}_proj.bias", (n,), "bias") for x, n in (("q", Q), ("k", G), ("v", G))
              if config["model_type"] == "qwen2_moe"]

    def norm(name):
        if nemotron_like:
            return [(name + ".weight", (C,), "gain1p"), (name + ".bias", (C,), "bias")]
        return [(name + ".weight", (C,), "gain")]

    attention = [("self_attn.q_proj.weight", (Q, C), "input"),
                 ("self_attn.k_proj.weight", (G, C), "input"),
                 ("self_attn.v_proj.weight", (G, C), "input"), *biases,
                 ("self_attn.o_proj.weight", (C, Q), "output"),
                 *[(f"self_attn.{x}_norm.weight", (size,), "gain") for x, size in zip("qk", normed)]]
    if "kv_lora_rank" in config:
        attention = latent_tensors(config)
    rows = [("model.embed_tokens.weight", (V, C), "embedding")]
    for layer in range(config["num_hidden_layers"]):
        feed_forward = feed_forward_tensors(config, layer)
        if nemotron_like:
            feed_forward = feed_forward[1:]  # without a gate
        block = [*norm("input_layernorm"), *attention, *norm("post_attention_layernorm"), *feed_forward]
        rows += [(f"model.layers.{layer}.{name}", shape, kind) for name, shape, kind in block]
    rows += norm("model.norm")
    if not config["tie_word_embeddings"]:
        rows.append(("lm_head.weight", (V, C), "head"))
    return rows


def persimmon_tensors(config):
    """Persimmon keeps [query key value] of each head together, as Megatron-LM does."""
    C, V, F = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    D = C // config["num_attention_heads"]

    def norm(name, size):
        return [(name + ".weight", (size,), "gain"), (name + ".bias", (size,), "bias")]

    def linear(name, out, columns, kind):
        return [(name + ".weight", (out, columns), kind), (name + ".bias", (out,), "bias")]

    rows = [("model.embed_tokens.weight", (V, C), "embedding")]
    for layer in range(config["num_hidden_layers"]):
        block = (norm("input_layernorm", C)
                 + linear("self_attn.query_key_value", 3 * C, C, "input")
                 + norm("self_attn.q_layernorm", D) + norm("self_attn.k_layernorm", D)
                 + linear("self_attn.dense", C, C, "output") + norm("post_attention_layernorm", C)
                 + linear("mlp.dense_h_to_4h", F, C, "input")
                 + linear("mlp.dense_4h_to_h", C, F, "output"))
        rows += [(f"model.layers.{layer}.{name}", shape, kind) for name, shape, kind in block]
    return rows + norm("model.final_layernorm", C) + [("lm_head.weight", (V, C), "head")]


def weights(case, name, shape, kind):
    """The little-endian float32 bytes of one tensor: offset + 2^-s * uniform."""
    seed = fnv(f"{case}/{name}")
    offset = 1.0 if kind == "gain" else 0.0
    step = 2.0 ** -(19 + CASES[case].get("shifts", {}).get(kind, SHIFTS[kind]))
    count = 1
    for extent in shape:
        count *= extent
    values = (offset + ((draw(seed, i) >> 44) - (1 << 19)) * step for i in range(count))
    return struct.pack(f"<{count}f", *values)


def model_bytes(case):
    """The whole model.safetensors: length of the header, header (JSON), then all elements."""
    header, body, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape, kind in tensors(case):
        data = weights(case, name, shape, kind)
        header[name] = dict(dtype="F32", shape=list(shape),
                            data_offsets=[offset, offset + len(data)])
        body.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(body)


def tokens(case, step, micro_batch, row):
    """The T + 1 ids of one sample; steps count from 1, micro-batches and rows from 0."""
    run, V = CASES[case]["training"], CASES[case]["config"]["vocab_size"]
    N = V // 8 if step % 3 == 0 else V
    T, seed = run["sequence_length"], fnv(f"{case}/tokens")
    first = sample(run, step, micro_batch, row) * (T + 1)
    ids = []
    for t in range(T + 1):
        h = draw(seed, first + t)
        ids.append(h % N if t == 0 or h >> 62 == 0 else (5 * ids[-1] + 7) % N)
    return ids


def mask(case, step, micro_batch, row):
    """The T weights (0 or 1) of one sample's labels in the loss."""
    run = CASES[case]["training"]
    T, seed = run["sequence_length"], fnv(f"{case}/mask")
    if not run["masked"]:
        return [1] * T
    first = sample(run, step, micro_batch, row) * T
    return [0 if draw(seed, first + t) % 8 < 2 * micro_batch + 1 else 1 for t in range(T)]


def sample(run, step, micro_batch, row):
    """The position of a sample in the endless data of a case."""
    return (step - 1) * run["global_batch_size"] + micro_batch * run["micro_batch_size"] + row


def step_data(case, step):
    """One step's global batch: tokens (B, T + 1) and masks (B, T), in order of micro-batches."""
    run = CASES[case]["training"]
    places = [(m, r) for m in range(run["global_batch_size"] // run["micro_batch_size"])
              for r in range(run["micro_batch_size"])]
    return dict(step=step, tokens=[tokens(case, step, m, r) for m, r in places],
                masks=[mask(case, step, m, r) for m, r in places])


def write_model(case, folder):
    """Writes config.json and model.safetensors; returns the SHA-256 of the latter."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = model_bytes(case)
    (folder / "config.json").write_text(json.dumps(CASES[case]["config"], indent=2) + "\n",
                                        encoding="utf-8")
    (folder / "model.safetensors").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="?", choices=sorted(CASES), metavar="CASE")
    parser.add_argument("folder", nargs="?", metavar="OUTDIR")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--data", choices=sorted(CASES), metavar="CASE",
                        help="print the token ids and loss masks of all steps as JSON")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
    elif options.data:
        lines = [json.dumps(step_data(options.data, step), separators=(",", ":"))
                 for step in range(1, STEPS + 1)]
        print("[\n" + ",\n".join(lines) + "\n]")
    elif options.folder:
        digest = write_model(options.case, options.folder)
        golden = Path(__file__).with_name(options.case + ".json")
        expected = json.loads(golden.read_text(encoding="utf-8"))["model_sha256"]
        if digest != expected:
            sys.exit(f"hf_model.py: {options.case}: model.safetensors has SHA-256 {digest}, but "
                     f"{golden} was made with {expected}; undo the change of the formula or run "
                     f"make_golden.py")
        print(f"{options.folder}: {options.case}, SHA-256 {digest}")
    else:
        parser.error("give CASE OUTDIR, --data CASE or --list")


if __name__ == "__main__":
    main()
