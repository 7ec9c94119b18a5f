"""Shares, loads and ratios of benchmarks beside PyTorch, with a fake troupe and a fake PyTorch. Run by ctest."""

import argparse
import array
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import against_pytorch  # noqa: E402
import experts_bench as bench  # noqa: E402

# Counts the rows of four experts, of which the first has half. With two workers the load is 0.75 x 2.
TROUPE = '''#!/usr/bin/env python3
import json, pathlib, sys
after = lambda name: sys.argv[sys.argv.index(name) + 1]
if sys.argv[1] == "memory":
    print("a warning {")
    loads = [1.0, float(after("--expert-load")), 4.0]
    print(json.dumps({"expert_loads": [{"load": x, "peak": 10**6 * x} for x in loads]}))
    sys.exit()
mixed = "--load-hf" in sys.argv
steps = int(after("--train-iters"))
step = {"lm_loss": 4, "tokens_per_second": 100 if mixed else 150}
if mixed:
    assert (pathlib.Path(after("--load-hf")) / "model.safetensors").exists()
    step["expert_counts"] = {"decoder.layers.0": [4, 2, 1, 1], "decoder.layers.1": [4, 2, 1, 1]}
pathlib.Path(after("--log-file")).write_text((json.dumps(step) + "\\n") * steps + '{"validation_loss": 1}\\n')
if "--profile-operations" in sys.argv:
    times = {"route<float>": 1, "permute<bf16>": 2, "grouped_linear_forward<bf16>": 3, "attention_forward<bf16>": 2}
    operations = [{"name": x, "extents": [0, 0, 0], "ms_per_step": ms} for x, ms in times.items()]
    pathlib.Path(after("--profile-operations")).write_text(
        json.dumps({"steps": 1, "step_ms": 10, "between_ms": 2 if mixed else 1.5, "operations": operations}))
two = "--expert-model-parallel-size" in sys.argv and after("--world-size") == "2"
print(" peak memory per worker: %s (forecast 1 MB)" % ("1.53 MB" if two else "1 MB"))
'''
# The loop is faster. This PyTorch has no grouped product.
PEER = '''import sys
if "grouped" in sys.argv:
    sys.exit("AttributeError: module 'torch' has no attribute '_grouped_mm'")
assert sys.argv[sys.argv.index("--experts") + 1] == "8"
print('{"tokens_per_second": %d, "torch": "2.0"}' % (80 if "math" in sys.argv else 50))
'''


PEER_OF_FAMILIES = '''import json, sys
after = lambda name: sys.argv[sys.argv.index(name) + 1]
assert after("--family") == "t5" and after("--seq") == "16" and after("--decoder") == "8"
print(json.dumps({"tokens_per_second": 120 if after("--attention") == "flash" else 75}))
'''


def program(folder):
    file = folder / "troupe"
    file.write_text(TROUPE)
    file.chmod(0o755)
    return file


def each_operation_has_a_group(folder):
    sources = "".join(x.read_text() for x in (HERE.parents[1] / "kernels/op").glob("*.hpp"))
    for name in bench.ROUTER | bench.PERMUTATION | bench.EXPERTS | bench.GATE:
        assert f"struct {name} " in sources, f"{name} is no operation"
    of = lambda name, N=0: bench.group_of({"name": f"{name}<bf16>", "extents": [0, N, 0]}, 8)
    found = [of("linear_forward", 8), of("linear_forward", 64), of("route_sums")]
    assert found == ["router", "other operations", "router"], found


def a_file_has_the_weights(folder):
    m = bench.MODELS["tiny"]
    bench.write_model(folder / "model", m, [9.0] + [0.0] * 7)
    data = (folder / "model/model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, values = json.loads(data[8:8 + size]), data[8 + size:]
    assert max(x["data_offsets"][1] for x in header.values()) == len(values)

    def read(name):
        begin, end = header[name]["data_offsets"]
        wide = bytearray(2 * (end - begin))
        wide[2::4], wide[3::4] = values[begin:end:2], values[begin + 1:end:2]
        return array.array("f", bytes(wide))

    embedding, gate = read("model.embed_tokens.weight"), read("model.layers.1.block_sparse_moe.gate.weight")
    C = m["hidden"]
    assert set(embedding[::C]) == {bench.CONSTANT} and len(set(embedding)) > 1000
    root = (sum(x * x for x in embedding[:C]) / C) ** 0.5
    assert abs(gate[0] * bench.CONSTANT / root - 9) < 0.9 and gate[C] == 0 and len(set(gate[C:2 * C])) > C / 2


def offsets_make_the_wanted_shares(folder):
    m = bench.MODELS["tiny"]
    offsets, chance = bench.offsets_of("Zipf", m), bench.random.Random(7)
    counts = [0] * 8
    for _ in range(4000):
        row = [x + chance.gauss(0, 1) for x in offsets]
        for e in sorted(range(8), key=lambda e: -row[e])[:2]:
            counts[e] += 1
    for n, wanted in zip(counts, bench.shares_of("Zipf", m)):
        assert abs(n / 8000 - wanted) < 0.02, counts


def shares_and_loads_are_those_of_the_run(folder):
    o = argparse.Namespace(program=program(folder), rounds=2, steps=2, threads=2)
    m = dict(bench.MODELS["tiny"], experts=4)
    models = {x: bench.write_model(folder / x, m, bench.offsets_of(x, m)) for x in bench.ROUTINGS}
    rows = {(x["routing"], x["workers"]): x for x in bench.step(o, folder, m, models, "bf16")}
    assert len(rows) == 8
    for workers in (1, 2):
        Zipf, dense = rows["Zipf", workers], rows["no experts", workers]
        assert list(Zipf["shares"].values()) == [10, 20, 30, 20, 20] and Zipf["dispatch_ms"] == 0.5, Zipf
        assert Zipf["ratio"] == 1 and dense["ratio"] == 1.5 and dense["dispatch_ms"] == 0
        assert rows["even", workers]["load"] == [50, 25, 12.5, 12.5] and dense["load"] == []
    rows = {x["workers"]: x for x in bench.memory(o, folder, m, models, "fp32")}
    assert [rows[n]["load"] for n in (1, 2, 4)] == [1, 1.5, 2], rows
    assert abs(rows[2]["differs"] - 0.02) < 1e-9 and rows[4]["differs"] == -0.5


def the_best_variant_of_the_peer_counts(folder):
    peer = folder / "peer.py"
    peer.write_text(PEER)
    o = argparse.Namespace(program=program(folder), peer=peer, python=sys.executable, rounds=2, steps=2, threads=2,
                           limit=60, compile=False)
    row = against_pytorch.compare(o, "tiny-experts", "fp32")
    assert row["variant"] == "math, loop" and row["pytorch"] == 80 and row["ratio"] == 150 / 80, row
    assert set(row["left_out"]) == {"math, grouped", "fused, grouped"}, row


def a_family_has_a_peer_of_its_own(folder):
    peer, usual = folder / "peer.py", against_pytorch.PEER_OF_FAMILIES
    peer.write_text(PEER_OF_FAMILIES)
    against_pytorch.PEER_OF_FAMILIES = peer
    o = argparse.Namespace(program=program(folder), peer=None, python=sys.executable, rounds=1, steps=2, threads=2,
                           limit=60, compile=False)
    row = against_pytorch.compare(o, "tiny-t5", "fp32")
    assert usual.exists() and row["variant"] == "fused" and row["ratio"] == 150 / 120, row
    words = against_pytorch.words_of("gpt2", against_pytorch.MODELS["tiny-t5"], 2, 2, 5)
    assert words[1] == "t5" and "--max-position-embeddings" not in words, words


for check in [each_operation_has_a_group, a_file_has_the_weights, offsets_make_the_wanted_shares,
              shares_and_loads_are_those_of_the_run, the_best_variant_of_the_peer_counts,
              a_family_has_a_peer_of_its_own]:
    with tempfile.TemporaryDirectory() as place:
        check(pathlib.Path(place))
