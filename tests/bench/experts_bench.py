"""Cost of experts in a training step, by balanced and skewed routing; and a worker's memory beside its forecast.

    experts_bench.py [--program FILE] [--only step,memory] [--model NAME] [--type fp32,bf16] [--rounds N] [--steps N]
                     [--threads N] [--json FILE]

The routing comes from weights: the script writes a Mixtral in which one channel of each token is a constant, and the
router's weights of this channel are offsets of the logits. The learning rate is too small to change them. *even*: no
offsets. *Zipf*: expert e has a share of 1 / (e + 1) of the rows. *worst*: all rows choose the first k experts. *in
turn*: no offsets, and --moe-router-force-load-balancing. Loads are those that the run's log counts, not those of the
recipe.

*step*: one worker; all routings and a model without experts, of the same active width, run in turn. Prints tokens/s
relative to routing in turn, and shares of a step: router, permutation, products of experts and their activations, other
operations, and the time between operations. Counts and places of rows are computed on the host between operations, as
are messages. So *dispatch* is the time between operations beyond that of the model without experts. The same follows
with two workers on the expert axis, each with half of the threads. There dispatch also has exchanges and waits, and the
model without experts sums more gradients between the workers.

*memory*: 1, 2 and 4 workers on the expert axis. Prints the peak that the run measured, the forecast of
`troupe memory --expert-load` for the counted load, and the difference; the goal is 5 %.

Needs only Python's standard library. Run it on an idle machine.
"""

import argparse
import array
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

from gpu_models import steps_in
from gpu_session import objects

MODELS = {
    "experts-llama": dict(layers=6, hidden=512, heads=8, groups=2, ffn=1024, T=256, vocab=8192, batch=4, experts=8,
                          chosen=2),
    "small": dict(layers=2, hidden=128, heads=4, groups=2, ffn=256, T=64, vocab=1024, batch=8, experts=8, chosen=2),
    "tiny": dict(layers=2, hidden=32, heads=2, groups=2, ffn=64, T=32, vocab=512, batch=4, experts=8, chosen=2),
}
WARM_UP = 3
CONSTANT = 8.0  # of one channel of the embedding; the others are normal
ROUTINGS = ("even", "Zipf", "worst")
GOAL = 0.05
PATIENCE = 300  # timeout of a run in seconds

# Names of operations, without the type. `widen` and `narrow` convert the rows of a gate in bf16.
ROUTER = {"route", "route_backward", "route_sums", "route_losses", "widen", "narrow"}
PERMUTATION = {"permute", "unpermute", "unpermute_backward_weight"}
EXPERTS = {"grouped_linear_forward", "grouped_linear_backward_input", "grouped_linear_backward_weight",
           "activation_forward", "activation_backward"}
GATE = {"linear_forward", "linear_backward_input", "linear_backward_weight"}  # with as many outputs as experts
GROUPS = ("router", "permutation", "experts", "other operations", "between operations")


def group_of(operation, experts):
    name = operation["name"].split("<")[0]
    if name in ROUTER or name in GATE and operation["extents"][1] == experts:
        return "router"
    return "permutation" if name in PERMUTATION else "experts" if name in EXPERTS else "other operations"


def milliseconds(profile, experts):
    """Milliseconds of a step in each group, from a file of --profile-operations."""
    out = dict.fromkeys(GROUPS, 0.0)
    for x in profile["operations"]:
        out[group_of(x, experts)] += x["ms_per_step"]
    out["between operations"] = profile["between_ms"]
    return out


def shares_of(routing, m):
    """Wanted shares of the choices, by expert; None: as the weights are without offsets."""
    if routing == "Zipf":
        return [1 / (e + 1) / sum(1 / (i + 1) for i in range(m["experts"])) for e in range(m["experts"])]
    return None


def offsets_of(routing, m):
    """Offsets of the logits, for logits that are normal with deviation 1."""
    E, k = m["experts"], m["chosen"]
    if routing == "worst":
        return [100.0 if e < k else 0.0 for e in range(E)]
    out, wanted, chance = [0.0] * E, shares_of(routing, m), random.Random(1)
    if wanted is None:
        return out
    rows = [[chance.gauss(0, 1) for _ in range(E)] for _ in range(2000)]
    for _ in range(60):
        counts = [1] * E
        for row in rows:
            for e in sorted(range(E), key=lambda e: -row[e] - out[e])[:k]:
                counts[e] += 1
        out = [x + 0.5 * math.log(share * sum(counts) / n) for x, share, n in zip(out, wanted, counts)]
    return out


def bf16(values):
    """The upper halves of floats."""
    wide, out = array.array("f", values).tobytes(), bytearray(2 * len(values))
    out[0::2], out[1::2] = wide[2::4], wide[3::4]
    return out


class weights:
    """A file of safetensors in bf16. Random tensors repeat a block whose length divides no row."""

    def __init__(self):
        chance = random.Random(2)
        self.block = [chance.gauss(0, 1) for _ in range(65521)]
        self.all, self.scaled = {}, {}

    def add(self, name, shape, deviation):
        n = math.prod(shape)
        if deviation not in self.scaled:
            self.scaled[deviation] = bf16([deviation * x for x in self.block])
        block = self.scaled[deviation]
        begin = 2 * (len(self.all) * 9973 % len(self.block))
        self.all[name] = (shape, (bytes(block) * (2 * n // len(block) + 2))[begin:begin + 2 * n])

    def add_values(self, name, shape, values):
        self.all[name] = (shape, bytes(bf16(values)))

    def write(self, file):
        header, at = {}, 0
        for name, (shape, data) in self.all.items():
            header[name] = dict(dtype="BF16", shape=shape, data_offsets=[at, at + len(data)])
            at += len(data)
        text = json.dumps(header).encode()
        with open(file, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            out.writelines(data for _, data in self.all.values())


def write_model(folder, m, offsets):
    """A Mixtral whose router adds these offsets to the logits."""
    C, F, E, D = m["hidden"], m["ffn"], m["experts"], m["hidden"] // m["heads"]
    w, chance = weights(), random.Random(3)
    embedding = "model.embed_tokens.weight"
    w.add(embedding, [m["vocab"], C], 1.0)
    rows, one = bytearray(w.all[embedding][1]), bf16([CONSTANT])
    for byte in (0, 1):
        rows[byte::2 * C] = one[byte:byte + 1] * m["vocab"]
    w.all[embedding] = ([m["vocab"], C], bytes(rows))
    w.add("lm_head.weight", [m["vocab"], C], 0.02)
    w.add_values("model.norm.weight", [C], [1.0] * C)
    size = math.sqrt((CONSTANT**2 + C - 1) / C)  # root mean square of an embedding
    for i in range(m["layers"]):
        layer = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            w.add_values(f"{layer}{name}.weight", [C], [1.0] * C)
        for name, rows in dict(q_proj=C, k_proj=m["groups"] * D, v_proj=m["groups"] * D, o_proj=C).items():
            w.add(f"{layer}self_attn.{name}.weight", [rows, C], 0.02)
        gate = []
        for e in range(E):
            gate += [offsets[e] * size / CONSTANT] + [chance.gauss(0, size / math.sqrt(C - 1)) for _ in range(C - 1)]
        w.add_values(f"{layer}block_sparse_moe.gate.weight", [E, C], gate)
        for e in range(E):
            for name, shape in dict(w1=[F, C], w2=[C, F], w3=[F, C]).items():
                w.add(f"{layer}block_sparse_moe.experts.{e}.{name}.weight", shape, 0.02)
    folder.mkdir()
    w.write(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(dict(
        model_type="mixtral", architectures=["MixtralForCausalLM"], hidden_act="silu", hidden_size=C,
        intermediate_size=F, num_hidden_layers=m["layers"], num_attention_heads=m["heads"],
        num_key_value_heads=m["groups"], vocab_size=m["vocab"], max_position_embeddings=m["T"], rms_norm_eps=1e-5,
        rope_theta=1e4, num_local_experts=E, num_experts_per_tok=m["chosen"], tie_word_embeddings=False,
        sliding_window=None)))
    return folder


def shape_words(m, workers, kind, expert_ranks=None):
    """Flags of shape and layout, for training and for the forecast. The default of expert_ranks is `workers`."""
    expert_ranks = expert_ranks or workers
    return ["--seq-length", m["T"], "--vocab-size", m["vocab"], "--make-vocab-size-divisible-by", 1,
            "--micro-batch-size", m["batch"], "--global-batch-size", workers * m["batch"], "--world-size", workers,
            *(["--expert-model-parallel-size", expert_ranks] if expert_ranks > 1 else []),
            *(["--bf16"] if kind == "bf16" else [])]


def with_experts(model):
    return ["--load-hf", model, "--moe-router-load-balancing-type", "none"]


def without_experts(m):
    """A model of as many active channels."""
    return ["--num-layers", m["layers"], "--hidden-size", m["hidden"], "--num-attention-heads", m["heads"],
            "--group-query-attention", "--num-query-groups", m["groups"], "--ffn-hidden-size", m["chosen"] * m["ffn"],
            "--max-position-embeddings", m["T"], "--swiglu", "--normalization", "RMSNorm",
            "--position-embedding-type", "rope", "--disable-bias-linear", "--untie-embeddings-and-output-weights",
            "--hidden-dropout", 0, "--attention-dropout", 0]


def called(o, *words):
    done = subprocess.run([str(x) for x in (o.program, *words)], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr


def train(o, folder, words, steps, threads):
    """Steps of the log, the profile, and the output."""
    log, profile = folder / "log.jsonl", folder / "profile.json"
    log.unlink(missing_ok=True)
    text = called(o, "train", "gpt", *words, "--mock-data", "--tokenizer-type", "NullTokenizer", "--train-iters", steps,
                  "--lr", 1e-7, "--eval-iters", 0, "--log-interval", 1, "--no-progress",
                  "--threads-per-worker", threads, "--save-tokens-per-expert-interval", 1, "--log-file", log,
                  "--profile-operations", profile)
    return steps_in(log), json.loads(profile.read_text()), text


def counts_of(steps):
    """Choices of each expert in all steps and layers."""
    layers = [counts for x in steps for counts in x.get("expert_counts", {}).values()]
    return [sum(x) for x in zip(*layers)]


def load_of(step, workers):
    """Rows of the worker with most, divided by the balanced number."""
    counts = counts_of([step])
    own = len(counts) // workers
    return max(sum(counts[r * own:(r + 1) * own]) for r in range(workers)) * workers / sum(counts)


def runs_of(m, models, kind):
    """Flags by (routing, workers)."""
    out = {}
    for workers in (1, 2):
        shape = shape_words(m, workers, kind)
        out["in turn", workers] = [*with_experts(models["even"]), "--moe-router-force-load-balancing", *shape]
        for routing in ("even", "Zipf"):
            out[routing, workers] = [*with_experts(models[routing]), *shape]
        out["no experts", workers] = [*without_experts(m), *shape_words(m, workers, kind, expert_ranks=1)]
    return out


def step(o, folder, m, models, kind):
    """Rates and shares of each routing, relative to routing in turn."""
    found, runs, rows, last = {}, runs_of(m, models, kind), [], GROUPS[-1]
    for _ in range(o.rounds):
        for (routing, workers), words in runs.items():
            steps, profile, _ = train(o, folder, words, o.steps + WARM_UP, max(1, o.threads // workers))
            found.setdefault((routing, workers), []).append(
                dict(rate=statistics.median(x["tokens_per_second"] for x in steps[WARM_UP:]), counts=counts_of(steps),
                     step_ms=profile["step_ms"], ms=milliseconds(profile, m["experts"])))
    print(f"\n{kind}, shares of a step in %:\n{'workers, routing':<17}{'tokens/s':>9}{'ratio':>7}"
          + "".join(f"{x:>19}" for x in GROUPS) + f"{'dispatch':>18}  shares of the rows")
    for (routing, workers), all_rounds in found.items():
        middle = lambda of, beside: statistics.median(map(of, all_rounds, found[beside, workers]))
        shares = {x: statistics.median(100 * r["ms"][x] / r["step_ms"] for r in all_rounds) for x in GROUPS}
        counts = all_rounds[0]["counts"]
        row = dict(type=kind, routing=routing, workers=workers, rate=statistics.median(r["rate"] for r in all_rounds),
                   ratio=middle(lambda a, b: a["rate"] / b["rate"], "in turn"), shares=shares,
                   step_ms=statistics.median(r["step_ms"] for r in all_rounds),
                   dispatch_ms=middle(lambda a, b: a["ms"][last] - b["ms"][last], "no experts"),
                   load=[round(100 * x / sum(counts), 1) for x in counts])
        rows.append(row)
        dispatch = f"{100 * row['dispatch_ms'] / row['step_ms']:.1f} ({row['dispatch_ms']:.1f} ms)"
        print(f"{workers}, {routing:<14}{row['rate']:>9.0f}{row['ratio']:>7.2f}"
              + "".join(f"{share:>19.1f}" for share in shares.values()) + f"{dispatch:>18}"
              + f"  {' '.join(map(str, row['load']))}", flush=True)
    return rows


def bytes_in(text, pattern):
    found = re.search(pattern + r"([0-9.]+) (B|kB|MB|GB)", text)
    if not found:
        sys.exit(f"no '{pattern}' in:\n{text[-2000:]}")
    return float(found[1]) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[found[2]]


def memory(o, folder, m, models, kind):
    """Measured and forecast peaks for each routing and number of workers."""
    rows = []
    print(f"\n{kind}, peak memory of a worker:\n{'workers':>7} {'routing':<8}{'load':>6}{'measured':>11}"
          f"{'forecast':>11}{'differs':>9}  balanced, worst")
    for workers in (1, 2, 4):
        for routing in ROUTINGS:
            words = [*with_experts(models[routing]), *shape_words(m, workers, kind)]
            steps, _, text = train(o, folder, words, 4, 1)
            load = max(load_of(x, workers) for x in steps)
            said = next(objects(called(o, "memory", "gpt", *words, "--expert-load", f"{max(load, 1):.4f}", "--json")))
            balanced, chosen, worst = (x["peak"] for x in said["expert_loads"])
            measured = bytes_in(text, r"peak memory per worker: ")
            rows.append(dict(type=kind, workers=workers, routing=routing, load=load, measured=measured, forecast=chosen,
                             balanced=balanced, worst=worst, differs=measured / chosen - 1))
            print(f"{workers:>7} {routing:<8}{load:>6.2f}{measured / 1e6:>8.1f} MB{chosen / 1e6:>8.1f} MB"
                  f"{100 * rows[-1]['differs']:>+8.1f}%  {balanced / 1e6:.1f}, {worst / 1e6:.1f} MB"
                  f"{'' if abs(rows[-1]['differs']) <= GOAL else '  MISSES THE GOAL'}", flush=True)
    return rows


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    a.add_argument("--program", default=root / "build/release/bin/troupe")
    a.add_argument("--only", default="step,memory")
    a.add_argument("--model", default="experts-llama", choices=MODELS)
    a.add_argument("--type", default="fp32,bf16")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=6)
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--json")
    o = a.parse_args()
    m, parts, found = MODELS[o.model], dict(step=step, memory=memory), {}
    for part in o.only.split(","):
        if part not in parts:
            a.error(f"there is no part '{part}'; there are: {', '.join(parts)}")
    for kind in o.type.split(","):
        if kind not in ("fp32", "bf16"):
            a.error(f"there is no type '{kind}'; there are: fp32, bf16")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {x: write_model(folder / x, m, offsets_of(x, m)) for x in ROUTINGS}
        for part in o.only.split(","):
            found[part] = [row for kind in o.type.split(",") for row in parts[part](o, folder, m, models, kind)]
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
