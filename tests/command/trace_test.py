"""examples/draw_trace.py draws a step of a real trace and accounts for its whole time. Run by ctest.

    trace_test.py PROGRAM SOURCES
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

JOB = """--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 256 --micro-batch-size 1
    --global-batch-size 8 --train-iters 3 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer
    --vocab-size 100 --eval-iters 0 --threads-per-worker 1 --world-size 4
    --pipeline-model-parallel-size 2 --overlap-grad-reduce --ddp-bucket-size 1000""".split()


def complaints(program, sources, folder):
    trace, drawing = folder / "trace.json", folder / "step.svg"
    subprocess.run([program, "train", "gpt", *JOB, "--trace", trace], check=True, timeout=120,
                   capture_output=True)
    draw = [sys.executable, sources / "examples/draw_trace.py", trace]
    done = subprocess.run([*draw, "2", "--output", drawing], capture_output=True, text=True,
                          timeout=60)
    if done.returncode != 0:
        yield done.stderr
        return
    spans = [x for x in json.loads(trace.read_text())["traceEvents"]
             if x["ph"] == "X" and x["args"]["step"] == 2]
    svg = "{http://www.w3.org/2000/svg}"
    picture = xml.parse(drawing).getroot()
    if len(list(picture.iter(f"{svg}title"))) != len(spans):
        yield f"{len(spans)} spans, but the drawing has another number"
    bars = [x for x in picture.iter(f"{svg}rect") if x.find(f"{svg}title") is not None]
    texts = [x for x in picture.iter(f"{svg}text") if x.get("text-anchor") == "middle" and x.get("fill") == "white"]
    if not texts:
        yield "no span of the drawing has a label"
    for text in texts:
        around = [x for x in bars if 0 <= float(text.get("y")) - float(x.get("y")) <= float(x.get("height"))
                  and abs(float(x.get("x")) + float(x.get("width")) / 2 - float(text.get("x"))) < 0.2]
        # 8: the widest letters of the font, in pixels
        if not any(text.text == x.find(f"{svg}title").text.rsplit(":", 1)[0]
                   and float(x.get("width")) > 8 * len(text.text) for x in around):
            yield f"the label '{text.text}' is wider than its span, or has none"
    labels = {x.text for x in picture.iter(f"{svg}text") if x.get("text-anchor") == "end"}
    called = {f"rank {x['pid']}" + ("" if x["tid"] == 0 else ", communicates") for x in spans}
    if labels != called:
        yield f"rows of the drawing {labels}, expected {called}"
    length = float(re.match(r"([\d.]+) ms", done.stdout)[1])
    tracks = re.findall(r"^rank \d+(, communicates)?: (.*) ms; idle ([\d.]+) ms", done.stdout, re.M)
    if len(tracks) != len({(x["pid"], x["tid"]) for x in spans}) or not any(x for x, _, _ in tracks):
        yield f"the account has other tracks than the trace:\n{done.stdout}"
    for _, parts, idle in tracks:
        total = sum(float(x) for x in re.findall(r"([\d.]+)(?:,|$)", parts)) + float(idle)
        if abs(total - length) > 0.05 * 9:  # up to nine figures, each rounded to a tenth
            yield f"{parts}, {idle}: {total:.1f} of {length} ms are accounted for"
    none = subprocess.run([*draw, "9"], capture_output=True, text=True, timeout=60)
    if none.returncode == 0 or "has no step 9" not in none.stderr:
        yield "a missing step is not refused"


def main(program, sources):
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(complaints(program, sources, pathlib.Path(folder)))
    print("\n".join(wrong) or "passed")
    return len(wrong) != 0


sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
