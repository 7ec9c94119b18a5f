"""Training steps of a BERT or a T5 in PyTorch on a processor: tokens/s and peak memory, as a JSON object.

    families_step.py --family bert|t5 [--layers 12] [--hidden 768] [--heads 12] [--seq 512] [--decoder 128]
                     [--vocab 30528] [--batch 4] [--dtype fp32|bf16] [--attention math|flash] [--compile] [--steps 12]
                     [--threads N]

The models are those of `troupe train bert` and `troupe train t5 --t5-form v1.0`, without dropout. A BERT has norms
before its layers and both heads. A T5 has --layers in each stack. Queries, keys and values are one product. Each text
has half to all of its tokens, and attention sees no padding. A step has forward and backward pass, clipping and fused
AdamW; bf16 is autocast. The first three steps are left out. Tokens are those of the BERT, or of the T5's decoder, with
padding, as in Troupe's log. against_pytorch.py runs it. Needs PyTorch.
"""

import argparse
import json
import math
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LEFT_OUT = 3
BUCKETS, MOST = 32, 128  # of T5's distances


class attention(nn.Module):
    """Of a stream to itself, or to `memory`."""

    def __init__(self, o, crosses=False):
        super().__init__()
        C, bias = o.hidden, o.family == "bert"
        self.heads, self.crosses, self.scale = o.heads, crosses, None if bias else 1.0
        self.q = nn.Linear(C, C, bias=bias) if crosses else None
        self.kv = nn.Linear(C, (2 if crosses else 3) * C, bias=bias)
        self.out = nn.Linear(C, C, bias=bias)

    def forward(self, x, mask, memory=None):
        B, T, C = x.shape
        if self.crosses:
            q, (k, v) = self.q(x), self.kv(memory).chunk(2, -1)
        else:
            q, k, v = self.kv(x).chunk(3, -1)
        q, k, v = (y.reshape(B, -1, self.heads, C // self.heads).transpose(1, 2) for y in (q, k, v))
        mask = mask if mask.dtype == torch.bool else mask.to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, mask, scale=self.scale)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


def norm(o):
    return nn.LayerNorm(o.hidden, 1e-5) if o.family == "bert" else nn.RMSNorm(o.hidden, 1e-6)


class layer(nn.Module):
    def __init__(self, o, crosses=False):
        super().__init__()
        bias = o.family == "bert"
        self.norms = nn.ModuleList(norm(o) for _ in range(3 if crosses else 2))
        self.self_attention = attention(o)
        self.cross_attention = attention(o, True) if crosses else None
        self.up, self.down = nn.Linear(o.hidden, 4 * o.hidden, bias=bias), nn.Linear(4 * o.hidden, o.hidden, bias=bias)
        self.act = (lambda x: F.gelu(x, approximate="tanh")) if bias else F.relu

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = x + self.self_attention(self.norms[0](x), mask)
        if self.cross_attention is not None:
            x = x + self.cross_attention(self.norms[1](x), memory_mask, memory)
        return x + self.down(self.act(self.up(self.norms[-1](x))))


def mean_loss(logits, labels, counts):
    losses = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum()


class bert(nn.Module):
    def __init__(self, o):
        super().__init__()
        C = o.hidden
        self.words, self.positions, self.types = nn.Embedding(o.vocab, C), nn.Embedding(o.seq, C), nn.Embedding(2, C)
        self.layers, self.norm = nn.ModuleList(layer(o) for _ in range(o.layers)), norm(o)
        self.dense, self.head_norm, self.bias = nn.Linear(C, C), norm(o), nn.Parameter(torch.zeros(o.vocab))
        self.pooler, self.order = nn.Linear(C, C), nn.Linear(C, 2)

    def forward(self, x):
        h = self.words(x["tokens"]) + self.positions.weight + self.types(x["types"])
        mask = x["real"][:, None, None, :]
        for each in self.layers:
            h = each(h, mask)
        h = self.norm(h)
        logits = F.linear(self.head_norm(F.gelu(self.dense(h))), self.words.weight, self.bias)
        order = self.order(torch.tanh(self.pooler(h[:, 0])))
        return mean_loss(logits, x["labels"], x["counts"]) + F.cross_entropy(order.float(), x["order"])


def buckets_of(T, both_ways):
    """T5's bucket of each pair of a query and a key."""
    distance = torch.arange(T)[None, :] - torch.arange(T)[:, None]
    n = BUCKETS // 2 if both_ways else BUCKETS
    first = (distance > 0) * n if both_ways else 0
    back, exact = distance.abs() if both_ways else (-distance).clamp(min=0), n // 2
    far = exact + (torch.log(back.clamp(min=1) / exact) / math.log(MOST / exact) * (n - exact)).long()
    return first + torch.where(back < exact, back, far.clamp(max=n - 1))


class t5(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.words, self.width = nn.Embedding(o.vocab, o.hidden), o.hidden
        self.encoder = nn.ModuleList(layer(o) for _ in range(o.layers))
        self.decoder = nn.ModuleList(layer(o, True) for _ in range(o.layers))
        self.norms = nn.ModuleList(norm(o) for _ in range(2))
        self.biases = nn.ModuleList(nn.Embedding(BUCKETS, o.heads) for _ in range(2))
        self.register_buffer("encoder_buckets", buckets_of(o.seq, True), persistent=False)
        self.register_buffer("decoder_buckets", buckets_of(o.decoder, False), persistent=False)
        self.register_buffer("past", torch.ones(o.decoder, o.decoder, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        def biases(which, buckets, allowed):
            return self.biases[which](buckets).permute(2, 0, 1)[None].masked_fill(~allowed, -1e9)

        text, real = self.words(x["text"]), x["real"][:, None, None, :]
        mask = biases(0, self.encoder_buckets, real)
        for each in self.encoder:
            text = each(text, mask)
        text, h = self.norms[0](text), self.words(x["tokens"])
        mask = biases(1, self.decoder_buckets, self.past)
        for each in self.decoder:
            h = each(h, mask, text, real)
        return mean_loss(F.linear(self.norms[1](h) * self.width**-0.5, self.words.weight), x["labels"], x["counts"])


def texts(o, T):
    """Tokens, and which of them are real: half to all."""
    lengths = torch.randint((T + 1) // 2, T + 1, (o.batch, 1))
    return torch.randint(0, o.vocab, (o.batch, T)), torch.arange(T)[None] < lengths


def batch_of(o):
    tokens, real = texts(o, o.seq)
    if o.family == "t5":
        own, counts = texts(o, o.decoder)
        return dict(text=tokens, real=real, tokens=own, labels=own.roll(-1, 1), counts=counts.float())
    counts = real & ((torch.rand(tokens.shape) < 0.15) | (torch.arange(o.seq) == 1))
    types = (torch.arange(o.seq)[None] * 2 >= real.sum(1, keepdim=True)) & real
    return dict(tokens=tokens, real=real, types=types.long(), labels=tokens, counts=counts.float(),
                order=torch.randint(0, 2, (o.batch,)))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--family", choices=["bert", "t5"], required=True)
    for name, default in dict(layers=12, hidden=768, heads=12, seq=512, decoder=128, vocab=30528, batch=4, steps=12,
                              threads=2).items():
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    a.add_argument("--attention", choices=["math", "flash"], default="flash")
    a.add_argument("--compile", action="store_true")
    o = a.parse_args()
    if o.steps <= LEFT_OUT:
        a.error(f"--steps {o.steps}: the first {LEFT_OUT} are left out, so give more")
    torch.manual_seed(0)
    torch.set_num_threads(o.threads)
    model = bert(o) if o.family == "bert" else t5(o)
    for x in model.parameters():
        if x.dim() > 1:
            nn.init.normal_(x, std=0.02)
    run = torch.compile(model) if o.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    batches, took = [batch_of(o) for _ in range(4)], []
    kernels = [SDPBackend.MATH] if o.attention == "math" else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(kernels):
        for i in range(o.steps):
            began = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=o.dtype == "bf16"):
                loss = run(batches[i % len(batches)])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            took.append(time.perf_counter() - began)
    tokens = o.batch * (o.decoder if o.family == "t5" else o.seq)
    print(json.dumps({"torch": torch.__version__, "parameters": sum(x.numel() for x in model.parameters()),
                      "loss": round(loss.item(), 4), "tokens_per_second": tokens / statistics.median(took[LEFT_OUT:]),
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
