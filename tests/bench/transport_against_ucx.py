"""Compares tensors between two processes of this machine with UCX itself, in turn.

    transport_against_ucx.py [--programs DIR] [--rounds N]

*latency* of 8 bytes there and back: `ucx_perftest -t ucp_am_lat -E sleep` (prints half of it), a message and its
response on the wire (`bench_transport`), a redemption of 8 bytes, and an actor message and its response
(`bench_messages`).
*bandwidth*: `ucx_perftest -t ucp_am_bw`, which receives into the same buffer repeatedly, by default over shared
memory, and with `-e`, the error handling that a run needs. Redemptions run one at a time and 8 together, through
shared memory and over the wire.

Needs Python's standard library and `ucx_perftest` from Debian's ucx-utils. Run it on an idle machine.
"""

import argparse
import os
import re
import statistics
import subprocess
import time

SIZES = [64 << 10, 1 << 20, 16 << 20, 64 << 20]
BYTES_OF_A_ROUND = 3_000_000_000
LOOPBACK = os.environ | {"UCX_NET_DEVICES": "lo"}
PORT = 13399


def perftest(*words):
    """Columns of the last line. Latency: typical, average and overall microseconds. Bandwidth: average and overall
    MB/s."""
    command = ["ucx_perftest", "-p", PORT, "-E", "sleep", *words]
    serving = subprocess.Popen([str(x) for x in command[:5]] + [x for x in map(str, words) if x == "-e"],
                               env=LOOPBACK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    try:
        said = subprocess.run([str(x) for x in [command[0], "127.0.0.1", *command[1:]]], env=LOOPBACK,
                              capture_output=True, text=True, timeout=120, check=True).stdout
    finally:
        serving.kill()
        serving.wait()
    return [float(x) for x in re.findall(r"^Final:\s+\d+(.*)$", said, re.M)[-1].split()]


def ours(o, program, *words):
    return subprocess.run([f"{o.programs}/{program}", *words], capture_output=True, text=True, timeout=600,
                          check=True).stdout


def rows(said):
    """By bytes: microseconds of one, GB/s one at a time, GB/s of 8 together."""
    out = {}
    for line in said.splitlines():
        cells = [x.strip() for x in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].isdigit():
            out[int(cells[0])] = float(cells[1]), float(cells[3]), float(cells[4])
    return out


def microseconds(said, what):
    return float(re.search(re.escape(what) + r"[^:]*: ([0-9.]+) us", said)[1])


def middle(values):
    return statistics.median(values)


def spread(values, form="{:.1f}"):
    return form.format(middle(values)) + " (" + ", ".join(form.format(x) for x in values) + ")"


def main():
    line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    line.add_argument("--programs", default="build/release/bin")
    line.add_argument("--rounds", type=int, default=3)
    o = line.parse_args()
    latency = {"UCX, there and back": [], "wire": [], "redeemed": [], "actors": [], "actors over TLS": []}
    rate = {size: {"UCX": [], "UCX -e": [], "read": [], "read, 8": [], "sent": [], "sent, 8": []} for size in SIZES}
    for _ in range(o.rounds):
        latency["UCX, there and back"].append(2 * perftest("-t", "ucp_am_lat", "-s", 8, "-n", 20000)[0])
        read = ours(o, "bench_transport")
        sent = ours(o, "bench_transport", "--sent")
        of_actors = ours(o, "bench_messages")
        latency["wire"].append(microseconds(read, "by the wire"))
        latency["redeemed"].append(rows(read)[8][0])
        latency["actors"].append(microseconds(of_actors, "in one process"))
        latency["actors over TLS"].append(microseconds(of_actors, "over TLS"))
        for size in SIZES:
            times = max(20, min(20000, BYTES_OF_A_ROUND // size))
            for name, more in ("UCX", []), ("UCX -e", ["-e"]):
                rate[size][name].append(perftest("-t", "ucp_am_bw", "-s", size, "-n", times, *more)[4] * 2**20 / 1e9)
            for name, said in ("read", read), ("sent", sent):
                _, one, together = rows(said)[size]
                rate[size][name].append(one)
                rate[size][name + ", 8"].append(together)
    print("microseconds, each round:")
    for name, values in latency.items():
        print(f"  {name}: {spread(values)}")
    per = [w / u for w, u in zip(latency["wire"], latency["UCX, there and back"])]
    print(f"  wire over UCX: {spread(per, '{:.2f}')}")
    print(f"  ticket (redeemed less wire): {middle(latency['redeemed']) - middle(latency['wire']):.1f}")
    print("\n| bytes | " + " | ".join(rate[SIZES[0]]) + " | read, 8 over UCX | sent, 8 over UCX -e |\n" + "|---" * 9 + "|")
    for size, of in rate.items():
        ratio = [[a / b for a, b in zip(of[x], of[y])] for x, y in (("read, 8", "UCX"), ("sent, 8", "UCX -e"))]
        print(f"| {size} | " + " | ".join(f"{middle(v):.2f}" for v in of.values()) + " | "
              + " | ".join(spread(x, "{:.2f}") for x in ratio) + " |")


if __name__ == "__main__":
    main()
