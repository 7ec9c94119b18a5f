"""`troupe schedule draw`: pictures, traces and terminals, planned and executed. Run by ctest.

    schedule_draw_test.py PROGRAM NAME...   runs the named checks, or all
"""

import collections
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as xml

import cli_test
from cli_test import refuses, run, works, wrong

SVG = "{http://www.w3.org/2000/svg}"


def same(what, is_, should):
    if is_ != should:
        raise wrong(f"{what}: {is_!r}, expected {should!r}")


def draw(*words):
    return works("schedule", "draw", *words)


def tips(picture):
    return [x.text for x in xml.fromstring(picture).iter(SVG + "title")]


def check_picture(folder):
    """A picture has one labelled box per action, within its bounds, and is the same each time."""
    for name in ("gpipe", "1f1b", "izb", "zb-v", "dualpipe", "dualpipev"):
        size = ("--ranks", 4, "--microbatches", 12)
        plan = works("schedule", "plan", name, *size)
        actions = [x for x in re.split(r"[\n,;()]+", plan) if x]
        picture = draw(name, *size, "--svg", "-", "--memory")
        drawn = [re.match(r"rank \d+: (\S+),", x)[1] for x in tips(picture)]
        same(f"actions drawn for {name}", collections.Counter(drawn), collections.Counter(actions))
        root = xml.fromstring(picture)
        for box in root.iter(SVG + "rect"):
            end = float(box.get("x", 0)) + float(box.get("width"))
            if end > float(root.get("width")):
                raise wrong(f"a box of {name} ends at {end}, outside the picture")
        same("a second picture", draw(name, *size, "--svg", "-", "--memory"), picture)
    file = folder / "a <b> & \"c\".csv"
    file.write_text(works("schedule", "plan", "zb-h1", "--ranks", 2, "--microbatches", 3))
    texts = [x.text for x in xml.fromstring(draw(file, "--svg", "-")).iter(SVG + "tspan")]
    if str(file) not in texts:
        raise wrong(f"the title lacks the file's name: {texts}")
    two = draw("1f1b", "zb-h1", "--ranks", 2, "--microbatches", 3, "--svg", folder / "two.svg")
    same("the output", two, f"wrote '{folder / 'two.svg'}'\n")
    same("boxes of two schedules", len(tips((folder / "two.svg").read_text())), 2 * 6 + 2 * 9)


def check_large(folder):
    """A large picture is bounded in size and well-formed."""
    picture = draw("izb", "--ranks", 64, "--microbatches", 512, "--svg", "-", "--memory")
    if len(picture) > 4e6:
        raise wrong(f"the picture has {len(picture)} bytes")
    root = xml.fromstring(picture)
    ranks = [x.text for x in root.iter(SVG + "text") if (x.text or "").startswith("rank ")]
    if len(ranks) < 32:
        raise wrong(f"only {len(ranks)} ranks have labels")


def check_trace(folder):
    file = folder / "plan.json"
    draw("zb-h1", "--ranks", 3, "--microbatches", 4, "--times", "2,2,1", "--trace", file)
    events = json.loads(file.read_text())["traceEvents"]
    spans = {(x["tid"], x["name"]): x for x in events if x["ph"] == "X"}
    same("spans", len(spans), 3 * 4 * 3)
    same("1F0's begin", spans[1, "1F0"]["ts"], 2000)
    same("1W0's length", spans[1, "1W0"]["dur"], 1000)
    names = sorted(x["args"]["name"] for x in events if x["name"] == "thread_name")
    same("threads", names, ["rank 0", "rank 1", "rank 2"])


def check_text(folder):
    """Text is plain in a pipe; on a terminal it has colours and the width of the window."""
    size = ("schedule", "draw", "zb-h1", "--ranks", 2, "--microbatches", 3)
    plain = works(*size, "--width", 43)
    same("the text", plain, "zb-h1: makespan 10, bubble 10.0 %\n"
                            "0  F0--F1--....I0--W0--F2--I1--W1--I2--W2--\n"
                            "1  ....F0--I0--F1--I1--W0--F2--I2--W1--W2--\n")
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 63, 0, 0))
        done = subprocess.Popen([cli_test.PROGRAM, *map(str, size)], stdout=theirs,
                                env={**os.environ, "TERM": "xterm", **environment})
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:
            pass  # read() fails at the end of a terminal
        os.close(ours)
        same("exit code", done.wait(60), 0)
        same(f"escapes with {environment}", b"\x1b[48;5;" in seen, coloured)
        lines = re.sub(rb"\x1b\[[0-9;]*m", b"", seen).decode().split("\r\n")
        same("the width", [len(x) for x in lines[1:3]], [63, 63])


def check_executed(folder):
    """Draws an executed step below its plan, on one time axis."""
    trace = folder / "run.json"
    works("train", "gpt", "--num-layers", 2, "--hidden-size", 16, "--num-attention-heads", 2,
          "--seq-length", 64, "--micro-batch-size", 1, "--global-batch-size", 8, "--train-iters", 3,
          "--lr", 1e-3, "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100,
          "--eval-iters", 0, "--threads-per-worker", 1, "--world-size", 4,
          "--pipeline-model-parallel-size", 2, "--trace", trace)
    what = ("1f1b", "--ranks", 2, "--microbatches", 4, "--executed", trace)
    picture = draw(*what, "--step", 2, "--svg", "-")
    root = xml.fromstring(picture)
    titles = [x.text for x in root.iter(SVG + "tspan")]
    same("titles", titles[::2], ["1f1b, planned", "1f1b, executed, step 2"])
    spans = [[float(y) for y in re.search(r"([\d.]+) ms", x).groups()] for x in titles[1::2]]
    if any(x <= [0] for x in spans):
        raise wrong(f"the makespans are {spans}")
    drawn = [re.match(r"rank (\d+): (\S+),", x).groups() for x in tips(picture)]
    each = [(str(r), f"{r}{kind}{m}") for r in (0, 1) for kind in "FIW" for m in range(4)]
    same("drawn actions", sorted(drawn), sorted(2 * each))
    given = draw(*what, "--step", 2, "--times", "1,1,1")
    same("the plan with given times", given.split("\n")[0],
         "1f1b, planned: makespan 14 ms, bubble 14.3 %")
    events = json.loads(draw(*what, "--step", 3, "--trace", "-"))["traceEvents"]
    same("processes", {x["args"]["name"] for x in events if x["name"] == "process_name"},
         {"1f1b, planned", "1f1b, executed, step 3"})
    refuses("no step 9; it has 1 to 3", "schedule", "draw", *what, "--step", 9)
    refuses("lacks 0F4", "schedule", "draw", "1f1b", "--ranks", 2, "--microbatches", 6, "--executed",
            trace, "--step", 2)
    refuses("need each other", "schedule", "draw", *what)
    refuses("name another file", "schedule", "draw", *what, "--step", 2, "--trace", trace)
    other = folder / "other.json"
    other.write_text("{}")
    refuses("other.json' is not a trace of a run: it has no traceEvents", "schedule", "draw",
            *what[:-1], other, "--step", 2)
    other.write_text("neither")
    refuses("other.json' is not a trace of a run: invalid JSON at byte 2", "schedule", "draw",
            *what[:-1], other, "--step", 2)
    refuses("has 0F3, which the plan '1f1b' lacks", "schedule", "draw", "1f1b", "--ranks", 2, "--microbatches", 3,
            "--executed", trace, "--step", 2)
    code, out, err = run("schedule", "draw", "gpipe", *what[1:], "--step", 2)
    same("exit code", code, 0)
    same("notes", err, "note: rank 0: from its 3rd action on the order differs from the plan: 0I0, planned 0F2\n"
                       "note: rank 1: from its 2nd action on the order differs from the plan: 1I0, planned 1F1\n")
    if not re.search("gpipe, executed, step 2: makespan .*; in another order than planned\n", out):
        raise wrong(f"the caption does not mention the order: {out}")
    refuses("no-such.json", "schedule", "draw", *what[:-1], folder / "no-such.json", "--step", 2)


def check_executed_pairs(folder):
    """A lane runs one action at a time: the caption says that the plan's pairs ran one after the other."""
    trace = folder / "run.json"
    works("train", "gpt", "--num-layers", 2, "--hidden-size", 16, "--num-attention-heads", 2,
          "--seq-length", 64, "--micro-batch-size", 1, "--global-batch-size", 4, "--train-iters", 2,
          "--lr", 1e-3, "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100,
          "--eval-iters", 0, "--threads-per-worker", 1, "--world-size", 2,
          "--pipeline-model-parallel-size", 2, "--pipeline-schedule", "dualpipe", "--trace", trace)
    what = ("schedule", "draw", "dualpipe", "--ranks", 2, "--microbatches", 4, "--executed", trace, "--step", 2)
    code, out, err = run(*what)
    same("exit code and errors", (code, err), (0, ""))
    if "; the two of a pair ran one after the other (a lane does one at a time)\n" not in out:
        raise wrong(f"the caption does not mention the pairs: {out}")
    titles = [x.text for x in xml.fromstring(works(*what, "--svg", "-")).iter(SVG + "tspan")]
    if "one after the other" not in titles[3]:
        raise wrong(f"the captions are {titles}")


def check_refusals(folder):
    size = ("--ranks", 4, "--microbatches", 8)
    refuses("give one schedule or file", "schedule", "draw", *size)
    refuses("'none' is neither a schedule nor a file", "schedule", "draw", "none", *size)
    refuses("name it .svg", "schedule", "draw", "1f1b", *size, "--svg", "a.png")
    refuses("only one can go", "schedule", "draw", "1f1b", *size, "--svg", "-", "--trace", "-")
    refuses("--width", "schedule", "draw", "1f1b", *size, "--width", 3)
    refuses("no-such-folder", "schedule", "draw", "1f1b", *size, "--svg",
            folder / "no-such-folder" / "a.svg")
    stuck = folder / "stuck.csv"
    stuck.write_text("0B0,0F0\n1F0,1B0\n")
    refuses("cannot be executed", "schedule", "draw", stuck)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
