#!/usr/bin/env python3
"""Compares GGUF files that Troupe writes and reads with the packages gguf and transformers, on small random models.

    check_gguf.py PROGRAM [KIND ...]     # needs torch, transformers, gguf, numpy and safetensors

For each kind, transformers makes a model. All logits are compared with that model's:

  written        the program imports the folder, writes GGUF and reads it
  read by both   the same logits by the program and by transformers, for the kinds that it knows, also quantised
  foreign        the package gguf writes the file, with its own table of names and llama.cpp's order of rotary pairs
  NAME: bytes    the package reads the type; errors are those of its numbers to the weights
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf import quants
from safetensors.torch import load_file

TOLERANCE = 1e-5  # of the largest logit
SMALL = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
             head_dim=32, vocab_size=160, max_position_embeddings=256, rope_theta=10000.0, tie_word_embeddings=False,
             initializer_range=0.08)
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256)
SCALED = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, rope_theta=10000.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)
# kind: model_type, fields, and whether transformers reads its GGUF. It ignores scaled positions, widths of experts
# and sizes of a GPT-2.
KINDS = {
    "llama": ("llama", SMALL, True),
    "llama-tied": ("llama", SMALL | dict(tie_word_embeddings=True), True),
    "llama-3.1": ("llama", SMALL | dict(rope_parameters=SCALED), False),
    "llama-yarn": ("llama", SMALL | dict(rope_parameters=YARN), False),
    "mixtral": ("mixtral", SMALL | dict(num_local_experts=8, num_experts_per_tok=2), False),
    "qwen2": ("qwen2", SMALL, True),
    "qwen3": ("qwen3", SMALL | dict(head_dim=128), True),  # transformers assumes 128
    "qwen2moe": ("qwen2_moe", SMALL | EXPERTS | dict(shared_expert_intermediate_size=256, norm_topk_prob=False), False),
    "qwen3moe": ("qwen3_moe", SMALL | EXPERTS | dict(norm_topk_prob=True, head_dim=128, moe_intermediate_size=768),
                 True),
    "olmoe": ("olmoe", SMALL | dict(num_experts=8, num_experts_per_tok=2, norm_topk_prob=False), False),
    "gpt2": ("gpt2", dict(n_embd=256, n_layer=3, n_head=8, n_positions=256, vocab_size=160, initializer_range=0.08),
             False),
}


def make_model(kind):
    model_type, fields, _ = KINDS[kind]
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(model_type, **fields, bos_token_id=0, eos_token_id=1, pad_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    for name, x in model.named_parameters():
        if x.ndim == 1:  # norms and biases that count
            torch.nn.init.normal_(x, 1.0 if "norm" in name or "ln_" in name else 0.0, 0.1)
    return model


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def write_foreign(model, kind, path):
    """Follows llama.cpp's convert_hf_to_gguf.py in names, order and metadata."""
    config = model.config
    arch = {"mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}.get(config.model_type,
                                                                                      config.model_type)
    member = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    out = gguf.GGUFWriter(path, arch)
    names = gguf.get_tensor_name_map(member, config.num_hidden_layers)
    out.add_block_count(config.num_hidden_layers)
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_head_count(config.num_attention_heads)
    if arch == "gpt2":
        out.add_feed_forward_length(4 * config.hidden_size)
        out.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        out.add_feed_forward_length(config.intermediate_size)
        out.add_head_count_kv(config.num_key_value_heads)
        out.add_layer_norm_rms_eps(config.rms_norm_eps)
        out.add_rope_freq_base(config.rope_parameters["rope_theta"])
        if arch == "llama":
            out.add_rope_dimension_count(32)
        if arch != "olmoe":
            size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            out.add_key_length(size)
            out.add_value_length(size)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "yarn":
        out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        out.add_rope_scaling_factor(rope["factor"])
        out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        out.add_expert_count(experts)
        out.add_expert_used_count(config.num_experts_per_tok)
    if "moe" in config.model_type and arch != "olmoe":
        out.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type == "qwen2_moe":
        out.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    if rope.get("rope_type") == "llama3":
        frequencies = 1.0 / (rope["rope_theta"] ** (np.arange(0, 32, 2, dtype=np.float32) / 32))
        out.add_tensor("rope_freqs.weight", scaled_factors(frequencies, rope))
    for name, x in foreign_tensors(model).items():
        x = x.numpy()
        if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            x = x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            x = x.T
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise SystemExit(f"{kind}: the package gguf has no name for {name}")
        out.add_tensor(known, np.ascontiguousarray(x).squeeze())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def scaled_factors(frequencies, rope):
    factors = []
    low, high = (rope["original_max_position_embeddings"] / rope[f"{x}_freq_factor"] for x in ("low", "high"))
    for frequency in frequencies:
        length = 2 * np.pi / frequency
        if length < high:
            factors.append(1)
        elif length > low:
            factors.append(rope["factor"])
        else:
            share = ((rope["original_max_position_embeddings"] / length - rope["low_freq_factor"])
                     / (rope["high_freq_factor"] - rope["low_freq_factor"]))
            factors.append(1 / ((1 - share) / rope["factor"] + share))
    return np.array(factors, dtype=np.float32)


def foreign_tensors(model):
    """The tensors by the names of published files, with the experts of a layer in one tensor."""
    out = {}
    for name, x in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        if name.endswith("experts.gate_up_proj"):
            gate, up = x.chunk(2, dim=1)
            out[name.replace("gate_up_proj", "gate_proj.weight")] = gate
            out[name.replace("gate_up_proj", "up_proj.weight")] = up
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = x
        else:
            out[name] = x
    return out


def check(program, kind, folder):
    def troupe(*what):
        done = subprocess.run([program, *map(str, what)], check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{kind}: {' '.join(map(str, what))}: {done.stderr}")

    def ours(load, name):
        troupe("eval", "--load", load, "--input", folder / "ids.txt", "--logits", folder / name)
        return load_file(folder / name)

    def difference(got, what, judge=None):
        expected = logits_of(judge or model, got["tokens"].tolist())
        got = got["logits"]
        share = ((got - expected).abs().max() / expected.abs().max()).item()
        print(f"{kind}: {what}: logits differ by {share:.1e} of the largest", flush=True)
        return share

    model = make_model(kind)
    ids = np.random.default_rng(2).integers(0, 160, 200).tolist()
    (folder / "ids.txt").write_text(" ".join(map(str, ids)), encoding="utf-8")
    model.save_pretrained(folder / "hf")
    troupe("checkpoint", "import", "--hf", folder / "hf", "--save", folder / "run")
    for name in ("float32", "bfloat16", "q8_0", "q4_k", "q4_0"):
        troupe("checkpoint", "export", folder / "run", "--gguf", folder / f"{name}.gguf", "--dtype", name)
    good = difference(ours(folder / "float32.gguf", "a.safetensors"), "written") <= TOLERANCE
    for name in ("float32", "q8_0", "q4_k", "q4_0") if KINDS[kind][2] else ():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=f"{name}.gguf", dtype=torch.float32, attn_implementation="eager").eval()
        got = ours(folder / f"{name}.gguf", "c.safetensors")
        good = difference(got, f"{name}, read by both", theirs) <= TOLERANCE and good
    write_foreign(model, kind, folder / "foreign.gguf")
    good = difference(ours(folder / "foreign.gguf", "b.safetensors"), "foreign") <= TOLERANCE and good
    troupe("checkpoint", "import", "--gguf", folder / "foreign.gguf", "--save", folder / "run2")
    troupe("checkpoint", "export", folder / "run2", "--gguf", folder / "again.gguf")
    exact = {x.name: x.data for x in gguf.GGUFReader(folder / "float32.gguf").tensors}
    again = {x.name: x.data for x in gguf.GGUFReader(folder / "again.gguf").tensors}
    same = exact.keys() == again.keys() and all(np.array_equal(x, again[name]) for name, x in exact.items())
    print(f"{kind}: {len(exact)} tensors of the foreign file, imported and written: {'equal' if same else 'DIFFERENT'}")
    for name in ("bfloat16", "q8_0", "q4_k", "q4_0"):
        error, size = 0.0, 0.0
        for x in gguf.GGUFReader(folder / f"{name}.gguf").tensors:
            read = quants.dequantize(x.data, x.tensor_type).reshape(exact[x.name].shape)
            if exact[x.name].ndim > 1 and "position" not in x.name and "gate_inp" not in x.name:
                error += float(((read - exact[x.name]) ** 2).sum())
                size += float((exact[x.name] ** 2).sum())
        bytes_of = (folder / f"{name}.gguf").stat().st_size
        print(f"{kind}: {name}: {bytes_of} bytes, weights differ by {(error / size) ** 0.5:.4f} (root of the share)")
    return good and same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    args = parser.parse_args()
    good = True
    for kind in args.kinds:
        with tempfile.TemporaryDirectory() as folder:
            good = check(args.program, kind, Path(folder)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
