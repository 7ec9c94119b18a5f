"""The model of `bench_step` in PyTorch: tokens/s of a whole training step on the CPU.

    GOMP_SPINCOUNT=1000 python3 tests/bench/pytorch_step.py --threads 2 [--bf16] [--math]

6 layers, 384 channels, 6 heads, T 256, V 65, B 12, no dropout; forward, backward, clipping, fused AdamW. Needs PyTorch
(used with 2.6). No test runs it.
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

L, C, H, T, V, B = 6, 384, 6, 256, 65, 12


class layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(C, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.layers = nn.ModuleList(layer() for _ in range(L))
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight
        for each in self.layers:
            x = each(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--steps", type=int, default=12, help="the first two are left out")
    words.add_argument("--bf16", action="store_true", help="products under autocast")
    words.add_argument("--math", action="store_true", help="attention by plain products")
    given = words.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1234)
    kernels = [SDPBackend.MATH] if given.math else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    model = gpt()
    for each in model.parameters():
        if each.dim() > 1:
            nn.init.normal_(each, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids, labels = torch.randint(V, (2, B, T))
    took = []
    for _ in range(given.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bf16), sdpa_kernel(kernels):
            loss = model(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        took.append(time.perf_counter() - begin)
    middle = statistics.median(took[2:])
    print(f"PyTorch {torch.__version__}, {given.threads} threads: {1e3 * middle:.1f} ms a step, "
          f"{B * T / middle:.0f} tokens/s; loss {loss.item():.4f}")


main()
