"""Trains the small models of golden runs with PyTorch, by the rules of gpt/make_golden.py, and writes their files."""
import contextlib
import datetime
import json
import math
import platform
import tempfile
from pathlib import Path

import torch


def learning_rate(run, updates):
    """The schedule of gpt/make_golden.py: linear warm-up, then cosine."""
    B = run["global_batch_size"]
    n, W, D = updates * B, run["lr_warmup_iterations"] * B, run["lr_decay_iterations"] * B
    if n <= W:
        return run["init_lr"] + (run["max_lr"] - run["init_lr"]) * n / W
    share = (math.cos(math.pi * (n - W) / (D - W)) + 1) / 2
    return run["min_lr"] + (run["max_lr"] - run["min_lr"]) * share


def start_megatron():
    """Prepares Megatron-core for one process without a GPU."""
    from megatron.core import parallel_state, tensor_parallel
    torch.cuda.current_device = lambda: "cpu"  # of a buffer of the scores
    if torch.distributed.is_initialized():
        return
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    tensor_parallel.random.initialize_rng_tracker()
    tensor_parallel.get_cuda_rng_tracker().fork = contextlib.nullcontext  # there is no dropout


def load(module, values):
    """Copies tensors to all parameters of these names."""
    named = dict(module.named_parameters())
    assert set(values) == set(named), set(values) ^ set(named)
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value)


def train(run, model, step_data, forward):
    """forward(samples) gives the logits that a file keeps, and the sum and the count of each loss by its name. A
    measure such as "accuracy" has no gradient.

    Returns the steps, the norms of the first gradients and the first logits.
    """
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    groups = [dict(params=[p for p in named.values() if (p.dim() > 1) == decays],
                   weight_decay=run["weight_decay"] if decays else 0.0) for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(run["adam_beta1"], run["adam_beta2"]), eps=run["adam_eps"])
    count, size = run["global_batch_size"], run["micro_batch_size"]
    steps, first, logits = [], None, None
    for iteration in range(1, run["steps"] + 1):
        data = step_data(iteration)
        optimizer.zero_grad()
        sums = {}
        for begin in range(0, count, size):
            out, losses = forward(data[begin:begin + size])
            logits = out.detach()[0] if logits is None else logits
            means = [total / tokens for total, tokens in losses.values() if total.requires_grad]
            (sum(means) / (count // size)).backward()
            for name, (total, tokens) in losses.items():
                before = sums.get(name, (0.0, 0))
                sums[name] = (before[0] + total.detach().double().item(), before[1] + int(tokens))
        norms = {name: p.grad.double().norm().item() for name, p in named.items()}
        norm = math.sqrt(sum(x * x for x in norms.values()))
        factor = run["clip_grad"] / (norm + 1e-6)
        rate = learning_rate(run, iteration - 1)
        steps.append(dict(iteration=iteration, learning_rate=rate,
                          **{name: total / tokens for name, (total, tokens) in sums.items()},
                          grad_norm=norm, clipped=factor < 1))
        first = first or norms
        if factor < 1:
            for p in named.values():
                p.grad.mul_(factor)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return steps, first, logits


def rounded(x):
    return float(f"{x:.9g}")


compact = json.JSONEncoder(separators=(",", ":")).encode


def listed(values):
    return "[\n" + ",\n".join("    " + compact(x) for x in values) + "\n  ]"


def certificate(script, case, version):
    return dict(script=script, command=f"python3 {script} {case}",
                date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                python=platform.python_version(), torch=torch.__version__, model=version, machine=platform.machine(),
                threads=1, dtype="float32")


def write_parts(path, parts):
    """parts: names and JSON texts."""
    text = "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in parts) + "\n}\n"
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def make(script, case, config, run, write_model, run_case, step_data, positions):
    """Writes CASE.json beside the script. run_case(folder, dtype) gives the results of `train`, and a version."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(case, folder)
        steps, norms, logits, version = run_case(folder, torch.float32)
        exact = run_case(folder, torch.float64)[0]
    noise = {key: float(f"{max(abs(a[key] / b[key] - 1) for a, b in zip(steps, exact)):.3g}")
             for key in steps[0] if key.endswith(("_loss", "_norm"))}
    birth = certificate(script, case, version) | dict(float64_relative_difference=noise)
    parts = [("case", compact(case)), ("certificate", compact(birth)), ("model", compact(config)),
             ("training", compact(run)),
             ("steps", listed({k: rounded(v) if isinstance(v, float) else v for k, v in s.items()} for s in steps)),
             ("first_gradient_norms", listed(dict(name=n, norm=rounded(v)) for n, v in norms.items())),
             ("first_logits", listed(dict(position=t, values=[rounded(x) for x in logits[t].tolist()])
                                     for t in positions)),
             ("data", listed(step_data(i) for i in range(1, run["steps"] + 1)))]
    sources = Path(__file__).resolve().parent.parent.parent
    write_parts((sources / script).with_name(case + ".json"), parts)
    losses = [next(v for k, v in steps[at].items() if k.endswith("_loss")) for at in (0, -1)]
    print(f"{case}: loss {losses[0]:.4f} -> {losses[1]:.4f}, norms "
          f"{min(s['grad_norm'] for s in steps):.3g} to {max(s['grad_norm'] for s in steps):.3g}, "
          f"{sum(s['clipped'] for s in steps)} clipped, {noise}")


def main(cases, make_case, names):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in names or cases:
        make_case(name)
