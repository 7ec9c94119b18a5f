"""Makes sampler.json, the reference for runtime/data/sampler.hpp: permutations by PyTorch, and micro-batches
by the rule of Megatron-LM's random sampler. The rule is written here again, because megatron-core lacks it.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.6.0
    /tmp/golden/bin/python tests/golden/data/sampler.py

Each run writes the same file except for its date. The tests need none of these packages.
"""

import datetime
import hashlib
import json
import pathlib

import torch


def permutation(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()


def epochs(total, consumed, micro, replicas, sharded, steps):
    """Micro-batches of each replica, one list per step."""
    at_once = micro * replicas
    epoch_size = total - total % at_once
    out = []
    while len(out) < steps:
        epoch, within = divmod(consumed, epoch_size)
        of_replicas = []
        for replica in range(replicas):
            if sharded:
                share = total // at_once * micro
                order = [replica * share + x for x in permutation(share, epoch)[within // replicas :]]
            else:
                order = permutation(total // micro * micro, epoch)[within:][replica::replicas]
            of_replicas.append([order[i : i + micro] for i in range(0, len(order), micro)])
        for step in range((epoch_size - within) // at_once):
            out.append([batches[step] for batches in of_replicas])
            consumed += at_once
    return out[:steps]


def main():
    digests = []
    for n, seed in [(1, 0), (2, 5), (1000, 0), (100003, 7)]:
        text = ",".join(map(str, permutation(n, seed)))
        digests.append({"n": n, "seed": seed, "sha256": hashlib.sha256(text.encode()).hexdigest()})
    cases = [
        {"total": total, "consumed": consumed, "micro": micro, "replicas": replicas, "sharded": sharded,
         "steps": epochs(total, consumed, micro, replicas, sharded, 12)}
        for total, consumed, micro, replicas in [(23, 0, 2, 2), (23, 36, 2, 2), (10, 0, 1, 3), (7, 5, 1, 1)]
        for sharded in (True, False)
    ]
    out = {
        "made": datetime.date.today().isoformat(),
        "by": {"torch": torch.__version__},
        "permutations": digests,
        "cyclic": cases,
    }
    pathlib.Path(__file__).with_name("sampler.json").write_text(json.dumps(out) + "\n")


main()
