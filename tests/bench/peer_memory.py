"""Peak memory of a PyTorch script within a step on a CPU, by allocation size.

    peer_memory.py [--accumulate N] SCRIPT [ARGUMENT...]

Runs the script unchanged under PyTorch's profiler, which records each allocation of the CPU allocator. With
--accumulate its optimizer updates only in every Nth step. Prints a JSON object: the parameters P, the peak of bytes
beyond parameters and moments (12 P) between two updates, and the sizes with the most bytes among these. Compare with
the formulas of runtime/family/gpt/gpt_estimates.hpp.
"""

import argparse
import collections
import json
import runpy
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

UPDATE = "peer_memory: update"

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("script")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
words = parser.parse_args()

parameters = []
calls = 0
step = torch.optim.AdamW.step
zero_grad = torch.optim.AdamW.zero_grad


def seldom(optimizer, *where, **how):
    global parameters, calls
    calls += 1
    if calls % words.accumulate:
        return None
    parameters = [p.numel() for group in optimizer.param_groups for p in group["params"]]
    out = step(optimizer, *where, **how)
    with record_function(UPDATE):
        pass
    return out


torch.optim.AdamW.step = seldom
torch.optim.AdamW.zero_grad = lambda *where, **how: None if calls % words.accumulate else zero_grad(*where, **how)
sys.argv = [words.script, *words.arguments]
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
    runpy.run_path(words.script, run_name="__main__")

events = sorted(seen.profiler.kineto_results.events(), key=lambda x: x.start_ns())
updates = [x.start_ns() for x in events if x.name() == UPDATE]
if len(updates) < 2:
    sys.exit(f"peer_memory.py: {sys.argv[0]} took {len(updates)} updates; at least 2 are needed (see its --steps)")
allocations = [(x.start_ns(), x.nbytes()) for x in events if x.name() == "[memory]" and x.start_ns() <= updates[-1]]


def live_at_most():
    """Peak of bytes between the last two updates, and its time."""
    live, out = 0, (0, 0)
    for when, size in allocations:
        live += size
        if when > updates[-2]:
            out = max(out, (live, when))
    return out


most, when = live_at_most()
sizes = collections.Counter({4 * n: -3 * count for n, count in collections.Counter(parameters).items()})
for time, size in allocations:
    if time <= when:
        sizes[abs(size)] += 1 if size > 0 else -1
largest = sorted(((size * count, count, size) for size, count in sizes.items() if count > 0), reverse=True)[:12]
print(json.dumps({"torch": torch.__version__, "parameters": sum(parameters), "peak_bytes": most - 12 * sum(parameters),
                  "largest": [{"arrays": count, "bytes_each": size} for _, count, size in largest]}))
