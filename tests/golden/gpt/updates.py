"""Optimizers of the golden runs: torch.optim.AdamW and SGD, and Lion and Muon by the formulas of their
papers.

  lion : w -= lr * (weight_decay * w + sign(beta1 m + (1 - beta1) g));  m = beta2 m + (1 - beta2) g
  muon : m = momentum m + (1 - momentum) g;  u = m, with Nesterov's momentum momentum m + (1 - momentum) g
         w -= lr * (weight_decay * w + factor * extra * NS(u))

Muon updates matrices, except the word embedding and the output layer. A matrix of Megatron-LM is
orthogonalized as one (a Llama's gate and up projection, one below the other), but queries, keys and
values separately. R and C of the factor are (outputs, inputs), also for a GPT-2, which stores
(inputs, outputs). Weight decay is for weights with two dimensions or more.
"""
import torch

COEFFICIENTS = dict(
    simple=[(3.4445, -4.7750, 2.0315)],
    quintic=[(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
             (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)])
WORDS = ("wte.weight", "embed_tokens.weight", "lm_head.weight")


def newton_schulz(x, how):
    x = x / x.norm().clamp(min=1e-7)
    numbers = COEFFICIENTS[how["coefficients"]]
    for i in range(how["steps"]):
        a, b, c = numbers[i % len(numbers)]
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def factor(rows, columns, how):
    square = dict(spectral=max(rows, columns), unit_rms_norm=rows / columns,
                  shape_scaling=max(1, rows / columns))
    return square[how["scale"]] ** 0.5 * how["extra"]


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, how):
        super().__init__(groups, dict(lr=0.0))
        self.how = how

    @torch.no_grad()
    def step(self):
        beta1, beta2 = self.how["beta1"], self.how["beta2"]
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p -= group["lr"] * (group["weight_decay"] * p + direction)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Muon(torch.optim.Optimizer):
    """Each group has the names of weights that are orthogonalized as one matrix."""

    def __init__(self, groups, how):
        super().__init__(groups, dict(lr=0.0))
        self.how = how

    def orthogonal(self, x):
        wide = x if x.shape[0] <= x.shape[1] else x.T
        out = newton_schulz(wide, self.how)
        return (out if wide is x else out.T) * factor(*x.shape, self.how)

    @torch.no_grad()
    def step(self):
        beta = self.how["momentum"]
        for group in self.param_groups:
            updates = []
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(beta).add_(p.grad, alpha=1 - beta)
                update = beta * m + (1 - beta) * p.grad if self.how["nesterov"] else m
                updates.append(update.T if group["transposed"] else update)
            whole = torch.cat(updates)
            parts = [self.orthogonal(x) for x in whole.chunk(group["kinds"])]
            for p, update in zip(group["params"], torch.cat(parts).split([len(x) for x in updates])):
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * (update.T if group["transposed"] else update)


class Several:
    """Several optimizers with the interface of one."""

    def __init__(self, all_of_them):
        self.all = all_of_them

    @property
    def param_groups(self):
        return [group for x in self.all for group in x.param_groups]

    def step(self):
        for x in self.all:
            x.step()


def matrices(named, decay):
    """The groups of Muon, and the names in them."""
    groups, taken = [], set()
    for name, p in named.items():
        if p.dim() != 2 or name.endswith(WORDS) or name in taken:
            continue
        names = [name]
        if name.endswith("gate_proj.weight"):
            names.append(name.replace("gate_proj", "up_proj"))
        taken.update(names)
        stored_transposed = ".c_" in name  # a GPT-2's products
        groups.append(dict(params=[named[x] for x in names], weight_decay=decay, words=False,
                           transposed=stored_transposed, kinds=3 if "c_attn" in name else 1))
    return groups, taken


def by_elements(kind, groups, run):
    how = run.get("optimizer", {})
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=how["momentum"], foreach=False)
    if kind == "lion":
        return Lion(groups, how)
    return torch.optim.AdamW(groups, betas=(run["adam_beta1"], run["adam_beta2"]),
                             eps=run["adam_eps"], foreach=False)


def make_optimizer(weights, run):
    """`words` of a group: whether it has the learning rate of the word embedding and output layer."""
    how = run.get("optimizer", dict(kind="adam"))
    decay, named = run["weight_decay"], weights.named
    muon, taken = matrices(named, decay) if how["kind"] == "muon" else ([], set())
    rest = {name: p for name, p in named.items() if name not in taken}
    groups = [dict(params=[p for name, p in rest.items()
                           if name.endswith(WORDS) == words and (p.dim() >= 2) == decays],
                   weight_decay=decay if decays else 0.0, words=words)
              for words in (True, False) for decays in (True, False)]
    groups = [group for group in groups if group["params"]]
    if not muon:
        return by_elements(how["kind"], groups, run)
    return Several([Muon(muon, how), by_elements(how["others"], groups, run)])
