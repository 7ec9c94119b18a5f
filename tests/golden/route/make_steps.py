#!/usr/bin/env python3
"""Writes steps.json beside itself: three steps of Megatron-LM's routing with a bias of experts, which follows its counts.

Run it with megatron-core and PyTorch installed: python3 tests/golden/route/make_steps.py"""

import datetime
import json
import pathlib
import platform

import megatron.core
import torch
from megatron.core import parallel_state
from megatron.core.transformer.moe import moe_utils

R, E, K, RATE, STEPS = 24, 8, 2, 0.125, 3


def rounded(x):
    return [float(format(v, ".9g")) for v in x.flatten().tolist()]


def case(name, seed, score, groups=1, group_topk=1, k=K):
    """Rows prefer the last experts, so that the bias changes choices from step to step."""
    torch.manual_seed(seed)
    bias, steps = torch.zeros(E), []
    for _ in range(STEPS):
        logits = torch.randn(R, E) + torch.linspace(-1, 1, E)
        probs, chosen = moe_utils.topk_routing_with_score_function(
            logits, k, score_function=score, num_groups=groups if groups > 1 else None,
            group_topk=group_topk if groups > 1 else None, expert_bias=bias)
        before = bias
        bias = moe_utils.get_updated_expert_bias(chosen.sum(0).float(), bias, RATE)
        steps.append({"logits": rounded(logits), "bias": rounded(before), "weights": rounded(probs),
                      "chosen": chosen.int().flatten().tolist(), "next_bias": rounded(bias)})
    return {"name": name, "settings": dict(E=E, k=k, score=score, pre_softmax=False, groups=groups,
                                           group_topk=group_topk, scale=1.0), "steps": steps}


def main():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    here = pathlib.Path(__file__)
    certificate = {"script": "tests/golden/route/" + here.name, "date": datetime.date.today().isoformat(),
                   "python": platform.python_version(), "torch": torch.__version__,
                   "megatron-core": megatron.core.__version__}
    cases = [case("sigmoid", 1, "sigmoid"), case("groups", 2, "sigmoid", groups=4, group_topk=2, k=4)]
    with open(here.with_name("steps.json"), "w") as out:
        json.dump({"certificate": certificate, "rate": RATE, "rows": R, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
