#!/usr/bin/env python3
"""Writes updates.json beside itself: updates of small parameters by each optimizer.

sgd is torch.optim.SGD and adam torch.optim.AdamW. lion and muon are computed here, in float64, by
the formulas of their papers; muon is compared with torch.optim.Muon, whose products are in bfloat16.
Run it with PyTorch 2.9 or later: python3 tests/golden/optim/make_updates.py"""

import datetime
import json
import pathlib
import platform

import torch

STEPS, RATE, DECAY, SCALE, WORDS_RATE = 3, 0.02, 0.1, 0.5, 0.05
QKV = [6, 2, 2]  # rows of queries, keys and values in a group, of which there are two
SHAPES = {"qkv": [20, 9], "tall": [11, 4], "wide": [5, 13], "words": [7, 6], "gain": [8]}
NUMBERS = {
    "simple": [(3.4445, -4.7750, 2.0315)],
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    # Emerging-Optimizers v0.1.0 to v0.4.0
    "polar_express": [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                      (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585),
                      (1.8564, -1.2132, 0.3568), (1.8750, -1.2500, 0.3750)],
}


def numbers(generator, shape):
    return torch.randn(shape, generator=generator, dtype=torch.float32).double()


def orthogonal(update, steps, which):
    """Newton-Schulz iterations of fifth degree, on the smaller side."""
    flat = update.shape[0] <= update.shape[1]
    x = update if flat else update.T
    x = x / x.norm().clamp(min=1e-7)
    for i in range(steps):
        sets = NUMBERS[which]
        a, b, c = sets[min(i, len(sets) - 1) if which == "polar_express" else i % len(sets)]
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if flat else x.T


def factor(mode, rows, columns):
    return {"spectral": max(rows, columns), "unit_rms_norm": rows / columns,
            "shape_scaling": max(1, rows / columns)}[mode] ** 0.5


class Lion:
    def __init__(self, p, decay, beta1=0.95, beta2=0.98):
        self.p, self.decay, self.beta1, self.beta2, self.m = p, decay, beta1, beta2, torch.zeros_like(p)

    def step(self, g, rate):
        c = self.beta1 * self.m + (1 - self.beta1) * g
        self.p.copy_(self.p - rate * (torch.sign(c) + self.decay * self.p))
        self.m = self.beta2 * self.m + (1 - self.beta2) * g


class Muon:
    def __init__(self, p, decay, kinds, momentum=0.95, nesterov=False, scale="spectral", extra=1.0,
                 coefficients="quintic", steps=5):
        self.p, self.decay, self.kinds, self.m = p, decay, kinds, torch.zeros_like(p)
        self.momentum, self.nesterov, self.scale, self.extra = momentum, nesterov, scale, extra
        self.coefficients, self.steps = coefficients, steps

    def part(self, x):
        return (orthogonal(x, self.steps, self.coefficients) * factor(self.scale, *x.shape) * self.extra)

    def step(self, g, rate):
        self.m = self.momentum * self.m + (1 - self.momentum) * g
        update = self.momentum * self.m + (1 - self.momentum) * g if self.nesterov else self.m
        if self.kinds:
            groups = update.reshape(-1, sum(self.kinds), update.shape[1])
            parts = [self.part(x.reshape(-1, update.shape[1])).reshape(len(groups), -1, update.shape[1])
                     for x in torch.split(groups, self.kinds, dim=1)]
            update = torch.cat(parts, dim=1).reshape(update.shape)
        else:
            update = self.part(update)
        self.p.copy_(self.p * (1 - rate * self.decay) - rate * update)


class Torch:
    def __init__(self, cls, p, **settings):
        self.p = torch.nn.Parameter(p)
        self.optimizer = cls([self.p], lr=1.0, **settings)

    def step(self, g, rate):
        self.optimizer.param_groups[0]["lr"] = rate
        self.p.grad = g
        self.optimizer.step()


def rule(kind, name, p, settings):
    decay = DECAY if p.ndim == 2 else 0.0
    matrix = p.ndim == 2 and name != "words"
    if kind == "sgd":
        return Torch(torch.optim.SGD, p, momentum=settings.get("momentum", 0.9), weight_decay=decay)
    if kind == "lion":
        return Lion(p, decay)
    if kind == "muon" and matrix:
        kinds = QKV if name == "qkv" and settings.get("split_qkv", True) else None
        own = {k: v for k, v in settings.items() if k not in ("split_qkv", "others")}
        return Muon(p, decay, kinds, **own)
    if kind == "muon" and settings.get("others") == "lion":
        return Lion(p, decay)
    return Torch(torch.optim.AdamW, p, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)


def case(kind, **settings):
    """Values after the steps; the word embedding has its own learning rate."""
    generator = torch.Generator().manual_seed(7)
    start = {name: numbers(generator, shape) for name, shape in SHAPES.items()}
    rules = {name: rule(kind, name, p.clone(), settings) for name, p in start.items()}
    for _ in range(STEPS):
        for name, shape in SHAPES.items():
            gradient = numbers(generator, shape) * SCALE
            with torch.no_grad():
                rules[name].step(gradient, WORDS_RATE if name == "words" else RATE)
    return {"kind": kind, "settings": settings,
            "values": {name: x.p.detach().flatten().tolist() for name, x in rules.items()}}


def compare_with_torch():
    """The tolerance is that of torch.optim.Muon, which rounds to 8 bits."""
    generator = torch.Generator().manual_seed(9)
    for shape in ([11, 4], [5, 13]):
        p = numbers(generator, shape)
        mine = Muon(p.clone(), DECAY, None, nesterov=True, scale="shape_scaling", coefficients="simple")
        theirs = Torch(torch.optim.Muon, p.float(), weight_decay=DECAY, momentum=0.95)
        for _ in range(STEPS):
            g = numbers(generator, shape)
            with torch.no_grad():
                mine.step(g, RATE)
                theirs.step(g.float(), RATE)
        change = (mine.p - p).norm()
        assert (mine.p - theirs.p.double()).norm() < 0.02 * change, shape


def main():
    compare_with_torch()
    generator = torch.Generator().manual_seed(7)
    start = {name: numbers(generator, shape).flatten().tolist() for name, shape in SHAPES.items()}
    gradients = [{name: numbers(generator, shape).flatten().tolist() for name, shape in SHAPES.items()}
                 for _ in range(STEPS)]
    cases = [case("adam"), case("sgd"), case("sgd", momentum=0.0), case("lion"), case("muon"),
             case("muon", nesterov=True, coefficients="simple", scale="shape_scaling", others="lion"),
             case("muon", split_qkv=False, scale="unit_rms_norm", extra=0.2, steps=7),
             case("muon", coefficients="polar_express", momentum=0.8, steps=9),
             case("muon", coefficients="polar_express", steps=2)]
    here = pathlib.Path(__file__)
    golden = {
        "certificate": {"script": "tests/golden/optim/" + here.name,
                        "date": datetime.date.today().isoformat(),
                        "python": platform.python_version(), "torch": torch.__version__},
        "rate": RATE, "words_rate": WORDS_RATE, "weight_decay": DECAY, "gradient_scale": SCALE,
        "row_kinds": QKV, "shapes": SHAPES, "start": start, "gradients": gradients, "cases": cases,
    }
    with open(here.with_name("updates.json"), "w") as out:
        json.dump(golden, out)
        out.write("\n")


main()
