"""Makes golden.json, the reference for runtime/layout and the pipeline stages of runtime/model: rank
groups of several layouts and orders, and layout strings, by megatron-core.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.15.0 packaging
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/layout/make.py

Each run writes the same file except for its date. The tests need none of these packages.
"""

import datetime
import importlib.metadata
import json
import pathlib
import platform

from megatron.core.parallel_state import (
    RankGenerator,
    default_embedding_ranks,
    default_position_embedding_ranks,
)
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

# world, tp, cp, ep, etp, pp, order
LAYOUTS = [
    (16, 2, 1, 1, 2, 4, "tp-cp-ep-dp-pp"),
    (16, 2, 2, 4, 1, 2, "tp-cp-ep-dp-pp"),
    (16, 2, 1, 1, 2, 4, "tp-cp-ep-pp-dp"),
    (24, 2, 3, 3, 2, 2, "tp-cp-ep-dp-pp"),
    (24, 3, 2, 2, 2, 2, "cp-tp-dp-ep-pp"),
    (32, 4, 2, 8, 1, 2, "tp-ep-cp-dp-pp"),
    (12, 1, 2, 1, 1, 3, "dp-cp-pp"),
    (8, 2, 1, 1, 2, 2, "pp-dp-tp"),
    (8, 1, 1, 8, 1, 1, "ep-dp"),
    (6, 1, 1, 1, 1, 1, "tp-cp-ep-dp-pp"),
]

STAGES = [
    ("Et*3|(tt|)*29,m|L", 32),
    ("Ett|tt|tt|ttL", 4),
    ("E|t*4|(t|)*2L", 5),
    ("E,t*3||(tt)*2,L", 3),
    ("E(t|t)*3|L", 5),
    ("EL", 1),
    ("E(t|)*12L", 13),
]


def layout(world, tp, cp, ep, etp, pp, order):
    dense = RankGenerator(tp=tp, ep=1, dp=world // (tp * cp * pp), pp=pp, cp=cp, order=order)
    expert = RankGenerator(tp=etp, ep=ep, dp=world // (etp * ep * pp), pp=pp, cp=1, order=order)
    assert dense.get_ranks("pp") == expert.get_ranks("pp")
    groups = {name: dense.get_ranks(name) for name in
              ["tp", "cp", "dp", "dp-cp", "pp", "tp-pp", "tp-cp", "tp-dp", "tp-dp-cp"]}
    groups |= {"expert " + name: expert.get_ranks(name) for name in ["tp", "ep", "dp", "tp-ep", "tp-ep-pp"]}
    groups["embedding"] = [default_embedding_ranks(g) for g in dense.get_ranks("pp")]
    groups["position embedding"] = [default_position_embedding_ranks(g) for g in dense.get_ranks("pp")]
    return {"world": world, "tp": tp, "cp": cp, "ep": ep, "etp": etp, "pp": pp, "order": order, "groups": groups}


def stages(text, size):
    parsed = PipelineParallelLayerLayout(text, size)
    return {"text": text, "stages": ["".join({"embedding": "E", "loss": "L", "decoder": "t", "mtp": "m"}[x.name]
                                             for x in rank[0]) for rank in parsed.layout]}


def main():
    birth = {"made_by": "tests/golden/layout/make.py", "date": datetime.date.today().isoformat(),
             "python": platform.python_version(),
             **{name: importlib.metadata.version(name) for name in ["megatron-core", "torch"]}}
    parts = {"birth": birth, "layouts": [layout(*x) for x in LAYOUTS], "stages": [stages(*x) for x in STAGES]}
    lines = []
    for name, part in parts.items():
        text = (json.dumps(part, separators=(",", ":")) if name == "birth" else
                "[\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in part) + "]")
        lines.append(f'"{name}":{text}')
    pathlib.Path(__file__).with_name("golden.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
