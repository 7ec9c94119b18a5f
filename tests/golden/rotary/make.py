"""Makes golden.json, the reference for runtime/model/layers/rotary: radians per position and the factor of
cosine and sine, by megatron-core and by transformers.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy==2.4.6 torch==2.15.0 einops packaging transformers==5.24.0
    /tmp/golden/bin/pip install --no-deps megatron-core==0.16.1
    /tmp/golden/bin/python tests/golden/rotary/make.py

Each run writes the same file except for its date. The tests need none of these packages. Both
compute in single precision; the tests allow for that.
"""

import datetime
import importlib.metadata
import json
import pathlib
import platform

import torch

torch.cuda.current_device = lambda: "cpu"  # megatron-core always puts its tables on a GPU

from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
from megatron.core.models.common.embeddings.yarn_rotary_pos_embedding import YarnRotaryEmbedding
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

# All cases, with troupe's names; missing fields have the defaults of gpt_config.
PLAIN = [
    {"head_size": 64, "base": 10000},
    {"head_size": 64, "base": 10000, "percent": 0.25},
    {"head_size": 128, "base": 1000000, "interpolation": 4},
    {"head_size": 128, "base": 500000, "scaling": "llama3", "factor": 8},
    {"head_size": 64, "base": 500000, "scaling": "llama3", "factor": 32},
    {"head_size": 128, "base": 500000, "scaling": "llama3", "factor": 8, "interpolation": 2},
]
YARN = [
    {"head_size": 64, "base": 150000, "factor": 32, "positions": 4096, "round": False},
    {"head_size": 128, "base": 10000, "factor": 4, "positions": 4096},
    {"head_size": 128, "base": 1000000, "factor": 4, "positions": 32768},
    {"head_size": 64, "base": 10000, "factor": 40, "positions": 4096, "mscale": 0.707, "mscale_all": 1.0},
    {"head_size": 32, "base": 10000, "factor": 1, "positions": 64},
    {"head_size": 16, "base": 100, "factor": 8, "positions": 16, "fast": 4, "slow": 0.5},
]
HUB = [
    {"head_size": 128, "base": 500000, "scaling": "llama3", "factor": 8},
    {"head_size": 64, "base": 500000, "scaling": "llama3", "factor": 32, "low": 2, "high": 5, "positions": 4096},
    {"head_size": 64, "base": 150000, "scaling": "yarn", "factor": 32, "positions": 4096, "round": False},
    {"head_size": 128, "base": 1000000, "scaling": "yarn", "factor": 4, "positions": 32768},
    {"head_size": 64, "base": 10000, "scaling": "yarn", "factor": 40, "positions": 4096, "mscale": 0.707,
     "mscale_all": 1.0},
    {"head_size": 64, "base": 50000, "scaling": "yarn", "factor": 32, "positions": 4096, "fast": 1, "slow": 1,
     "mscale": 1.0, "mscale_all": 1.0},
]
# Names in config.json of fields of YaRN.
HUB_NAMES = {"fast": "beta_fast", "slow": "beta_slow", "mscale": "mscale", "mscale_all": "mscale_all_dim"}


def numbers(x):
    return [float(f"{v:.9g}") for v in x.tolist()]


def plain(c):
    x = RotaryEmbedding(c["head_size"], c.get("percent", 1.0), rotary_base=c["base"],
                        seq_len_interpolation_factor=c.get("interpolation"), use_cpu_initialization=True,
                        rope_scaling=c.get("scaling") == "llama3", rope_scaling_factor=c.get("factor", 8))
    return c | {"by": "megatron-core", "frequencies": numbers(x.get_freqs_non_repeated(2)[1]), "concentration": 1}


def yarn(c):
    x = YarnRotaryEmbedding(c["head_size"], rotary_base=c["base"], use_cpu_initialization=True,
                            scaling_factor=c["factor"], original_max_position_embeddings=c["positions"],
                            beta_fast=c.get("fast", 32), beta_slow=c.get("slow", 1), mscale=c.get("mscale", 1),
                            mscale_all_dim=c.get("mscale_all", 0),
                            correction_range_round_to_int=c.get("round", True))
    angles, concentration = x.get_emb(2)
    return c | {"scaling": "yarn", "by": "megatron-core",
                "frequencies": numbers(angles[1, 0, 0, : c["head_size"] // 2]), "concentration": concentration}


def hub(c):
    rope = {"rope_type": c["scaling"], "rope_theta": float(c["base"]), "factor": float(c["factor"]),
            "original_max_position_embeddings": c.get("positions", 8192)}
    if c["scaling"] == "llama3":
        rope |= {"low_freq_factor": float(c.get("low", 1)), "high_freq_factor": float(c.get("high", 4))}
    else:
        rope |= {"truncate": c.get("round", True)}
        rope |= {theirs: c[ours] for ours, theirs in HUB_NAMES.items() if ours in c}
    fields = {"hidden_size": 4 * c["head_size"], "num_attention_heads": 4, "head_dim": c["head_size"],
              "max_position_embeddings": rope["original_max_position_embeddings"] * c["factor"]}
    config = LlamaConfig(**fields, rope_parameters=rope)
    frequencies, concentration = ROPE_INIT_FUNCTIONS[c["scaling"]](config, "cpu")
    return c | {"by": "transformers", "frequencies": numbers(frequencies), "concentration": concentration,
                "config": fields | {"rope_parameters": rope}}


def main():
    birth = {"made_by": "tests/golden/rotary/make.py", "date": datetime.date.today().isoformat(),
             "python": platform.python_version(),
             **{name: importlib.metadata.version(name) for name in ["megatron-core", "transformers", "torch"]}}
    cases = [plain(c) for c in PLAIN] + [yarn(c) for c in YARN] + [hub(c) for c in HUB]
    text = ",\n".join(json.dumps(x, separators=(",", ":")) for x in cases)
    pathlib.Path(__file__).with_name("golden.json").write_text(
        '{"birth":' + json.dumps(birth, separators=(",", ":")) + ',\n"cases":[\n' + text + "]}\n")


if __name__ == "__main__":
    main()
