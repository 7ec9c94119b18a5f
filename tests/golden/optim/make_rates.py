#!/usr/bin/env python3
"""Writes rates.json beside itself: learning rates and weight decays by Megatron-LM's scheduler.

Run it with megatron-core and PyTorch installed: python3 tests/golden/optim/make_rates.py"""

import datetime
import json
import pathlib
import platform

import megatron.core
import torch
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

SAMPLES = [0, 1, 2, 5, 16, 17, 64, 80, 99, 120, 150, 159, 160, 161, 500]
RATE = dict(init_lr=0.0, max_lr=1.5e-4, min_lr=1e-5, lr_warmup_steps=16, lr_decay_steps=160)
DECAY = dict(start_wd=0.1, end_wd=0.1, wd_incr_steps=160, wd_incr_style="constant")


def case(name, group=None, **settings):
    """Rates of the scheduler after that many samples, for a default or a decoupled parameter group."""
    given = {**RATE, "lr_decay_style": "constant", **DECAY, **settings}

    class Nothing:
        param_groups = [dict(group or {})]

    scheduler = OptimizerParamScheduler(Nothing(), **given)
    rates, decays = [], []
    for n in SAMPLES:
        scheduler.num_steps = n
        rates.append(scheduler.get_lr(Nothing.param_groups[0]))
        decays.append(scheduler.get_wd(Nothing.param_groups[0]))
    return {"name": name, "settings": given, "group": group or {}, "rates": rates, "decays": decays}


def main():
    cases = [case(style, lr_decay_style=style) for style in ("constant", "linear", "cosine", "inverse-square-root")]
    cases += [case("WSD " + style, lr_decay_style="WSD", lr_wsd_decay_style=style, wsd_decay_steps=40)
              for style in ("exponential", "linear", "cosine", "minus_sqrt")]
    cases += [
        case("WSD that falls from the warm-up on", lr_decay_style="WSD", lr_wsd_decay_style="linear",
             wsd_decay_steps=150),
        case("a fraction of the decay", lr_decay_style="cosine", lr_warmup_steps=0.1 * 21, lr_decay_steps=21),
        case("inverse-square-root without warm-up", lr_decay_style="inverse-square-root", lr_warmup_steps=0),
        case("decoupled", dict(max_lr=3e-3, min_lr=2e-5), lr_decay_style="cosine", init_lr=1e-6),
        case("decoupled, the minimum of all", dict(max_lr=3e-3), lr_decay_style="linear"),
    ]
    cases += [case("weight decay " + style, start_wd=0.01, end_wd=0.1, wd_incr_style=style, wd_incr_steps=150)
              for style in ("linear", "cosine")]
    here = pathlib.Path(__file__)
    certificate = {
        "script": "tests/golden/optim/" + here.name,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "megatron-core": megatron.core.__version__,
    }
    with open(here.with_name("rates.json"), "w") as out:
        json.dump({"certificate": certificate, "samples": SAMPLES, "cases": cases}, out, indent=1)
        out.write("\n")


main()
