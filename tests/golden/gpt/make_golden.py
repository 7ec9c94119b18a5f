#!/usr/bin/env python3
"""Trains the models of hf_model.py with PyTorch and Hugging Face transformers: the golden losses.

  make_golden.py [CASE ...]    writes CASE.json beside this script (default: every case)

Needs torch, transformers and safetensors (README.md names the versions); the tests need none of it.

One step, as Megatron-LM does it, with M micro-batches of the global batch:

  loss_m   = sum(mask * CE) / sum(mask)                    over micro-batch m
  gradient = sum over m of d(loss_m)/d(weights) / M
  lm_loss  = sum(mask * CE) / sum(mask)                    over the whole global batch
  norm     = sqrt(sum of squares of all gradients), a tied weight counted once
  clip     : if c = clip_grad / (norm + 1e-6) < 1, gradient *= c
  AdamW    : w -= lr * weight_decay * w   (only weights with two dimensions or more)
             w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

The learning rate of iteration i (from 1) is lr((i - 1) * global_batch_size): the schedule starts at
0 samples and moves on after each update. So the first iteration uses lr(0) = init_lr = 0 and only
fills the moments of AdamW. With n samples, W = warm-up and D = decay, both in samples:

  lr(n) = init + (max - init) * n / W                          n <= W
          max                                                  style constant
          min                                                  n > D
          min + (max - min) * (1 - r)                          style linear, r = (n - W) / (D - W)
          min + (max - min) * (cos(pi r) + 1) / 2              style cosine

A case of precision bf16 has weights and activations in bfloat16. The gradient of each micro-batch,
bfloat16 as autograd gives it, is added to a float32 sum; norm, clip and AdamW see these sums and
float32 master weights, which begin as the stored float32 values; after each update the weights are
the masters rounded to nearest even. Norms, rotation, attention and SwiGLU compute in float32 and
round what they give, once, as fused kernels do (class Inside); logits are bfloat16, their cross
entropy is computed in float32.
"""
import argparse
import datetime
import json
import math
import os
import platform
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.nemotron import modeling_nemotron
from transformers.models.persimmon import modeling_persimmon
from transformers.models.qwen3 import modeling_qwen3

import hf_model

MODELS = dict(gpt2=transformers.GPT2LMHeadModel, llama=transformers.LlamaForCausalLM,
              qwen3=transformers.Qwen3ForCausalLM, mistral=transformers.MistralForCausalLM,
              nemotron=transformers.NemotronForCausalLM,
              persimmon=transformers.PersimmonForCausalLM)

# The parts of transformers' models whose precision class Inside decides.
PARTS = [*((module, name + part, "forward", mine)
           for module, name in ((modeling_llama, "Llama"), (modeling_mistral, "Mistral"),
                                (modeling_qwen3, "Qwen3"))
           for part, mine in (("RMSNorm", "norm"), ("RotaryEmbedding", "angles"), ("MLP", "mlp"))),
         (modeling_nemotron, "NemotronRotaryEmbedding", "forward", "angles"),
         (modeling_persimmon, "PersimmonRotaryEmbedding", "forward", "angles"),
         *((module, None, "apply_rotary_pos_emb", "rotation")
           for module in (modeling_llama, modeling_mistral, modeling_qwen3)),
         *((module, None, "eager_attention_forward", "attention")
           for module in (modeling_llama, modeling_mistral, modeling_qwen3, modeling_nemotron,
                          modeling_persimmon))]


def learning_rate(run, iteration):
    """The learning rate that the update of `iteration` (from 1) uses."""
    n = (iteration - 1) * run["global_batch_size"]
    warmup = run["lr_warmup_iterations"] * run["global_batch_size"]
    decay = run["lr_decay_iterations"] * run["global_batch_size"]
    low, high, style = run["min_lr"], run["max_lr"], run["lr_decay_style"]
    if warmup > 0 and n <= warmup:
        return run["init_lr"] + (high - run["init_lr"]) * n / warmup
    if style == "constant":
        return high
    if n > decay:
        return low
    ratio = (n - warmup) / (decay - warmup)
    coefficient = dict(linear=1 - ratio, cosine=(math.cos(math.pi * ratio) + 1) / 2)[style]
    return low + coefficient * (high - low)


class Inside:
    """While it is entered, each part of transformers' models (a norm, rotation, attention, SwiGLU)
    computes in `dtype` inside, and only what leaves it is rounded to the dtype of the weights.

    Left alone they compute some steps in float32 even when the weights are float64, and round
    several times within a part when the weights are bfloat16, which fused kernels do not.
    """

    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.saved = []
        for module, name, attribute, mine in PARTS:
            place = getattr(module, name) if name else module
            self.saved.append((place, attribute, getattr(place, attribute)))
            setattr(place, attribute, getattr(self, mine)())

    def __exit__(self, *_):
        for place, attribute, value in self.saved:
            setattr(place, attribute, value)

    def norm(self):
        def forward(module, x):
            wide = x.to(self.dtype)
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
            return (module.weight * (wide * scale)).to(x.dtype)
        return forward

    def angles(self):
        def forward(module, x, position_ids):
            config, how = module.config, module.config.rope_parameters
            if how["rope_type"] == "default":
                size = getattr(config, "head_dim", None)
                size = size or config.hidden_size // config.num_attention_heads
                size = int(size * how.get("partial_rotary_factor", 1.0))
                exponents = torch.arange(0, size, 2, dtype=self.dtype) / size
                frequencies = how["rope_theta"] ** -exponents
            else:
                frequencies = module.inv_freq.to(self.dtype)
            angles = position_ids[..., None].to(self.dtype) * frequencies
            angles = torch.cat((angles, angles), -1)
            return (angles.cos() * module.attention_scaling,
                    angles.sin() * module.attention_scaling)
        return forward

    def rotation(self):
        def forward(query, key, cos, sin):
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
            return tuple((x * cos + modeling_llama.rotate_half(x) * sin).to(x.dtype)
                         for x in (query, key))
        return forward

    def mlp(self):
        def forward(module, x):
            gate, up = (y.to(self.dtype) for y in (module.gate_proj(x), module.up_proj(x)))
            return module.down_proj((torch.nn.functional.silu(gate) * up).to(x.dtype))
        return forward

    def attention(self):
        def forward(module, query, key, value, attention_mask, scaling, **_):
            dtype, groups = value.dtype, getattr(module, "num_key_value_groups", 1)
            query, key, value = (x.to(self.dtype) for x in (query, key, value))
            key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
            scores = query @ key.transpose(2, 3) * scaling + attention_mask
            probabilities = scores.softmax(-1)
            return (probabilities @ value).transpose(1, 2).contiguous().to(dtype), probabilities
        return forward


def load(case, folder, dtype):
    """The model of a case, and a proof that every stored tensor became a weight and none is new."""
    config = hf_model.CASES[case]["config"]
    model, report = MODELS[config["model_type"]].from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    if wrong:
        sys.exit(f"make_golden.py: {case}: transformers could not load the model: {wrong}")
    names = {name for name, _ in model.named_parameters()}
    stored = {model_name(case, name) for name, _, _ in hf_model.tensors(case)}
    if names != stored:
        sys.exit(f"make_golden.py: {case}: weights differ from the file: {names ^ stored}")
    if config["model_type"] != "gpt2":
        check_rotation(case, config, model.model.rotary_emb)
    return model.train()


def check_rotation(case, config, rotary):
    """Ends the program unless the rotation is in float32 and is what config.json says."""
    how = config.get("rope_parameters") or config.get("rope_scaling") or {}
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    size = int(size * how.get("partial_rotary_factor", 1.0))
    slowest = how.get("rope_theta", config.get("rope_theta")) ** -((size - 2) / size)
    slowest /= how.get("factor", 1.0)
    taken = rotary.inv_freq[-1].item()
    if rotary.inv_freq.dtype != torch.float32 or not math.isclose(taken, slowest, rel_tol=1e-6):
        sys.exit(f"make_golden.py: {case}: the slowest rotation is {taken} in "
                 f"{rotary.inv_freq.dtype}, but config.json says {slowest}")


def model_name(case, stored_name):
    """transformers' name of a tensor: published GPT-2 files leave the prefix out."""
    bare = hf_model.CASES[case].get("prefix") == ""
    return "transformer." + stored_name if bare else stored_name


def cross_entropy(model, ids):
    """-log softmax(logits)[label] of every position: (B, T) from (B, T + 1) ids."""
    logits = model(ids[:, :-1], use_cache=False).logits
    if logits.dtype == torch.bfloat16:
        logits = logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(),
                                             reduction="none").view(ids.shape[0], -1)


class Weights:
    """What is trained: the weights of a model themselves or, in bfloat16, their masters."""

    def __init__(self, case, folder, dtype):
        self.model = load(case, folder, dtype)
        self.mixed = dtype == torch.bfloat16
        source = load(case, folder, torch.float32) if self.mixed else self.model
        self.named = dict(source.named_parameters())
        for name, p in self.model.named_parameters():
            assert torch.equal(p, self.named[name].to(dtype))

    def zero_grad(self):
        for p in self.named.values():
            p.grad = torch.zeros_like(p) if self.mixed else None

    def collect(self):
        """After the backward pass of a micro-batch; float32 gradients are summed by autograd."""
        for name, p in self.model.named_parameters() if self.mixed else ():
            self.named[name].grad += p.grad.float()
            p.grad = None

    @torch.no_grad()
    def publish(self):
        """After an update."""
        for name, p in self.model.named_parameters() if self.mixed else ():
            p.copy_(self.named[name])


def make_optimizer(weights, run):
    decayed = [p for p in weights.named.values() if p.dim() >= 2]
    others = [p for p in weights.named.values() if p.dim() < 2]
    return torch.optim.AdamW(
        [dict(params=decayed, weight_decay=run["weight_decay"]),
         dict(params=others, weight_decay=0.0)],
        betas=(run["adam_beta1"], run["adam_beta2"]), eps=run["adam_eps"], foreach=False)


def train_step(weights, optimizer, run, data, iteration):
    """One step of the rule above; returns its line of `steps` and the norm of each gradient."""
    count, size = run["global_batch_size"], run["micro_batch_size"]
    dtype = next(iter(weights.named.values())).dtype
    weights.zero_grad()
    loss_sum = token_sum = 0.0
    for first in range(0, count, size):
        ids = torch.tensor(data["tokens"][first:first + size])
        mask = torch.tensor(data["masks"][first:first + size], dtype=dtype)
        losses = cross_entropy(weights.model, ids) * mask
        (losses.sum() / mask.sum() / (count // size)).backward()
        weights.collect()
        loss_sum += losses.detach().double().sum().item()
        token_sum += mask.sum().item()
    norms = {name: p.grad.double().norm().item() for name, p in weights.named.items()}
    norm = math.sqrt(sum(value * value for value in norms.values()))
    coefficient = run["clip_grad"] / (norm + 1e-6)
    if coefficient < 1:
        for p in weights.named.values():
            p.grad.mul_(coefficient)
    rate = learning_rate(run, iteration)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    weights.publish()
    return dict(iteration=iteration, learning_rate=rate, lm_loss=loss_sum / token_sum,
                grad_norm=norm, clipped=coefficient < 1), norms


def train(case, folder, dtype):
    """All steps of a case: (lines of `steps`, gradient norms of the first step, first logits)."""
    run = hf_model.CASES[case]["training"]
    weights = Weights(case, folder, dtype)
    optimizer = make_optimizer(weights, run)
    with torch.no_grad():
        ids = torch.tensor([hf_model.tokens(case, 1, 0, 0)[:-1]])
        logits = weights.model(ids, use_cache=False).logits[0]
    steps, first_norms = [], None
    for iteration in range(1, run["steps"] + 1):
        line, norms = train_step(weights, optimizer, run,
                                 hf_model.step_data(case, iteration), iteration)
        steps.append(line)
        first_norms = first_norms or norms
    return steps, first_norms, logits


def rounded(value, digits=9):
    return float(f"{value:.{digits}g}")


def logit_lines(case, logits):
    """Some logits of the first sample under the initial weights: (position, first ids or all)."""
    last = hf_model.CASES[case]["training"]["sequence_length"] - 1
    lines = [(t, logits[t, :8]) for t in (0, 1, last // 2)] + [(last, logits[last])]
    return [dict(position=t, values=[rounded(v) for v in row.tolist()]) for t, row in lines]


def noise(steps, exact):
    """How far two runs are apart, the largest over the steps."""
    return dict(
        lm_loss=rounded(max(abs(a["lm_loss"] - b["lm_loss"]) for a, b in zip(steps, exact)), 3),
        grad_norm_relative=rounded(max(abs(a["grad_norm"] / b["grad_norm"] - 1)
                                       for a, b in zip(steps, exact)), 3))


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def listed(values):
    return "[\n" + ",\n".join("    " + compact(value) for value in values) + "\n  ]"


def golden_text(case, digest, result, distances):
    """The golden file: one fact, one step or one batch a line."""
    steps, norms, logits = result
    precision = hf_model.CASES[case].get("precision")
    certificate = dict(
        script="tests/golden/gpt/make_golden.py",
        command=f"python3 tests/golden/gpt/make_golden.py {case}",
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        python=platform.python_version(), torch=torch.__version__,
        transformers=transformers.__version__, machine=platform.machine(), threads=1,
        dtype="bfloat16" if precision else "float32", **distances)
    convention = ("iteration i (from 1) uses lr((i - 1) * global_batch_size); warm-up and decay "
                  "count samples; iteration 1 uses init_lr")
    rows = [{**step, "lm_loss": rounded(step["lm_loss"]), "grad_norm": rounded(step["grad_norm"])}
            for step in steps]
    run = hf_model.CASES[case]["training"]
    names = [(name, norms[model_name(case, name)]) for name, _, _ in hf_model.tensors(case)]
    parts = [
        ("case", compact(case)), ("certificate", compact(certificate)),
        ("model_sha256", compact(digest)), ("model", compact(hf_model.CASES[case]["config"])),
        ("training", compact(run)),
        *([("precision", compact(precision))] if precision else []),
        ("learning_rate_convention", compact(convention)),
        ("steps", listed(rows)),
        ("first_gradient_norms", listed(dict(name=n, norm=rounded(v)) for n, v in names)),
        ("first_logits", listed(logit_lines(case, logits))),
        ("data", listed(hf_model.step_data(case, i) for i in range(1, run["steps"] + 1)))]
    return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in parts) + "\n}\n"


def make(case, target):
    mixed = "precision" in hf_model.CASES[case]
    distances = {}
    with tempfile.TemporaryDirectory() as folder:
        digest = hf_model.write_model(case, folder)
        single = train(case, folder, torch.float32)
        if mixed:
            with Inside(torch.float32):
                result = train(case, folder, torch.bfloat16)
            unfused = train(case, folder, torch.bfloat16)
            for name, other in (("float32", single), ("more_roundings", unfused)):
                distances[name + "_max_difference"] = noise(result[0], other[0])
                distances[name + "_first_difference"] = noise(result[0][:1], other[0][:1])
        else:
            result = single
            with Inside(torch.float64):
                double = train(case, folder, torch.float64)
            distances["float64_max_difference"] = noise(result[0], double[0])
    text = golden_text(case, digest, result, distances)
    json.loads(text)
    target.write_text(text, encoding="utf-8")
    clipped = sum(step["clipped"] for step in result[0])
    print(f"{case}: loss {result[0][0]['lm_loss']:.4f} -> {result[0][-1]['lm_loss']:.4f}, "
          f"{clipped} of {len(result[0])} steps clipped, {distances}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    cases = parser.parse_args().cases or list(hf_model.CASES)
    unknown = set(cases) - set(hf_model.CASES)
    if unknown:
        parser.error(f"unknown cases {sorted(unknown)}; there are {list(hf_model.CASES)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.disable_progress_bar()
    for case in cases:
        make(case, Path(__file__).with_name(case + ".json"))


if __name__ == "__main__":
    main()
