#!/usr/bin/env python3
"""Draws one step of a trace that `troupe train gpt --trace FILE` wrote, and says where its time went.

    python3 examples/draw_trace.py trace.json STEP --output step.svg

Needs Python and nothing else. All steps together: open the trace in https://ui.perfetto.dev.
"""

import argparse
import collections
import json
import re
import sys
from xml.sax.saxutils import escape

KINDS = {"F": ("forward", "#4878a8"), "R": ("forward again", "#8fb4d9"),
         "I": ("input gradients", "#d98b3a"), "W": ("weight gradients", "#5f9f57"),
         "reduce": ("sums over replicas, vote", "#b8504f"), "gather": ("gathered values", "#b58fbf"),
         "update": ("update", "#7a5aa0"), "": ("other", "#b0b0b0")}
LEFT, WIDTH, ROW, BAR = 130, 900, 34, 22


def kind_of(name):
    action = re.fullmatch(r"\d+([FIRW])\d+(\.\d+)?", name)
    return action[1] if action else name.split()[0] if name.split()[0] in KINDS else ""


def read(path, step):
    """The spans of a step by (rank, track), and the names of the tracks."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    tracks = {(x["pid"], x["tid"]): x["args"]["name"] for x in events if x["name"] == "thread_name"}
    spans = collections.defaultdict(list)
    for x in events:
        if x["ph"] == "X" and x["args"].get("step") == step and not x["name"].startswith("eval"):
            spans[x["pid"], x["tid"]].append((x["ts"] / 1000, x["dur"] / 1000, x["name"]))
    if not spans:
        sys.exit(f"draw_trace.py: '{path}' has no step {step}; it has "
                 f"{sorted({x['args']['step'] for x in events if x['ph'] == 'X'})}")
    return {track: sorted(spans[track]) for track in sorted(spans)}, tracks


def label_of(rank, track, tracks):
    """Names a row: "rank 0" for its computing lane, "rank 0, communicates" for its communication lane."""
    return f"rank {rank}" + ("" if track == 0 else f", {tracks[rank, track]}")


def account(spans, tracks):
    begin = min(row[0][0] for row in spans.values())
    end = max(ts + dur for row in spans.values() for ts, dur, _ in row)
    print(f"{end - begin:.1f} ms from the first span to the last")
    for (rank, track), row in spans.items():
        took = collections.Counter()
        for _, dur, name in row:
            took[kind_of(name)] += dur
        idle = end - begin - sum(took.values())
        print(f"{label_of(rank, track, tracks)}:",
              ", ".join(f"{kind or 'other'} {took[kind]:.1f}" for kind in KINDS if took[kind] > 0),
              f"ms; idle {idle:.1f} ms ({100 * idle / (end - begin):.0f} %)")
    return begin, end


def draw(spans, tracks, begin, end, title):
    scale = WIDTH / (end - begin)
    height = 70 + ROW * len(spans) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{LEFT + WIDTH + 20}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>']
    for line, ((rank, track), row) in enumerate(spans.items()):
        y = 40 + line * ROW
        label = label_of(rank, track, tracks)
        out.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{BAR}" fill="#f0f0f0"/>')
        for ts, dur, name in row:
            x, width = LEFT + (ts - begin) * scale, max(dur * scale, 0.4)
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" '
                       f'fill="{KINDS[kind_of(name)][1]}" stroke="white" stroke-width="0.5">'
                       f'<title>{escape(name)}: {dur:.2f} ms</title></rect>')
            if width > 8 * len(name) + 4:  # the widest letters of the font, and a margin
                out.append(f'<text x="{x + width / 2:.1f}" y="{y + 15}" fill="white" font-size="11" '
                           f'text-anchor="middle">{escape(name)}</text>')
    y = 40 + ROW * len(spans)
    tick = 10 ** len(str(int((end - begin) / 5))) / 10 or 1
    tick = next(t for t in (tick, 2 * tick, 5 * tick, 10 * tick) if (end - begin) / t <= 10)
    for i in range(int((end - begin) / tick) + 1):
        x = LEFT + i * tick * scale
        out.append(f'<line x1="{x:.1f}" y1="36" x2="{x:.1f}" y2="{y}" stroke="#00000022"/>')
        out.append(f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{i * tick:g}'
                   f'{" ms" if i == 0 else ""}</text>')
    seen = {kind_of(name) for row in spans.values() for _, _, name in row}
    x = LEFT
    for kind, (meaning, colour) in KINDS.items():
        if kind in seen:
            words = (kind + ": " if len(kind) == 1 else "") + meaning
            out.append(f'<rect x="{x}" y="{y + 28}" width="12" height="12" fill="{colour}"/>')
            out.append(f'<text x="{x + 16}" y="{y + 38}">{words}</text>')
            x += 34 + 6.4 * len(words)
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    words = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("trace")
    words.add_argument("step", type=int)
    words.add_argument("--output", help="SVG file to write; default: prints only the summary")
    words.add_argument("--title", help="title above the drawing")
    given = words.parse_args()
    spans, tracks = read(given.trace, given.step)
    begin, end = account(spans, tracks)
    if given.output:
        with open(given.output, "w") as file:
            file.write(draw(spans, tracks, begin, end, given.title or f"step {given.step}"))


if __name__ == "__main__":
    main()
