#!/usr/bin/env python3
"""Writes golden.json beside itself: routing by Megatron-LM's functions, with gradients by PyTorch.

Run it with PyTorch and Megatron-LM's main branch of August 2026 or later, because releases up to 0.16 have no
sqrtsoftplus: PYTHONPATH=Megatron-LM python3 tests/golden/route/make.py"""

import datetime
import json
import pathlib
import platform

import megatron.core
import torch
from megatron.core.transformer.moe import moe_utils

B, T = 2, 7  # sequences and their rows
COEFFICIENTS = {"balance": 0.7, "sequence": 0.4, "z": 0.3}


def rounded(x):
    return [float(format(v, ".9g")) for v in x.flatten().tolist()]


def sequence_major(x):
    """Megatron-LM's rows are (T, B); those of the file are (B, T)."""
    return x.detach().reshape(T, B, -1).transpose(0, 1)


def case(name, seed, E, k, score="softmax", pre_softmax=False, groups=None, group_topk=None, scale=None, bias=False):
    torch.manual_seed(seed)
    logits = torch.randn(T * B, E, requires_grad=True)
    up = torch.randn(T * B, E)
    b = torch.randn(E) * 0.3 if bias else None
    probs, chosen = moe_utils.topk_routing_with_score_function(
        logits, k, use_pre_softmax=pre_softmax, num_groups=groups, group_topk=group_topk, scaling_factor=scale,
        score_function=score, expert_bias=b)
    counted, scores = moe_utils.compute_routing_scores_for_aux_loss(logits, k, score)
    common = dict(topk=k, num_experts=E, moe_aux_loss_coeff=1.0)
    losses = {
        "balance": moe_utils.switch_load_balancing_loss_func(scores, counted.sum(dim=0), T * B, **common),
        "sequence": moe_utils.switch_load_balancing_loss_func(
            scores.reshape(T, -1), counted.reshape(T, -1).sum(dim=0), T, **common) / B,
        "z": moe_utils.z_loss_func(logits, 1.0),
    }
    ((probs * up).sum() + sum(COEFFICIENTS[name] * loss for name, loss in losses.items())).backward()
    rows, map_of_rows = sequence_major(probs), sequence_major(chosen.float())
    flat = rows.reshape(B * T, E), map_of_rows.reshape(B * T, E).bool()
    # Not the policy "position": among equals, the rows that torch.topk takes on CPUs are not the first ones.
    _, kept = moe_utils.apply_router_token_dropping(*flat, k, capacity_factor=0.75, drop_policy="probs")
    return {
        "name": name,
        "settings": dict(E=E, k=k, score=score, pre_softmax=pre_softmax, groups=groups or 1,
                         group_topk=group_topk or 1, scale=scale or 1.0),
        "logits": rounded(sequence_major(logits)),
        "bias": rounded(b) if bias else [],
        "up": rounded(sequence_major(up)),
        "weights": rounded(rows),
        "chosen": map_of_rows.int().flatten().tolist(),
        "losses": {name: loss.item() for name, loss in losses.items()},
        "gradient": rounded(sequence_major(logits.grad)),
        "kept": kept.int().flatten().tolist(),
        "sinkhorn": torch.topk(moe_utils.sinkhorn(sequence_major(logits).reshape(B * T, E)), k, dim=1)[1].tolist(),
    }


def main():
    cases = [
        case("softmax of the chosen logits", 1, 8, 2),
        case("one expert", 2, 8, 1, pre_softmax=True),
        case("every expert", 3, 6, 6),
        case("softmax of all logits", 4, 16, 4, pre_softmax=True),
        case("sigmoid", 5, 16, 4, score="sigmoid", scale=2.5),
        case("sigmoid of one", 6, 9, 1, score="sigmoid"),
        case("sigmoid with a bias", 7, 16, 4, score="sigmoid", bias=True),
        case("groups of logits", 8, 16, 4, groups=8, group_topk=2),
        case("groups of probabilities", 9, 16, 4, pre_softmax=True, groups=4, group_topk=2, scale=1.5),
        case("groups of biased sigmoids, as in DeepSeek-V3", 10, 32, 8, score="sigmoid", groups=8, group_topk=4,
             scale=2.5, bias=True),
        case("roots of softplus", 11, 16, 4, score="sqrtsoftplus", scale=2.5),
        case("a root of softplus", 12, 9, 1, score="sqrtsoftplus"),
        case("groups of biased roots of softplus", 13, 32, 8, score="sqrtsoftplus", groups=8, group_topk=4, bias=True),
    ]
    here = pathlib.Path(__file__)
    certificate = {
        "script": "tests/golden/route/" + here.name,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "megatron-core": megatron.core.__version__,
    }
    with open(here.with_name("golden.json"), "w") as out:
        json.dump({"certificate": certificate, "B": B, "T": T, "coefficients": COEFFICIENTS, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
