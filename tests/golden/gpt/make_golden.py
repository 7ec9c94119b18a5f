#!/usr/bin/env python3
"""Makes the golden losses: trains the models of hf_model.py with PyTorch and Hugging Face transformers.

  make_golden.py [CASE ...]    writes CASE.json beside this script (default: every case)

Needs torch, transformers and safetensors (README.md names the versions); the tests need none of it.

A step of Megatron-LM with M micro-batches of the global batch:

  loss_m   = sum(mask * CE) / sum(mask)                    over micro-batch m; with a loss per token
             M * sum(mask * CE) / S                        S: sum(mask) over the whole global batch
  gradient = sum over m of d(loss_m)/d(weights) / M
  lm_loss  = sum(mask * CE) / sum(mask)                    over the whole global batch
  norm     = sqrt(sum of squares of all gradients), a tied weight counted once
  clip     : if c = clip_grad / (norm + 1e-6) < 1, gradient *= c
  AdamW    : w -= lr * weight_decay * w   (only weights with two dimensions or more)
             w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps); others: updates.py

The learning rate of iteration i (from 1) is lr((i - 1) * global_batch_size): the schedule starts at
0 samples and moves on after each update. So the first iteration uses lr(0) = init_lr = 0 and only
fills the moments of AdamW. With n samples, W = warm-up and D = decay, both in samples:

  lr(n) = init + (max - init) * n / W                          n <= W
          max                                                  style constant
          min                                                  n > D
          min + (max - min) * (1 - r)                          style linear, r = (n - W) / (D - W)
          min + (max - min) * (cos(pi r) + 1) / 2              style cosine

The bias of experts of a DeepSeek-V3 changes after each update by bias_rate * sign(mean - count), with the
rows that chose an expert in this step. It has no gradient.

Cases of precision bf16 or f16 have weights and activations in bfloat16 or float16. Autograd's gradient of
each micro-batch, in that type, is added to a float32 sum. Norm, clipping and AdamW use these sums and
float32 master weights, which start as the stored float32 values. After each update the weights are the
masters rounded to nearest even. Norms, rotation, attention and SwiGLU compute in float32 and round their
results once, like fused kernels (class Inside). A router has float32 weights, logits and weights of rows.
Experts multiply their activation by the weight of the row, and round once; so does the sum of the chosen
experts. Logits have the narrow type; their cross entropy is
computed in float32. In float16 products and embeddings also compute in float32, and gradients of weights
are not rounded, like accumulation in float32, so they do not overflow.

In float16 each loss_m is multiplied by a scale S before its backward pass, and the sums of gradients are
divided by it. A step with a non-finite gradient is skipped: weights, moments, the number of updates and the
schedule's samples stay, and the next step uses the next data. S changes after each step as in class Scale,
which is Megatron-LM's DynamicGradScaler.
"""
import argparse
import datetime
import json
import math
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.mixtral import modeling_mixtral
from transformers.models.nemotron import modeling_nemotron
from transformers.models.olmoe import modeling_olmoe
from transformers.models.persimmon import modeling_persimmon
from transformers.models.qwen2_moe import modeling_qwen2_moe
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3_moe import modeling_qwen3_moe

import hf_model
from updates import make_optimizer

MODELS = dict(gpt2=transformers.GPT2LMHeadModel, llama=transformers.LlamaForCausalLM,
              qwen3=transformers.Qwen3ForCausalLM, mistral=transformers.MistralForCausalLM,
              nemotron=transformers.NemotronForCausalLM,
              persimmon=transformers.PersimmonForCausalLM, mixtral=transformers.MixtralForCausalLM,
              qwen2_moe=transformers.Qwen2MoeForCausalLM, qwen3_moe=transformers.Qwen3MoeForCausalLM,
              olmoe=transformers.OlmoeForCausalLM, deepseek_v2=transformers.DeepseekV2ForCausalLM,
              deepseek_v3=transformers.DeepseekV3ForCausalLM)

# Modules of models with experts, with the beginning of the names of their parts.
WITH_EXPERTS = ((modeling_mixtral, "Mixtral"), (modeling_qwen2_moe, "Qwen2Moe"),
                (modeling_qwen3_moe, "Qwen3Moe"), (modeling_olmoe, "Olmoe"), (modeling_deepseek_v3, "DeepseekV3"))

# The parts of transformers' models with a precision that class Inside decides. The rotation of a DeepSeek-V2, and
# routers of all but a Mixtral, stay in float32.
PARTS = [(modeling_mixtral, "MixtralTopKRouter", "forward", "router"),
         (modeling_mixtral, "MixtralExperts", "forward", "experts"),
         *((module, name + part, "forward", mine) for module, name in WITH_EXPERTS
           for part, mine in (("RMSNorm", "norm"), ("RotaryEmbedding", "angles"))),
         (modeling_deepseek_v2, "DeepseekV2RMSNorm", "forward", "norm"),
         *((module, None, "eager_attention_forward", "attention")
           for module in (*(x for x, _ in WITH_EXPERTS), modeling_deepseek_v2)),
         *((module, None, "apply_rotary_pos_emb", "rotation")
           for module in (modeling_mixtral, modeling_qwen2_moe, modeling_qwen3_moe, modeling_olmoe)),
         *((module, name + part, "forward", mine)
           for module, name in ((modeling_llama, "Llama"), (modeling_mistral, "Mistral"),
                                (modeling_qwen3, "Qwen3"))
           for part, mine in (("RMSNorm", "norm"), ("RotaryEmbedding", "angles"), ("MLP", "mlp"))),
         (torch.nn, "Linear", "forward", "linear"), (torch.nn, "Embedding", "forward", "embedding"),
         (modeling_nemotron, "NemotronRotaryEmbedding", "forward", "angles"),
         (modeling_persimmon, "PersimmonRotaryEmbedding", "forward", "angles"),
         *((module, None, "apply_rotary_pos_emb", "rotation")
           for module in (modeling_llama, modeling_mistral, modeling_qwen3)),
         *((module, None, "eager_attention_forward", "attention")
           for module in (modeling_llama, modeling_mistral, modeling_qwen3, modeling_nemotron,
                          modeling_persimmon))]


def learning_rate(run, updates):
    """The learning rate of an update, by the number of earlier updates."""
    n = updates * run["global_batch_size"]
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


def weight_of(module):
    """A module's weight. With a master: the rounded value, with the unrounded gradient."""
    if not hasattr(module, "master"):
        return module.weight
    return module.master + (module.weight.float() - module.master).detach()


class Inside:
    """A context in which parts of transformers' models (norm, rotation, attention, SwiGLU) compute in `dtype` and
    round only their results to the dtype of the weights.

    By default some parts compute in float32 even with float64 weights. With bfloat16 weights they round several
    times within a part, unlike fused kernels.
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
            return (weight_of(module) * (wide * scale)).to(x.dtype)
        return forward

    def linear(self):
        def forward(module, x):
            wide = x.to(self.dtype) if hasattr(module, "master") else x
            return torch.nn.functional.linear(wide, weight_of(module), module.bias).to(x.dtype)
        return forward

    def embedding(self):
        def forward(module, ids):
            return torch.nn.functional.embedding(ids, weight_of(module)).to(module.weight.dtype)
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

    def router(self):
        def forward(module, x):
            x = x.reshape(-1, module.hidden_dim).to(self.dtype)
            logits = torch.nn.functional.linear(x, module.weight.to(self.dtype))
            weights, chosen = torch.topk(logits.softmax(-1), module.top_k)
            return logits, weights / weights.sum(-1, keepdim=True), chosen
        return forward

    def experts(self):
        def forward(module, x, chosen, weights):
            out = torch.zeros_like(x, dtype=self.dtype)
            for expert in range(module.num_experts):
                row, place = torch.where(chosen == expert)
                product = torch.nn.functional.linear(x[row], module.gate_up_proj[expert])
                gate, up = product.to(self.dtype).chunk(2, -1)
                inner = torch.nn.functional.silu(gate) * up * weights[row, place, None]
                product = torch.nn.functional.linear(inner.to(x.dtype), module.down_proj[expert])
                out = out.index_add(0, row, product.to(self.dtype))
            return out.to(x.dtype)
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
    """Loads the model of a case; checks that each stored tensor became a weight and that none is new."""
    config = hf_model.CASES[case]["config"]
    model, report = MODELS[config["model_type"]].from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    if wrong:
        sys.exit(f"make_golden.py: {case}: transformers could not load the model: {wrong}")
    names = {name for name, _ in model.named_parameters()}
    stored = {model_name(case, name) for name, _, kind in hf_model.tensors(case) if kind != "choice"}
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
    """transformers' name of a tensor: published GPT-2 files leave the prefix out, and experts are stacked."""
    bare = hf_model.CASES[case].get("prefix") == ""
    stored_name = stored_name.replace(".block_sparse_moe.", ".mlp.")
    stored_name = re.sub(r"\.experts\.\d+\.(w1|w3|gate_proj|up_proj)\.weight", ".experts.gate_up_proj", stored_name)
    stored_name = re.sub(r"\.experts\.\d+\.(w2|down_proj)\.weight", ".experts.down_proj", stored_name)
    return "transformer." + stored_name if bare else stored_name


def cross_entropy(model, ids):
    """-log softmax(logits)[label] of every position: (B, T) from (B, T + 1) ids."""
    logits = model(ids[:, :-1], use_cache=False).logits
    if logits.dtype in NARROW.values():
        logits = logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(),
                                             reduction="none").view(ids.shape[0], -1)


NARROW = dict(bf16=torch.bfloat16, f16=torch.float16)


class Weights:
    """The trained tensors: the weights of a model or, in a narrow type, their masters."""

    def __init__(self, case, folder, dtype, fused=False):
        self.model = load(case, folder, dtype)
        self.mixed = dtype in NARROW.values()
        source = load(case, folder, torch.float32) if self.mixed else self.model
        self.named = dict(source.named_parameters())
        for name, p in self.model.named_parameters():
            if fused and name.endswith(".mlp.gate.weight"):
                p.data = self.named[name].detach().clone()
            assert torch.equal(p, self.named[name].to(p.dtype))

    def keep_gradients_wide(self):
        """Products, norms and embeddings pass the gradients of their weights to the masters."""
        masters = {id(p): self.named[name] for name, p in self.model.named_parameters()}
        modules = [m for m in self.model.modules() if id(getattr(m, "weight", None)) in masters]
        for module in modules:
            object.__setattr__(module, "master", masters[id(module.weight)])  # no parameter of it
        assert {id(m.weight) for m in modules} == set(masters)

    def zero_grad(self):
        for p in self.named.values():
            p.grad = torch.zeros_like(p) if self.mixed else None

    def collect(self):
        """Called after the backward pass of a micro-batch; autograd sums float32 gradients."""
        for name, p in self.model.named_parameters() if self.mixed else ():
            if p.grad is not None:
                self.named[name].grad += p.grad.float()
                p.grad = None

    @torch.no_grad()
    def publish(self):
        """Called after an update."""
        for name, p in self.model.named_parameters() if self.mixed else ():
            p.copy_(self.named[name])


class Scale:
    """The loss scale: 1 in types that need none, and a small constant in a run that follows a float16 run."""

    def __init__(self, how, follows):
        self.how = None if follows else how
        self.value = 1024.0 if follows else how["initial"] if how else 1.0
        self.finite, self.hysteresis = 0, how["hysteresis"] if how else 0

    def after(self, finite):
        if not self.how:
            return
        if not finite:
            self.finite = 0
            self.hysteresis -= 1
            if self.hysteresis <= 0:
                self.value = max(self.value / 2, self.how["minimum"])
        else:
            self.finite += 1
            if self.finite == self.how["window"]:
                self.finite, self.hysteresis = 0, self.how["hysteresis"]
                self.value *= 2


class Choice:
    """Counts the rows of each expert, and changes the biases that balance the choice."""

    def __init__(self, model, rate):
        self.rate = rate
        self.gates = [m for m in model.modules() if hasattr(m, "e_score_correction_bias")]
        self.counts = [torch.zeros(m.e_score_correction_bias.shape) for m in self.gates]
        for gate, counts in zip(self.gates, self.counts):
            gate.register_forward_hook(lambda module, given, out, to=counts: self.count(out[2], to))

    @staticmethod
    def count(chosen, to):
        to += torch.bincount(chosen.flatten(), minlength=len(to))

    def begin(self):
        for counts in self.counts:
            counts.zero_()

    @torch.no_grad()
    def update(self):
        for gate, counts in zip(self.gates, self.counts):
            gate.e_score_correction_bias += self.rate * torch.sign(counts.mean() - counts)


class Largest:
    """The largest gradient of inputs and outputs of a part of the model, scaled like the loss."""

    def __init__(self, model):
        self.value = 0.0
        for module in model.modules():
            if not list(module.children()):
                module.register_full_backward_hook(lambda _, inner, outer: self.see(*inner, *outer))

    def see(self, *gradients):
        for g in gradients:
            if g is not None:
                largest = g.abs().max().item()
                self.value = math.inf if math.isnan(largest) else max(self.value, largest)


def train_step(weights, optimizer, run, data, iteration, at):
    """One step of the rule above; returns its line of `steps` and the norm of each gradient."""
    scale = at.scale.value
    if at.largest:
        at.largest.value = 0.0
    count, size = run["global_batch_size"], run["micro_batch_size"]
    dtype = next(iter(weights.named.values())).dtype
    weights.zero_grad()
    at.choice.begin()
    loss_sum, token_sum = 0.0, sum(map(sum, data["masks"]))
    for first in range(0, count, size):
        ids = torch.tensor(data["tokens"][first:first + size])
        mask = torch.tensor(data["masks"][first:first + size], dtype=dtype)
        losses = cross_entropy(weights.model, ids) * mask
        counted = token_sum * size / count if run.get("per_token_loss") else mask.sum()
        (losses.sum() / counted / (count // size) * scale).backward()
        weights.collect()
        loss_sum += losses.detach().double().sum().item()
    for p in weights.named.values():
        p.grad.div_(scale)
    norms = {name: p.grad.double().norm().item() for name, p in weights.named.items()}
    norm = math.sqrt(sum(value * value for value in norms.values()))
    coefficient = run["clip_grad"] / (norm + 1e-6)
    rate = learning_rate(run, at.updates)
    words_rate = learning_rate({**run, "max_lr": run.get("decoupled_lr", run["max_lr"])}, at.updates)
    line = dict(iteration=iteration, learning_rate=rate, lm_loss=loss_sum / token_sum,
                grad_norm=norm, clipped=coefficient < 1)
    finite = at.follows[iteration - 1] if at.follows else math.isfinite(norm)
    at.scale.after(finite)
    if at.largest:
        at.seen.append(at.largest.value / scale)
    if at.scale.how:
        line.update(loss_scale=scale, grad_norm=norm if finite else None,
                    clipped=finite and coefficient < 1, skipped=not finite)
    if not finite:
        return line, norms
    if coefficient < 1:
        for p in weights.named.values():
            p.grad.mul_(coefficient)
    for group in optimizer.param_groups:
        group["lr"] = words_rate if group["words"] else rate
    optimizer.step()
    weights.publish()
    at.choice.update()
    at.updates += 1
    return line, norms


class Place:
    """State of a training: number of updates, loss scale, largest gradients. A training of another precision
    skips the same steps as the training that it follows."""

    def __init__(self, run, model, follows):
        self.updates = 0
        self.follows = follows and [not step.get("skipped") for step in follows]
        self.scale = Scale(run.get("loss_scale"), follows and "loss_scale" in run)
        self.largest = Largest(model) if "loss_scale" in run else None
        self.choice = Choice(model, run.get("bias_rate", 0.0))
        self.seen = []  # the largest gradient of each step, for a scale of 1


def margins(steps, largest):
    """Largest scaled gradients of a float32 run, relative to float16's largest number: the maximum over finite
    steps and the minimum over skipped ones."""
    shares = [(s["skipped"], s["loss_scale"] * x / torch.finfo(torch.float16).max)
              for s, x in zip(steps, largest)]
    return dict(finite=rounded(max(x for skipped, x in shares if not skipped), 3),
                skipped=rounded(min(x for skipped, x in shares if skipped), 3))


def train(case, folder, dtype, follows=None, wide=False, fused=False):
    """All steps of a case: (lines of `steps`, gradient norms of the first step, first logits,
    the largest gradient of each step)."""
    run = hf_model.CASES[case]["training"]
    weights = Weights(case, folder, dtype, fused)
    if wide:
        weights.keep_gradients_wide()
    optimizer = make_optimizer(weights, run)
    at = Place(run, weights.model, follows)
    with torch.no_grad():
        ids = torch.tensor([hf_model.tokens(case, 1, 0, 0)[:-1]])
        logits = weights.model(ids, use_cache=False).logits[0]
    steps, first_norms = [], None
    for iteration in range(1, run["steps"] + 1):
        line, norms = train_step(weights, optimizer, run,
                                 hf_model.step_data(case, iteration), iteration, at)
        steps.append(line)
        if not line.get("skipped"):
            first_norms = first_norms or norms
    return steps, first_norms, logits, at.seen


def rounded(value, digits=9):
    return float(f"{value:.{digits}g}")


def logit_lines(case, logits):
    """Some logits of the first sample under the initial weights: (position, first ids or all)."""
    last = hf_model.CASES[case]["training"]["sequence_length"] - 1
    lines = [(t, logits[t, :8]) for t in (0, 1, last // 2)] + [(last, logits[last])]
    return [dict(position=t, values=[rounded(v) for v in row.tolist()]) for t, row in lines]


def noise(steps, exact):
    """Differences of two runs; each is the largest over the steps."""
    norms = [abs(a["grad_norm"] / b["grad_norm"] - 1) for a, b in zip(steps, exact) if a["grad_norm"]]
    out = dict(lm_loss=rounded(max(abs(a["lm_loss"] - b["lm_loss"]) for a, b in zip(steps, exact)), 3))
    return {**out, "grad_norm_relative": rounded(max(norms), 3)} if norms else out


compact = json.JSONEncoder(separators=(",", ":")).encode


def listed(values):
    return "[\n" + ",\n".join("    " + compact(value) for value in values) + "\n  ]"


def golden_text(case, digest, result, distances):
    """Writes the golden file: one fact, step or batch per line."""
    steps, norms, logits, _ = result
    precision = hf_model.CASES[case].get("precision")
    certificate = dict(
        script="tests/golden/gpt/make_golden.py",
        command=f"python3 tests/golden/gpt/make_golden.py {case}",
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        python=platform.python_version(), torch=torch.__version__,
        transformers=transformers.__version__, machine=platform.machine(), threads=1,
        dtype=str(NARROW.get(precision, torch.float32)).removeprefix("torch."), **distances)
    convention = ("iteration i (from 1) uses lr((i - 1) * global_batch_size); warm-up and decay "
                  "count samples; iteration 1 uses init_lr")
    rows = [{**step, "lm_loss": rounded(step["lm_loss"]),
             "grad_norm": step["grad_norm"] and rounded(step["grad_norm"])} for step in steps]
    run = hf_model.CASES[case]["training"]
    names = dict.fromkeys(model_name(case, name) for name, _, kind in hf_model.tensors(case) if kind != "choice")
    first = [(name, norms[name]) for name in names]
    if not any(".experts." in name for name in names):
        first = [(name, norms[model_name(case, name)]) for name, _, _ in hf_model.tensors(case)]
    parts = [
        ("case", compact(case)), ("certificate", compact(certificate)),
        ("model_sha256", compact(digest)), ("model", compact(hf_model.CASES[case]["config"])),
        ("training", compact(run)),
        *([("precision", compact(precision))] if precision else []),
        ("learning_rate_convention", compact(convention)),
        ("steps", listed(rows)),
        ("first_gradient_norms", listed(dict(name=n, norm=rounded(v)) for n, v in first)),
        ("first_logits", listed(logit_lines(case, logits))),
        ("data", listed(hf_model.step_data(case, i) for i in range(1, run["steps"] + 1)))]
    return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in parts) + "\n}\n"


def make(case, target):
    precision = hf_model.CASES[case].get("precision")
    distances = {}
    with tempfile.TemporaryDirectory() as folder:
        digest = hf_model.write_model(case, folder)
        if precision:
            with Inside(torch.float32):
                result = train(case, folder, NARROW[precision], wide=precision == "f16", fused=True)
            unfused = train(case, folder, NARROW[precision], result[0])
            single = train(case, folder, torch.float32, result[0])
            if "loss_scale" in hf_model.CASES[case]["training"]:
                distances["share_of_largest_float16"] = margins(result[0], single[3])
            for name, other in (("float32", single), ("more_roundings", unfused)):
                distances[name + "_max_difference"] = noise(result[0], other[0])
                distances[name + "_first_difference"] = noise(result[0][:1], other[0][:1])
        else:
            result = train(case, folder, torch.float32)
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
