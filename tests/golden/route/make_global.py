#!/usr/bin/env python3
"""Writes global.json beside itself: Megatron-LM's global balance loss in two replicas, over three micro-batches.

Run it with megatron-core and PyTorch installed: python3 tests/golden/route/make_global.py"""

import datetime
import json
import pathlib
import platform
import tempfile
import types

import megatron.core
import torch
from megatron.core.transformer.moe import moe_utils, router

REPLICAS, MICROBATCHES, R, E, K, COEFFICIENT = 2, 3, 12, 6, 2, 0.5
SCORES = ("softmax", "sigmoid")


def rounded(x):
    return [float(format(v, ".9g")) for v in x.flatten().tolist()]


def router_of(score):
    """The members of TopKRouter that its global loss reads, without a device."""
    out = router.TopKRouter.__new__(router.TopKRouter)
    torch.nn.Module.__init__(out)
    out.config = types.SimpleNamespace(num_moe_experts=E, moe_router_fusion=False, num_layers=1, mtp_num_layers=None,
                                       moe_aux_loss_coeff=COEFFICIENT)
    out.routing_type, out.topk, out.score_function, out.layer_number = "global_aux_loss", K, score, 1
    out.tp_dp_cp_group, out.calculate_per_token_loss = torch.distributed.group.WORLD, False
    out.global_tokens_per_expert, out.ga_steps = torch.zeros(E), torch.tensor(0.0)
    return out


def step(score, rank):
    """The passes of a replica: logits, its part of the logged loss, gradients as DDP averages them."""
    torch.manual_seed(10 * SCORES.index(score) + rank)
    moe_utils.MoEAuxLossAutoScaler.set_loss_scale(torch.tensor(1.0 / MICROBATCHES))
    of, out = router_of(score), []
    for _ in range(MICROBATCHES):
        logits = (torch.randn(R, E) + torch.linspace(-1, 1, E)).requires_grad_()
        chosen, scores = moe_utils.compute_routing_scores_for_aux_loss(logits, K, score)
        moe_utils.clear_aux_losses_tracker()
        probs = of._apply_global_aux_loss(torch.zeros_like(logits).requires_grad_(), scores, chosen)
        probs.sum().backward()
        logged = moe_utils.get_moe_layer_wise_logging_tracker()["global_load_balancing_loss"]["values"]
        out.append({"logits": rounded(logits), "loss": logged.item(), "gradient": rounded(logits.grad / REPLICAS)})
    return out


def replica(rank, store, results):
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=REPLICAS)
    results[rank] = {score: step(score, rank) for score in SCORES}
    torch.distributed.destroy_process_group()


def main():
    here = pathlib.Path(__file__)
    results = torch.multiprocessing.Manager().dict()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(replica, (folder + "/store", results), nprocs=REPLICAS)
    certificate = {"script": "tests/golden/route/" + here.name, "date": datetime.date.today().isoformat(),
                   "python": platform.python_version(), "torch": torch.__version__,
                   "megatron-core": megatron.core.__version__}
    cases = [{"score": score, "replicas": [results[rank][score] for rank in range(REPLICAS)]} for score in SCORES]
    with open(here.with_name("global.json"), "w") as out:
        json.dump({"certificate": certificate, "R": R, "E": E, "k": K, "coefficient": COEFFICIENT, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
