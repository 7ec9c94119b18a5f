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

import hf_model

MODELS = dict(gpt2=transformers.GPT2LMHeadModel, llama=transformers.LlamaForCausalLM)


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


class DoubleLlama:
    """While it is entered, transformers' Llama computes every part in the dtype of its weights.

    Left alone it computes norms, rotation and softmax in float32 even when the weights are float64.
    """

    def __enter__(self):
        norm, rotary = modeling_llama.LlamaRMSNorm, modeling_llama.LlamaRotaryEmbedding
        self.saved = norm.forward, rotary.forward, modeling_llama.eager_attention_forward
        norm.forward, rotary.forward = self.norm, self.rotary
        modeling_llama.eager_attention_forward = self.attention

    def __exit__(self, *_):
        norm, rotary = modeling_llama.LlamaRMSNorm, modeling_llama.LlamaRotaryEmbedding
        norm.forward, rotary.forward, modeling_llama.eager_attention_forward = self.saved

    @staticmethod
    def norm(module, x):
        return module.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)
                                               + module.variance_epsilon)

    @staticmethod
    def rotary(module, x, position_ids):
        config = module.config
        size = config.hidden_size // config.num_attention_heads
        exponents = torch.arange(0, size, 2, dtype=x.dtype) / size
        frequencies = config.rope_parameters["rope_theta"] ** -exponents
        angles = position_ids[..., None].to(x.dtype) * frequencies
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()

    @staticmethod
    def attention(module, query, key, value, attention_mask, scaling, **_):
        groups = module.num_key_value_groups
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
        scores = query @ key.transpose(2, 3) * scaling + attention_mask
        probabilities = scores.softmax(-1)
        return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


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
    if config["model_type"] == "llama":
        size = config["hidden_size"] // config["num_attention_heads"]
        slowest = config["rope_theta"] ** -((size - 2) / size)
        if not math.isclose(model.model.rotary_emb.inv_freq[-1].item(), slowest, rel_tol=1e-6):
            sys.exit(f"make_golden.py: {case}: rope_theta was not taken from config.json")
    return model.train()


def model_name(case, stored_name):
    """transformers' name of a tensor: published GPT-2 files leave the prefix out."""
    bare = hf_model.CASES[case].get("prefix") == ""
    return "transformer." + stored_name if bare else stored_name


def cross_entropy(model, ids):
    """-log softmax(logits)[label] of every position: (B, T) from (B, T + 1) ids."""
    logits = model(ids[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(),
                                             reduction="none").view(ids.shape[0], -1)


def make_optimizer(model, run):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [dict(params=decayed, weight_decay=run["weight_decay"]),
         dict(params=others, weight_decay=0.0)],
        betas=(run["adam_beta1"], run["adam_beta2"]), eps=run["adam_eps"], foreach=False)


def train_step(model, optimizer, run, data, iteration):
    """One step of the rule above; returns its line of `steps` and the norm of each gradient."""
    count, size = run["global_batch_size"], run["micro_batch_size"]
    dtype = next(model.parameters()).dtype
    optimizer.zero_grad()
    loss_sum = token_sum = 0.0
    for first in range(0, count, size):
        ids = torch.tensor(data["tokens"][first:first + size])
        mask = torch.tensor(data["masks"][first:first + size], dtype=dtype)
        losses = cross_entropy(model, ids) * mask
        (losses.sum() / mask.sum() / (count // size)).backward()
        loss_sum += losses.detach().double().sum().item()
        token_sum += mask.sum().item()
    norms = {name: p.grad.double().norm().item() for name, p in model.named_parameters()}
    norm = math.sqrt(sum(value * value for value in norms.values()))
    coefficient = run["clip_grad"] / (norm + 1e-6)
    if coefficient < 1:
        for p in model.parameters():
            p.grad.mul_(coefficient)
    rate = learning_rate(run, iteration)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return dict(iteration=iteration, learning_rate=rate, lm_loss=loss_sum / token_sum,
                grad_norm=norm, clipped=coefficient < 1), norms


def train(case, folder, dtype):
    """All steps of a case: (lines of `steps`, gradient norms of the first step, first logits)."""
    run = hf_model.CASES[case]["training"]
    model = load(case, folder, dtype)
    optimizer = make_optimizer(model, run)
    with torch.no_grad():
        ids = torch.tensor([hf_model.tokens(case, 1, 0, 0)[:-1]])
        logits = model(ids, use_cache=False).logits[0]
    steps, first_norms = [], None
    for iteration in range(1, run["steps"] + 1):
        line, norms = train_step(model, optimizer, run, hf_model.step_data(case, iteration),
                                 iteration)
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
    """How far float32 is from float64, the largest over the steps."""
    return dict(
        lm_loss=rounded(max(abs(a["lm_loss"] - b["lm_loss"]) for a, b in zip(steps, exact)), 3),
        grad_norm_relative=rounded(max(abs(a["grad_norm"] / b["grad_norm"] - 1)
                                       for a, b in zip(steps, exact)), 3))


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def listed(values):
    return "[\n" + ",\n".join("    " + compact(value) for value in values) + "\n  ]"


def golden_text(case, digest, single, double):
    """The golden file: one fact, one step or one batch a line."""
    steps, norms, logits = single
    certificate = dict(
        script="tests/golden/gpt/make_golden.py",
        command=f"python3 tests/golden/gpt/make_golden.py {case}",
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        python=platform.python_version(), torch=torch.__version__,
        transformers=transformers.__version__, machine=platform.machine(), threads=1,
        dtype="float32", float64_max_difference=noise(steps, double[0]))
    convention = ("iteration i (from 1) uses lr((i - 1) * global_batch_size); warm-up and decay "
                  "count samples; iteration 1 uses init_lr")
    rows = [{**step, "lm_loss": rounded(step["lm_loss"]), "grad_norm": rounded(step["grad_norm"])}
            for step in steps]
    run = hf_model.CASES[case]["training"]
    names = [(name, norms[model_name(case, name)]) for name, _, _ in hf_model.tensors(case)]
    parts = [
        ("case", compact(case)), ("certificate", compact(certificate)),
        ("model_sha256", compact(digest)), ("model", compact(hf_model.CASES[case]["config"])),
        ("training", compact(run)), ("learning_rate_convention", compact(convention)),
        ("steps", listed(rows)),
        ("first_gradient_norms", listed(dict(name=n, norm=rounded(v)) for n, v in names)),
        ("first_logits", listed(logit_lines(case, logits))),
        ("data", listed(hf_model.step_data(case, i) for i in range(1, run["steps"] + 1)))]
    return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in parts) + "\n}\n"


def make(case, target):
    with tempfile.TemporaryDirectory() as folder:
        digest = hf_model.write_model(case, folder)
        single = train(case, folder, torch.float32)
        with DoubleLlama():
            double = train(case, folder, torch.float64)
    text = golden_text(case, digest, single, double)
    json.loads(text)
    target.write_text(text, encoding="utf-8")
    clipped = sum(step["clipped"] for step in single[0])
    print(f"{case}: loss {single[0][0]['lm_loss']:.4f} -> {single[0][-1]['lm_loss']:.4f}, "
          f"{clipped} of {len(single[0])} steps clipped, float64 {noise(single[0], double[0])}")


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
