#!/usr/bin/env python3
"""Writes balanced.json beside itself: Megatron-LM's router with sinkhorn, and three steps with quantile balancing.

Run it with PyTorch and Megatron-LM's main branch of August 2026 or later, because releases up to 0.16 have no quantile
balancing: PYTHONPATH=Megatron-LM python3 tests/golden/route/make_balanced.py"""

import datetime
import json
import pathlib
import platform
import types
import unittest.mock

import megatron.core
import torch
from megatron.core.distributed.finalize_model_grads import _update_router_qb_beta
from megatron.core.transformer.moe import router

R, E, STEPS, MICROBATCHES = 24, 8, 3, 2


def rounded(x):
    return [float(format(v, ".9g")) for v in x.flatten().tolist()]


def router_of(k, score, **settings):
    """The members of TopKRouter that its balancing reads, without a device."""
    out = router.TopKRouter.__new__(router.TopKRouter)
    torch.nn.Module.__init__(out)
    out.config = types.SimpleNamespace(
        num_moe_experts=E, moe_router_fusion=False, moe_aux_loss_coeff=0, moe_router_num_groups=None,
        moe_router_group_topk=None, moe_router_pre_softmax=False, moe_router_topk_scaling_factor=None)
    vars(out.config).update(settings)
    out.topk, out.score_function, out.tp_cp_group = k, score, None
    out.qb_beta, out.qb_beta_accum, out.qb_beta_count = torch.zeros(E), torch.zeros(E), torch.tensor(0)
    return out


def skewed():
    """Logits whose rows prefer the last experts, so that balancing changes choices."""
    return torch.randn(R, E) + torch.linspace(-1, 1, E)


def routed(probs, chosen):
    return {"weights": rounded(probs), "chosen": chosen.int().flatten().tolist()}


def sinkhorn(seed, k):
    torch.manual_seed(seed)
    of, logits, up = router_of(k, "softmax"), skewed().requires_grad_(), torch.randn(R, E)
    probs, chosen = of.sinkhorn_load_balancing(logits)
    (probs * up).sum().backward()
    out = {"E": E, "k": k, "logits": rounded(logits), "up": rounded(up), **routed(probs, chosen),
           "gradient": rounded(logits.grad)}
    of.eval()
    out["evaluated"] = routed(*of.sinkhorn_load_balancing(logits))
    return out


def quantile(seed, k, score, pre_softmax, decay):
    """Biases of Megatron-LM are subtracted; those here are added."""
    torch.manual_seed(seed)
    of = router_of(k, score, moe_router_pre_softmax=pre_softmax, moe_router_quantile_balancing_ema=decay)
    steps = []
    for _ in range(STEPS):
        passes, before = [], of.qb_beta.clone()
        of.qb_beta_accum.zero_(), of.qb_beta_count.zero_()
        for _ in range(MICROBATCHES):
            logits = skewed().requires_grad_()
            passes.append({"logits": rounded(logits), **routed(*of.quantile_balancing(logits))})
        with unittest.mock.patch("torch.distributed.all_reduce"):  # one process; gloo has no averages
            _update_router_qb_beta([of], of.config)
        steps.append({"bias": rounded(-before), "passes": passes, "next_bias": rounded(-of.qb_beta)})
    return {"settings": dict(E=E, k=k, score=score, pre_softmax=pre_softmax, groups=1, group_topk=1, scale=1.0),
            "decay": decay, "steps": steps}


def main():
    here = pathlib.Path(__file__)
    certificate = {"script": "tests/golden/route/" + here.name, "date": datetime.date.today().isoformat(),
                   "python": platform.python_version(), "torch": torch.__version__,
                   "megatron-core": megatron.core.__version__}
    out = {"certificate": certificate, "rows": R, "sinkhorn": [sinkhorn(1, 2), sinkhorn(2, 1)],
           "quantile": [quantile(3, 2, "softmax", False, 0.0), quantile(4, 3, "softmax", True, 0.5),
                        quantile(5, 2, "sigmoid", False, 0.25), quantile(6, 2, "sqrtsoftplus", False, 0.0)]}
    with open(here.with_name("balanced.json"), "w") as to:
        json.dump(out, to)
        to.write("\n")


if __name__ == "__main__":
    main()
