"""`troupe schedule`: prints, checks and simulates schedules, and names faults. Run by ctest.

    schedule_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import sys

import cli_test
from cli_test import refuses, run, works, wrong

SIZE = ["--ranks", 4, "--microbatches", 8]

# p = 4, m = 8, F = I = W = 1: makespan, most idle, most span-idle, peak chunks, ends of ranks.
TABLE = {
    "gpipe": (33, 9, 9, [8, 8, 8, 8], [33, 31, 29, 27]),
    "1f1b": (33, 9, 9, [4, 3, 2, 1], [33, 31, 29, 27]),
    "interleaved": (28.5, 4.5, 4.5, [11, 9, 7, 5], [28.5, 27.5, 26.5, 25.5]),
    "looped-bfs": (28.5, 4.5, 4.5, [16, 16, 16, 16], [28.5, 27.5, 26.5, 25.5]),
    "zb-h1": (27, 3, 3, [4, 4, 4, 4], [27, 27, 27, 27]),
    "izb": (25.5, 1.5, 1.5, [8, 8, 8, 8], [25.5] * 4),
    "zb-h2": (27, 3, 0, [7, 7, 7, 7], [24, 25, 26, 27]),
    "zb-v": (25.5, 1.5, 0, [8, 8, 8, 8], [24, 24.5, 25, 25.5]),
    "v-half": (26.5, 2.5, 2.5, [6, 6, 6, 6], [26.5, 26, 26.5, 26.5]),
    "v-min": (29.5, 5.5, 5.5, [4, 4, 4, 4], [29.5, 29, 28.5, 28.5]),
    "dualpipe": (26, 2, 2, [5, 5, 5, 5], [26] * 4),
    "dualpipev": (27, 3, 3, [9, 9, 9, 9], [27] * 4),
}


def expect(seen, wanted, what):
    if seen != wanted:
        raise wrong(f"{what}: {seen!r}, expected {wanted!r}")


def simulated(*words):
    return json.loads(works("schedule", "simulate", *words, "--json"))


def of(found, key):
    return [x[key] for x in found["ranks"]]


def check_table(folder):
    """The published figures, from one call, and one schedule alone."""
    all_of_them = simulated(*TABLE, *SIZE)
    for found, (name, known) in zip(all_of_them, TABLE.items(), strict=True):
        makespan, idle, span, peaks, ends = known
        expect(found["name"], name, "name")
        expect(found["makespan"], makespan, name)
        expect(max(of(found, "idle")), idle, name)
        expect(max(of(found, "span_idle")), span, name)
        expect(of(found, "peak_chunks"), peaks, name)
        expect(of(found, "last_end"), ends, name)
        expect(of(found, "busy"), [24] * 4, name)
        if abs(found["bubble"] - sum(of(found, "idle")) / 4 / makespan) > 1e-12:
            raise wrong(f"{name}: bubble {found['bubble']}")
        share = 4 / found["stages"]
        expect(of(found, "peak_memory"), [n * share for n in peaks], name)
        expect(bool(found["notes"]), name in ("looped-bfs", "dualpipe"), f"notes of {name}")
    expect(simulated("zb-v", *SIZE), all_of_them[7], "zb-v alone")
    text = works("schedule", "simulate", *TABLE, *SIZE)
    for name in TABLE:
        if f"\n{name} " not in text:
            raise wrong(f"{name} is not compared: {text}")


def check_costs(folder):
    for costs, known in [(0.05, 33.8), (0.1, 34.6), (0.2, 36.2)]:
        expect(simulated("1f1b", *SIZE, "--comm", costs)["makespan"], known, f"--comm {costs}")
    expect(simulated("1f1b", *SIZE, "--times", "2,1,0.5")["makespan"], 11 * 3.5, "--times")
    expect(simulated("1f1b", *SIZE, "--overhead", 0.5)["ranks"][0]["busy"], 24, "overhead is idle")
    expect(simulated("dualpipev", *SIZE, "--overlap", 2)["ranks"][3]["busy"]
           < simulated("dualpipev", *SIZE)["ranks"][3]["busy"], True, "pairs that overlap")
    held = simulated("zb-h2", *SIZE, "--held", "1,0.5")
    expect(of(held, "peak_memory"), [7, 6, 5, 4], "memory when W holds half")
    expect(simulated("gpipe", *SIZE, "--queues", 1, "--comm", 4)["makespan"]
           > simulated("gpipe", *SIZE, "--comm", 4)["makespan"], True, "a queue delays")
    # With B in two parts, gradients are sent before W, so the skew of ranks has only F and I.
    expect(simulated("1f1b", *SIZE, "--lowered")["makespan"], 8 * 3 + 3 * 2, "1F1B as it runs")
    series = simulated("1f1b", "--ranks", 1, "--microbatches", 1, "--series")["ranks"][0]
    expect(series["memory"], [[0, 1], [3, 0]], "series")
    expect("memory" in simulated("1f1b", *SIZE)["ranks"][0], False, "series only on request")
    auto = simulated("auto", *SIZE, "--times", "1,1.5,0.5", "--comm", 0.1, "--memory-limit", 4)
    if not (auto["lower_bound"] <= auto["makespan"] and max(of(auto, "peak_memory")) <= 4 and auto["from"]):
        raise wrong(f"auto: {auto}")


def check_layout(folder):
    """The cost of a stage follows from its layers, and the layout defines how many stages a rank has."""
    even = simulated("interleaved", *SIZE, "--layout", "E(tt|)*7ttL")
    expect(even["makespan"], 28.5, "an even layout changes nothing")
    uneven = simulated("interleaved", *SIZE, "--layout", "Et|(tt|)*6tmmL")
    expect(uneven["stages"], 8, "stages")
    # 16 layers: a full share of a rank is 4 of them. Each of 8 micro-batches has F, I and W.
    expect(of(uneven, "busy"), [18, 24, 24, 30], "busy")
    expect(simulated("interleaved", *SIZE, "--layout", "E" + "t|" * 11 + "tL")["stages"], 12, "three stages per rank")
    auto = simulated("auto", *SIZE, "--layout", "Et|(tt|)*6tttL")
    if not auto["lower_bound"] <= auto["makespan"] <= uneven["makespan"]:
        raise wrong(f"auto on uneven stages: {auto['makespan']}")
    refuses("has 3 stages, but '1f1b' has 4", "schedule", "simulate", "1f1b", *SIZE, "--layout", "Et|t|tL")
    refuses("--layout: expected E embedding", "schedule", "simulate", "1f1b", *SIZE, "--layout", "Ex")
    refuses("no stage has a layer", "schedule", "simulate", "1f1b", *SIZE, "--layout", "E|||L")


def check_plans(folder):
    small = ["--ranks", 2, "--microbatches", 2]
    expect(works("schedule", "plan", "1f1b", *small), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "1f1b")
    lowered = works("schedule", "plan", "1f1b", *small, "--lowered")
    expect(lowered.splitlines()[1], "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1I1,1SEND_B1,1W1,1REDUCE_GRAD",
           "lowered")
    said = works("schedule", "plan", "dualpipe", *SIZE, "--output", folder / "d.csv")
    if "4 ranks, 4 stages, 8 micro-batches, 2 copies" not in said:
        raise wrong(f"--output prints: {said}")
    expect((folder / "d.csv").read_text(), works("schedule", "plan", "dualpipe", *SIZE), "--output")
    for name in TABLE:
        for flags in [[], ["--lowered"]]:
            works("schedule", "plan", name, *SIZE, *flags, "--output", folder / "x.csv")
            if "valid: 4 ranks" not in works("schedule", "check", folder / "x.csv"):
                raise wrong(f"{name} is not valid")
            here, there = (simulated(x, *SIZE, *flags) for x in (name, folder / "x.csv"))
            expect(there["ranks"], here["ranks"], f"{name} from a file")
    listed = works("schedule", "plan")
    for name in [*TABLE, "auto", "Huang et al."]:
        if name not in listed:
            raise wrong(f"{name} is not listed: {listed}")
    (folder / "own.lua").write_text("""
function plan(rank, ranks, chunks, microbatches)
  local row = {}
  for m = 0, microbatches - 1 do row[#row + 1] = {"F", rank, m} end
  for m = 0, microbatches - 1 do row[#row + 1] = {"B", rank, m} end
  return row
end
""")
    expect(works("schedule", "plan", folder / "own.lua", *small), works("schedule", "plan", "gpipe", *small),
           "a script")
    (folder / "last.lua").write_text("function next(state) return state.ready[#state.ready] end")
    if "valid: " not in works("schedule", "check", folder / "last.lua", *SIZE):
        raise wrong("a behaviour is not valid")


def check_handoffs(folder):
    """Lists each hand-off between stages with its maximum of outstanding results, which equals the credits of a run."""
    said = works("schedule", "check", "zb-v", "--ranks", 2, "--microbatches", 4, "--credits", 3, "--result-bytes", 1000)
    listed = [x.strip() for x in said.splitlines() if "outstanding" in x]
    expect(listed, [f"outstanding at most, stage {a} to {b}, rank {p} to {1 - p}: 3 {what}, 3 kB" for a, b, p, what in (
        (0, 1, 0, "activations"), (1, 0, 1, "gradients"), (2, 3, 1, "activations"), (3, 2, 0, "gradients"))],
        "hand-offs of zb-v")
    found = json.loads(works("schedule", "check", "dualpipe", *SIZE, "--json"))["handoffs"]
    expect(len(found), 12, "hand-offs of two copies over four stages")
    expect({(x["copy"], x["from_stage"]) for x in found if x["kind"] == "activations"},
           {(k, c) for k in (0, 1) for c in (0, 1, 2)}, "stages that send activations")
    own = json.loads(works("schedule", "check", "1f1b", *SIZE, "--json"))["handoffs"]
    memory = json.loads(works("memory", *MODEL, "--tokenizer-type", "NullTokenizer", "--vocab-size", 100, "--world-size", 4, "--pipeline-model-parallel-size", 4,
                              "--global-batch-size", 16, "--json"))
    given = [x for worker in memory["workers"] for x in worker["handoffs"]]
    expect(sorted((x["from_stage"], x["to_stage"], x["credits"]) for x in given),
           sorted((x["from_stage"], x["to_stage"], x["credits"]) for x in own), "credits of a run")
    hidden = 2 * 16 * 32 * 4  # activations also carry positions and the numbers of samples
    expect({(x["kind"], x["bytes_each"]) for x in given},
           {("activations", hidden + 2 * 16 * 4 + 2 * 8), ("gradients", hidden)}, "bytes of a result")
    expect([x["gradients_not_taken"] > 0 for x in memory["workers"]], [False, True, True, True], "gradients not taken, in later stages")
    told = works("train", "gpt", *MODEL, "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", 100,
                 "--lr", 1, "--train-iters", 1, "--world-size", 4, "--pipeline-model-parallel-size", 4,
                 "--global-batch-size", 16, "--dry-run")
    credits = {x["from_stage"]: x["credits"] for x in own if x["kind"] == "activations"}
    wanted = f"outstanding at most: stage 0 to 1 on rank 1: {credits[0]} activations of 4.24 kB"
    if wanted not in told or "gradients not taken yet" not in told:
        raise wrong(f"--dry-run does not say '{wanted}':\n{told}")


MODEL = ["--num-layers", 4, "--hidden-size", 32, "--num-attention-heads", 4, "--seq-length", 16,
         "--max-position-embeddings", 16, "--micro-batch-size", 2]


def check_checks(folder):
    def file(text):
        (folder / "x.csv").write_text(text)
        return folder / "x.csv"

    refuses("rank 0 waits at 0B0 for 1B0 of rank 1, which waits at 1F1 for 0F1 of rank 0", "schedule", "check",
            file("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"))
    refuses("PLAN-1: stage 1 lacks B of micro-batch 1", "schedule", "check", file("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n"))
    refuses("PLAN-2: on rank 0 0B0 comes before 0F0", "schedule", "simulate", file("0B0,0F0\n"))
    refuses("PLAN-6: with room for 1 on each link", "schedule", "check", "izb", *SIZE, "--credits", 1, "--lowered")
    refuses("PLAN-6: with the credits of its hand-offs, rank 0 waits at 0F3 for the credit of 1F2 of rank 1", "schedule",
            "check", file("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n"), "--credits", 1)
    refuses("PLAN-7: rank 0 holds up to 2, and its limit is 1.5", "schedule", "check",
            file("0F0,0F1,0B0,0B1\n"), "--memory-limit", 1.5)
    works("schedule", "check", "1f1b", "zb-h1", "zb-v", *SIZE, "--credits", 2)
    said = works("schedule", "check", file("0F0,0F1,0B1,0B0\n"))
    if "valid: " not in said or "note: PLAN-4: weight gradients of stage 0 are added in the order 1, 0" not in said:
        raise wrong(f"no note about the order: {said}")
    code, out, _ = run("schedule", "check", file("0F0\n0F1\n1F0\n"), "--json")
    expect(code, 2, "a file that is not a plan")
    found = json.loads(out)
    expect(found["sound"], False, "a file that is not a plan")
    if "x.csv, line 2: 0F1 belongs to stage 0" not in found["complaints"][0]:
        raise wrong(f"a file that is not a plan: {found}")
    code, out, _ = run("schedule", "check", file("0F0,0F0,0B0\n"), "1f1b", "--ranks", 1, "--microbatches", 1,
                       "--json")
    found = json.loads(out)
    expect(code, 2, "exit code")
    expect([x["sound"] for x in found], [False, True], "two plans")
    if "PLAN-1" not in found[0]["complaints"][0]:
        raise wrong(f"complaints: {found}")


def check_all_judged(folder):
    """Invalid and missing files do not hide other verdicts."""
    (folder / "no.csv").write_text("0F0,0X1\n")
    (folder / "nul.csv").write_bytes(b"0F0,0\0F1,0B0\n")
    (folder / "stuck.csv").write_text("0B0,0F0\n")
    (folder / "good.csv").write_text("0F0,0B0\n")
    names = [folder / f"{x}.csv" for x in ("no", "nul", "none", "stuck", "good")] + ["zb-h11"]
    code, out, err = run("schedule", "check", *names)
    expect(code, 2, "exit code")
    if "good.csv: valid" not in out:
        raise wrong(f"the valid file has no verdict: {out}")
    for text in ["no.csv, line 1, cell 2, '0X1'", "nul.csv, line 1, cell 2, '0?F1': ",
                 "none.csv", "stuck.csv' cannot be executed", "did you mean zb-h1?"]:
        if text not in err:
            raise wrong(f"'{text}' is missing: {err}")
    code, out, _ = run("schedule", "check", *names, "--json")
    found = json.loads(out)
    expect(code, 2, "exit code")
    expect([x["sound"] for x in found], [False] * 4 + [True, False], "verdicts")
    expect([len(x["complaints"]) for x in found], [1, 1, 1, 1, 0, 1], "complaints")


def check_memory_limit(folder):
    """All commands use one unit, and refuse plans above the limit."""
    csv, lua = folder / "x.csv", folder / "x.lua"
    csv.write_text(works("schedule", "plan", "1f1b", *SIZE))
    lua.write_text("function next(state) return state.ready[1] end\n")
    for command in ["plan", "check", "simulate", "draw"]:
        for file, peak in [(csv, 4), (lua, 8)]:
            size = SIZE if file == lua else []
            refuses(f"{file.name}' cannot be executed:\n  PLAN-7: rank 0 holds up to {peak}, and its limit is 3.5",
                    "schedule", command, file, *size, "--memory-limit", 3.5)
            works("schedule", command, file, *size, "--memory-limit", peak)
        for held in [[], ["--held", "10,9"], ["--held", "0.1,0"]] if command != "plan" else [[]]:
            for name in ["1f1b", "zb-h2", "auto", "zb-v", csv]:
                works("schedule", command, name, *([] if name == csv else SIZE), "--memory-limit", 4, *held)
            refuses("PLAN-7", "schedule", command, csv, "--memory-limit", 3, *held)
            refuses("the limit is 3", "schedule", command, "1f1b", *SIZE, "--memory-limit", 3, *held)
    # A pair holds memory while both of its actions run, so a schedule made within a limit is valid within it.
    for name in [x for x in TABLE if x != "zb-h2"]:
        found = simulated(name, *SIZE)
        peak = max(of(found, "peak_memory"))
        works("schedule", "check", name, *SIZE, "--memory-limit", peak)
        refuses("limit is", "schedule", "check", name, *SIZE, "--memory-limit", peak - 0.25)
    works("schedule", "check", "auto", *SIZE, "--layout", "Et|(tt|)*6tttL", "--memory-limit", 4)
    refuses("has 3 stages", "schedule", "check", csv, "--layout", "Et|t|tL")


def check_refusals(folder):
    refuses("did you mean zb-h1?", "schedule", "plan", "zb-h11", *SIZE)
    refuses("`troupe schedule plan` lists the schedules", "schedule", "simulate", "something-else", *SIZE)
    for missing in ["--ranks", "--microbatches"]:
        rest = [x for x in ("--ranks", "--microbatches") if x != missing]
        refuses(f"{missing} is missing", "schedule", "plan", "1f1b", *rest, 4)
    refuses("give one schedule or file", "schedule", "plan", "1f1b", "gpipe", *SIZE)
    refuses("give one schedule or file", "schedule", "simulate")
    refuses("give one schedule or file", "schedule", "check")
    refuses("even number of ranks", "schedule", "plan", "dualpipe", "--ranks", 3, "--microbatches", 8)
    refuses("1 chunk per rank, not 2", "schedule", "plan", "1f1b", *SIZE, "--chunks", 2)
    refuses("give 3 numbers, F,I,W", "schedule", "simulate", "1f1b", *SIZE, "--times", "1,1")
    expect(simulated("1f1b", *SIZE, "--times", "2, 1,\t0.5 "), simulated("1f1b", *SIZE, "--times", "2,1,0.5"), "blanks")
    for text in ["1,1,-1", "1 1,1,1", "1,1,x", "1,1,nan", "1,,1", "1,1,1e999"]:
        refuses("--times", "schedule", "simulate", "1f1b", *SIZE, "--times", text)
    refuses("--comm", "schedule", "simulate", "1f1b", *SIZE, "--comm", -1)
    refuses("--queues", "schedule", "simulate", "1f1b", *SIZE, "--queues", 3)
    refuses("--ranks", "schedule", "simulate", "1f1b", "--ranks", 0, "--microbatches", 8)
    refuses("--series needs --json", "schedule", "simulate", "1f1b", *SIZE, "--series")
    refuses("there.csv", "schedule", "check", folder / "there.csv")
    refuses("there.lua", "schedule", "check", folder / "there.lua", *SIZE)
    (folder / "x.csv").write_text("0F0,0X1\n")
    refuses("0X1", "schedule", "check", folder / "x.csv")
    (folder / "x.csv").write_text("0F0,0B0\n")
    refuses("has 1 rows, one per rank, but --ranks is 2", "schedule", "check", folder / "x.csv", "--ranks", 2)
    refuses("micro-batches, but --microbatches is 2", "schedule", "check", folder / "x.csv", "--microbatches", 2)
    refuses("stages, but --chunks is 2", "schedule", "check", folder / "x.csv", "--chunks", 2)
    (folder / "x.lua").write_text("function plan(rank)\n  return rank .. nil\nend\n")
    refuses("x.lua:2", "schedule", "plan", folder / "x.lua", *SIZE)
    (folder / "x.lua").write_text("#!/usr/bin/env lua\nfunction plan(rank)\n  return rank .. nil\nend\n")
    refuses("x.lua:3", "schedule", "plan", folder / "x.lua", *SIZE)
    (folder / "x.lua").write_text("#!/usr/bin/env lua\nfunction next(state) return state.ready[1] end\n")
    works("schedule", "check", folder / "x.lua", *SIZE)
    for command in ["plan", "check", "simulate"]:
        text = works("schedule", command, "--help")
        if "Example: troupe schedule" not in text or "--ranks P" not in text:
            raise wrong(f"the help of {command} lacks an example: {text}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
