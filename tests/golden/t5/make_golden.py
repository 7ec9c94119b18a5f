#!/usr/bin/env python3
"""Makes the golden losses of T5: trains the models of t5_model.py with PyTorch.

  make_golden.py [CASE ...]    writes CASE.json beside this script (default: every case)

Needs torch, transformers, safetensors and megatron-core (README.md names the versions); the tests need none of it. The
step is that of ../gpt/make_golden.py. Padding is masked in the encoder, in the decoder and in cross-attention.

transformers 5 ties the output layer of a T5 of version 1.1 to its embedding. Its files have a separate one, and so has
the case: the script gives the model a parameter of its own.
"""
import contextlib
import datetime
import json
import math
import platform
import sys
import tempfile
from pathlib import Path

import safetensors.torch
import torch

import t5_model
from t5_model import RUN

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gpt"))


def learning_rate(updates):
    """That of ../gpt/make_golden.py: linear warm-up, then cosine."""
    B = RUN["global_batch_size"]
    n, W, D = updates * B, RUN["lr_warmup_iterations"] * B, RUN["lr_decay_iterations"] * B
    if n <= W:
        return RUN["init_lr"] + (RUN["max_lr"] - RUN["init_lr"]) * n / W
    share = (math.cos(math.pi * (n - W) / (D - W)) + 1) / 2
    return RUN["min_lr"] + (RUN["max_lr"] - RUN["min_lr"]) * share


class Hub:
    """T5ForConditionalGeneration of transformers."""

    def __init__(self, case, folder, dtype):
        import transformers
        config = transformers.T5Config(**{k: v for k, v in t5_model.CASES[case].items() if k != "architectures"})
        self.version = "transformers " + transformers.__version__
        self.model = transformers.T5ForConditionalGeneration(config)
        values = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        if "lm_head.weight" in values:
            self.model.lm_head.weight = torch.nn.Parameter(torch.empty_like(self.model.shared.weight))
        missing, unexpected = self.model.load_state_dict(values, strict=False)
        copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}
        assert not unexpected and set(missing) <= copies - set(values), (missing, unexpected)
        self.model.to(dtype).eval()

    def logits(self, text, text_mask, tokens, mask):
        return self.model(input_ids=text, attention_mask=text_mask.long(), decoder_input_ids=tokens,
                          decoder_attention_mask=mask.long(), use_cache=False).logits


class Megatron:
    """T5Model of Megatron-core, of its own layers, with learned positions."""

    def __init__(self, case, folder, dtype):
        import megatron.core
        from megatron.core import parallel_state, tensor_parallel
        from megatron.core.models.T5 import t5_spec
        from megatron.core.models.T5.t5_model import T5Model
        from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
        from megatron.core.transformer.transformer_config import TransformerConfig
        torch.cuda.current_device = lambda: "cpu"  # of a buffer of the scores
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
            parallel_state.initialize_model_parallel()
            tensor_parallel.random.initialize_rng_tracker()
            tensor_parallel.get_cuda_rng_tracker().fork = contextlib.nullcontext  # there is no dropout
        c = t5_model.CASES[case]
        self.version = "megatron-core " + megatron.core.__version__

        def settings(layers):
            return TransformerConfig(num_layers=layers, hidden_size=c["d_model"], num_attention_heads=c["num_heads"],
                                     kv_channels=c["d_kv"], ffn_hidden_size=c["d_ff"], hidden_dropout=0.0,
                                     attention_dropout=0.0, layernorm_epsilon=c["layer_norm_epsilon"],
                                     use_cpu_initialization=True, params_dtype=dtype, pipeline_dtype=dtype,
                                     masked_softmax_fusion=False, bias_dropout_fusion=False,
                                     bias_activation_fusion=False, gradient_accumulation_fusion=False,
                                     activation_func=lambda x: torch.nn.functional.gelu(x, approximate="tanh"))

        def stack(layer, layers):
            return TransformerBlockSubmodules([layer] * layers, layer_norm=t5_spec.LNImpl)

        self.model = T5Model(settings(c["num_decoder_layers"]), settings(c["num_layers"]),
                             stack(t5_spec.encoder_model_with_local_spec(), c["num_layers"]),
                             stack(t5_spec.decoder_model_with_local_spec(), c["num_decoder_layers"]),
                             c["vocab_size"], c["n_positions"], share_embeddings_and_output_weights=True)
        values = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        values["lm_head.output_layer.bias"] = values.pop("output_layer.bias")
        named = dict(self.model.named_parameters())
        assert set(values) == set(named), set(values) ^ set(named)
        with torch.no_grad():
            for name, value in values.items():
                named[name].copy_(value)
        self.model.to(dtype).eval()

    def logits(self, text, text_mask, tokens, mask):
        # Masks of Megatron are true where attention is not allowed.
        def pairs(queries, keys):
            return ~(queries[:, None, :, None] & keys[:, None, None, :])
        T = tokens.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        out = self.model(text, tokens, pairs(text_mask, text_mask), pairs(mask, mask) | ~causal,
                         pairs(mask, text_mask))
        return out.transpose(0, 1) if out.shape[0] == T and out.shape[1] == tokens.shape[0] else out


def padded(rows, length):
    values = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length, dtype=torch.bool)
    for b, row in enumerate(rows):
        values[b, :len(row)] = torch.tensor(row)
        mask[b, :len(row)] = True
    return values, mask


def batch(samples):
    text, text_mask = padded([x["encoder"] for x in samples], RUN["encoder_sequence_length"])
    tokens, mask = padded([x["tokens"] for x in samples], RUN["sequence_length"])
    labels, _ = padded([x["labels"] for x in samples], RUN["sequence_length"])
    return (text, text_mask, tokens, mask), labels


def train(case, folder, dtype):
    by = (Megatron if case == "t5_megatron" else Hub)(case, folder, dtype)
    named = {name: p for name, p in by.model.named_parameters() if p.requires_grad}
    groups = [dict(params=[p for p in named.values() if (p.dim() > 1) == decays],
                   weight_decay=RUN["weight_decay"] if decays else 0.0) for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(RUN["adam_beta1"], RUN["adam_beta2"]), eps=RUN["adam_eps"])
    count, size = RUN["global_batch_size"], RUN["micro_batch_size"]
    steps, first, logits = [], None, None
    for iteration in range(1, RUN["steps"] + 1):
        data = t5_model.step_data(case, iteration)
        optimizer.zero_grad()
        total, tokens = 0.0, 0
        for begin in range(0, count, size):
            inputs, labels = batch(data[begin:begin + size])
            out = by.logits(*inputs)
            if logits is None:
                logits = out.detach()[0]
            mask = inputs[3].to(out.dtype)
            losses = torch.nn.functional.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="none")
            losses = losses.view(labels.shape) * mask
            (losses.sum() / mask.sum() / (count // size)).backward()
            total += losses.detach().double().sum().item()
            tokens += int(mask.sum())
        norms = {name: p.grad.double().norm().item() for name, p in named.items()}
        norm = math.sqrt(sum(x * x for x in norms.values()))
        factor = RUN["clip_grad"] / (norm + 1e-6)
        rate = learning_rate(iteration - 1)
        steps.append(dict(iteration=iteration, learning_rate=rate, lm_loss=total / tokens, grad_norm=norm,
                          clipped=factor < 1))
        first = first or norms
        if factor < 1:
            for p in named.values():
                p.grad.mul_(factor)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return steps, first, logits, by.version


def rounded(x):
    return float(f"{x:.9g}")


compact = json.JSONEncoder(separators=(",", ":")).encode


def listed(values):
    return "[\n" + ",\n".join("    " + compact(x) for x in values) + "\n  ]"


def make(case):
    with tempfile.TemporaryDirectory() as folder:
        t5_model.write_model(case, folder)
        steps, norms, logits, version = train(case, folder, torch.float32)
        exact = train(case, folder, torch.float64)[0]
    noise = {key: float(f"{max(abs(a[key] / b[key] - 1) for a, b in zip(steps, exact)):.3g}")
             for key in ("lm_loss", "grad_norm")}
    certificate = dict(script="tests/golden/t5/make_golden.py",
                       command=f"python3 tests/golden/t5/make_golden.py {case}",
                       date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                       python=platform.python_version(), torch=torch.__version__, model=version,
                       machine=platform.machine(), threads=1, dtype="float32", float64_relative_difference=noise)
    positions = (0, 1, len(t5_model.sample(case, 0)["labels"]) - 1)
    parts = [("case", compact(case)), ("certificate", compact(certificate)),
             ("model", compact(t5_model.CASES[case])), ("training", compact(RUN)),
             ("steps", listed({k: rounded(v) if isinstance(v, float) else v for k, v in s.items()} for s in steps)),
             ("first_gradient_norms", listed(dict(name=n, norm=rounded(v)) for n, v in norms.items())),
             ("first_logits", listed(dict(position=t, values=[rounded(x) for x in logits[t].tolist()])
                                     for t in positions)),
             ("data", listed(t5_model.step_data(case, i) for i in range(1, RUN["steps"] + 1)))]
    text = "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in parts) + "\n}\n"
    json.loads(text)
    Path(__file__).with_name(case + ".json").write_text(text, encoding="utf-8")
    print(f"{case}: loss {steps[0]['lm_loss']:.4f} -> {steps[-1]['lm_loss']:.4f}, norms "
          f"{min(s['grad_norm'] for s in steps):.3g} to {max(s['grad_norm'] for s in steps):.3g}, "
          f"{sum(s['clipped'] for s in steps)} clipped, {noise}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or t5_model.CASES:
        make(name)
