"""Writes the model folders of golden runs. Needs the Python standard library only."""
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpt"))
from hf_model import draw, fnv  # noqa: E402


def weights(name, shape, kind, shift):
    """offset + 2^-shift * uniform(name, i), by ../golden/gpt/hf_model.py; offset 1 for the gains of norms, otherwise 0.

    Each value needs at most 24 significant bits, so it is exact in float32.
    """
    count = 1
    for extent in shape:
        count *= extent
    seed, step, offset = fnv(name), 2.0 ** -(19 + shift), 1.0 if kind == "gain" else 0.0
    return [offset + ((draw(seed, i) >> 44) - (1 << 19)) * step for i in range(count)]


def write(folder, config, tensors):
    """Writes config.json and model.safetensors (float32); `tensors`: (name, shape, values)."""
    header, body, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape, values in tensors:
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = dict(dtype="F32", shape=list(shape), data_offsets=[offset, offset + len(data)])
        body.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
