// The tables of processes and stages, memory, and the section on stragglers and hangs.

import { announce, by_id, make, make_svg, set_hidden, set_items, set_rows, set_text } from "./dom.js";
import {
  bytes_text, clock_text, compare_names, counted, duration_text, energy_text, is_number, number_text, percent_text,
  plain_text,
} from "./format.js";
import {
  all_lanes, all_stages, cause_of, lanes_by_name, long_waits, long_wait_s, place_of, silent_after_s,
} from "./lanes.js";
import { forget_old_processes, run_now } from "./store.js";

const most_rows = 2000;
const most_troubles = 20;
const most_other_kinds = 10;

function row(style, name, cells) {
  const all = cells.map((x) => (typeof x === "string" ? { text: x, style: "short" } : x));
  while (all.length < 7)
    all.push({ text: "" });
  return { style, cells: [{ text: name, scope: "row" }, ...all] };
}

function state_style(state) {
  if (state === "dead")
    return "bad";
  return state === "starting" ? "caution" : "short";
}

function age_of_member(member, now) {
  return member && is_number(member.at) ? `for ${duration_text(now - member.at)}` : "";
}

/// The keeper of a process's states, its open tickets, and the energy of its host's CPUs.
function details_of(x, keeper) {
  return [
    keeper ? `states kept by ${keeper}` : "",
    is_number(x.leases) && x.leases > 0 ? counted(x.leases, "open ticket") : "",
    is_number(x.energy_j) ? `CPUs of the host used ${energy_text(x.energy_j)}` : "",
  ].filter((text) => text !== "").join("; ");
}

function process_row(x, member, keeper, now, is_live) {
  const silent_s = now - x.at;
  const is_silent = is_live && silent_s > silent_after_s;
  const state = is_silent ? `silent for ${duration_text(silent_s)}` : plain_text(member?.state ?? "running", 60);
  const role = x.role && x.role !== x.name ? `, ${plain_text(x.role, 60)}` : "";
  const name = `${x.name}${role}, pid ${plain_text(x.pid ?? "unknown", 20)}`;
  const age = is_number(x.up_s) ? `up ${duration_text(x.up_s)}` : "";
  const cores = is_number(x.cores) ? number_text(Math.max(0, x.cores), 2) : "";
  return row("process", name, [
    { text: state, style: is_silent ? "caution" : state_style(state) }, age,
    bytes_text(x.resident_bytes), cores, "", { text: details_of(x, keeper), style: "long" },
  ]);
}

/// The GPUs of a process.
function device_rows(process) {
  return (Array.isArray(process.devices) ? process.devices : []).map((x) => {
    const use = is_number(x.utilisation) ? `${percent_text(x.utilisation)} busy` : "";
    const memory = is_number(x.memory_bytes)
      ? `${bytes_text(x.memory_bytes)} of ${bytes_text(x.memory_total_bytes)}` : "";
    const rest = [[x.power_w, "W"], [x.temperature_c, "°C"], [x.clock_mhz, "MHz"]]
      .filter(([value]) => is_number(value)).map(([value, unit]) => `${number_text(value, 3)} ${unit}`).join(", ");
    return row("actor", `GPU ${plain_text(x.device, 20)}: ${plain_text(x.name, 100)}`, [use, "", memory, "", "", rest]);
  });
}

/// Example: "stage:0.1 waits for a vote (1.2 s, step 45)".
function lane_text(x) {
  const step = is_number(x.step) && x.step > 0 ? `, step ${x.step}` : "";
  const work = x.work === "" ? "" : `${x.state === "waits" ? " for" : ""} ${x.work}`;
  return `${x.who} ${x.state}${work} (${duration_text(x.for_s)}${step})`;
}

/// True for a lane of a stage for communication or snapshots that has no work.
function is_unused(x) {
  return x.state === "idle" && /^(?:saver|wire):/.test(x.who);
}

/// The row of a stage, or of an actor without a stage, with its lanes. `waiting`: number of messages,
/// if it is known.
function member_row(style, name, { member, lanes, waiting }, { now, late_s }) {
  const state = plain_text(member?.state ?? (lanes.length > 0 ? "" : "no sample yet"), 60);
  const why = member?.why ? `: ${plain_text(member.why, 300)}` : "";
  const is_late = lanes.some((x) => x.place !== "" && x.state === "waits" && x.for_s > late_s);
  const own = place_of(name);
  const on = [...new Set(lanes.flatMap((x) => (x.state === "waits" ? x.on : [])))]
    .filter((x) => own === "" || place_of(x) !== own);  // a stage waits for its own lanes in each step
  return row(style, name, [
    { text: `${state}${why}`, style: state_style(state) }, age_of_member(member, now), "", "",
    is_number(waiting) ? counted(waiting, "message") : "",
    { text: lanes.filter((x) => !is_unused(x)).map(lane_text).join("; "), style: is_late ? "long caution" : "long" },
    { text: on.join(", "), style: "long" },
  ]);
}

/// The entry of "keeper:1" for the lane "keeper" of the same process.
function member_of_service(actors, lane) {
  const named = [...actors.values()].filter((x) => x.process === lane.process && x.who.startsWith(`${lane.who}:`));
  return named.length === 1 ? named[0] : undefined;
}

/// Actors without a stage, from `member` records and samples: [{who, process, member, lanes}].
function all_actors(members, lanes, shown) {
  const out = new Map();
  const add = (who, process) => {
    const key = `${process} ${who}`;
    if (!out.has(key))
      out.set(key, { who, process, lanes: [] });
    return out.get(key);
  };
  for (const [who, x] of members)
    if (!shown.has(who))
      add(who, plain_text(x.process, 200)).member = x;
  for (const x of lanes)
    if (x.place === "")
      (member_of_service(out, x) ?? add(x.who, x.process)).lanes.push(x);
  return [...out.values()].sort((a, b) => compare_names(a.who, b.who));
}

function by(all, key) {
  const out = new Map();
  for (const x of all) {
    const name = key(x);
    if (!out.has(name))
      out.set(name, []);
    out.get(name).push(x);
  }
  return [...out.entries()].sort((a, b) => compare_names(a[0], b[0]));
}

/// Length of the queue of a member, by its process's newest sample.
function waiting_at(process, name) {
  const all = process?.queues ?? {};
  return Object.hasOwn(all, name) ? all[name] : undefined;
}

/// Rows of the stages below their replicas. `actors`: those of the same process; the replica's has its row.
function stage_rows(stages, actors, { members, processes }, times) {
  const of_stage = (x) => member_row("stage", x.name, {
    member: members.get(x.name), lanes: x.lanes, waiting: waiting_at(processes.get(x.process), x.name),
  }, times);
  return by(stages, (x) => x.replica ?? 0)
    .flatMap(([replica, them]) => {
      const actor = actors.find((x) => x.who === `replica:${replica}`);
      const first = actor ? member_row("replica", actor.who, actor, times) : row("replica", `replica ${replica}`, []);
      return [first, ...them.map(of_stage)];
    });
}

/// Rows of the tree: hosts, processes, replicas, stages, actors. Members without a process come last.
function tree_rows(store, lanes, is_live) {
  const now = run_now(store);
  const times = { now, late_s: long_wait_s(store) };
  const { members, processes, keepers } = store;
  const stages = all_stages(store, lanes);
  const actors = all_actors(members, lanes, new Set([...processes.keys(), ...stages.map((x) => x.name)]));
  const actor_row = (x) => member_row("actor", x.who, x, times);
  const of_process = (name) => {
    const here = stages.filter((x) => x.process === name);
    const all = actors.filter((x) => x.process === name);
    const replicas = new Set(here.map((x) => `replica:${x.replica ?? 0}`));
    return [
      ...device_rows(processes.get(name)),
      ...stage_rows(here, all, store, times),
      ...all.filter((x) => !replicas.has(x.who)).map(actor_row),
    ];
  };
  const out = [];
  for (const [host, them] of by(processes.values(), (x) => plain_text(x.host, 200) || "this host")) {
    out.push(row("host", `host ${host}`, [counted(them.length, "process", "processes")]));
    for (const x of them.sort((a, b) => compare_names(a.name, b.name)))
      out.push(process_row(x, members.get(x.name), keepers.get(x.name), now, is_live), ...of_process(x.name));
  }
  const lost = stages.filter((x) => !processes.has(x.process));
  const loose = actors.filter((x) => !processes.has(x.process));
  if (lost.length + loose.length > 0)
    out.push(row("host", "processes without a sample", []),
      ...stage_rows(lost, [], store, times), ...loose.map(actor_row));
  return out.slice(0, most_rows);
}

/// Kinds of memory in the order of the bars, with the words of the legend.
const memory_words = {
  parameters: "parameters of its ranks",
  optimizer: "optimizer states of its ranks",
  working: "working memory: gradients, activations, parameters for the kernels",
  batches: "batches",
  kept: "kept states of other ranks",
  idle: "idle, held by the memory pools",
};
const memory_kinds = Object.keys(memory_words);
/// Kinds with dark colours, which need light text.
const light_texts = new Set(["parameters"]);

function memory_of(x) {
  const out = new Map();
  for (const [kind, bytes] of Object.entries(x.memory ?? {}))
    if (is_number(bytes) && bytes > 0)
      out.set(plain_text(kind, 60), bytes);
  return out;
}

function bar(memory, scale_bytes) {
  const width = 260;
  const out = make_svg("svg", { width, height: 18, "aria-hidden": "true", focusable: "false" });
  out.append(make_svg("rect", { width, height: 18, class: "track" }));
  let x = 0;
  for (const [kind, bytes] of memory) {
    const size = (bytes / scale_bytes) * width;
    const style = memory_kinds.includes(kind) ? kind : "other";
    out.append(make_svg("rect", { x: x.toFixed(1), width: size.toFixed(1), height: 18, class: `${style} outline` },
      [make_svg("title", {}, [`${kind}: ${bytes_text(bytes)}`])]));
    if (size > 12)
      out.append(make_svg("text", { x: x + size / 2, y: 13, "text-anchor": "middle",
        class: light_texts.has(kind) ? "light" : "dark" }, [kind.slice(0, 1).toUpperCase()]));
    x += size;
  }
  return out;
}

function draw_memory_legend(kinds) {
  const legend = by_id("memory_legend");
  if (legend.dataset.kinds === kinds.join())
    return;
  legend.dataset.kinds = kinds.join();
  legend.replaceChildren(...kinds.map((kind) => {
    const style = memory_kinds.includes(kind) ? kind : "other";
    const mark = make_svg("svg", { width: 18, height: 14, "aria-hidden": "true" },
      [make_svg("rect", { width: 18, height: 14, class: style })]);
    const words = Object.hasOwn(memory_words, kind) ? memory_words[kind] : kind;
    return make("span", {}, [mark, `${kind.slice(0, 1).toUpperCase()}: ${words}`]);
  }));
}

function draw_memory_head(kinds) {
  const titles = ["Process", "By kind", ...kinds, "Resident", "Peak"];
  const head = by_id("memory_head");
  if (head.dataset.titles === titles.join())
    return;
  head.dataset.titles = titles.join();
  head.replaceChildren(...titles.map((text, i) => make("th", { scope: "col", class: i < 2 ? "" : "number" }, [text])));
}

function draw_memory(store) {
  const all = [...store.processes.values()].sort((a, b) => compare_names(a.name, b.name)).slice(0, most_rows);
  const memory = new Map(all.map((x) => [x.name, memory_of(x)]));
  const found = new Set([...memory.values()].flatMap((m) => [...m.keys()]));
  const others = [...found].filter((k) => !memory_kinds.includes(k)).sort().slice(0, most_other_kinds);
  const kinds = [...memory_kinds.filter((k) => found.has(k)), ...others];
  const sums = [...memory.values()].map((m) => [...m.values()].reduce((a, b) => a + b, 0));
  const largest = sums.reduce((a, b) => Math.max(a, b), 1);
  draw_memory_legend(kinds);
  draw_memory_head(kinds);
  set_rows(by_id("memory_rows"), all.map((x) => {
    const mine = memory.get(x.name);
    const ordered = kinds.filter((k) => mine.has(k)).map((k) => [k, mine.get(k)]);
    return { cells: [
      { text: x.name, scope: "row" },
      { node: bar(ordered, largest) },
      ...kinds.map((k) => ({ text: bytes_text(mine.get(k) ?? 0), style: "number" })),
      { text: bytes_text(x.resident_bytes), style: "number" },
      { text: bytes_text(x.peak_resident_bytes), style: "number" },
    ] };
  }));
  const top = sums.indexOf(Math.max(...sums));
  set_text(by_id("memory_text"), all.length === 0 ? "No samples yet."
    : `${all[top].name} uses most: ${bytes_text(sums[top])}. `
      + `Sum of all processes: ${bytes_text(sums.reduce((a, b) => a + b, 0))}.`);
}

/// Slow members by the record that reported them: Map from record to names.
function stragglers_by_record(store) {
  const out = new Map();
  for (const [who, x] of store.stragglers)
    out.set(x, [...(out.get(x) ?? []), who]);
  return out;
}

function troubles(store, lanes, is_live) {
  const out = [];
  for (const [x, names] of stragglers_by_record(store))
    out.push(`${names.join(", ")} ${names.length > 1 ? "are" : "is"} slow (${plain_text(x.verdict, 60)}), since `
      + `${is_number(x.at) ? `${clock_text(x.at)}, ` : ""}step ${x.iteration}: ${plain_text(x.why, 500)}`);
  const names = lanes_by_name(lanes);
  for (const x of long_waits(store, lanes)) {
    const on = x.on.length > 0 ? ` for ${x.on.join(", ")}` : "";
    const cause = cause_of(x, names, store.processes);
    out.push(`${x.who} in ${x.process} has waited ${duration_text(x.for_s)}${on}.${cause ? ` Cause: ${cause}.` : ""}`);
  }
  const now = run_now(store);
  for (const x of is_live && !store.end ? store.processes.values() : []) {
    const host = plain_text(x.host, 200) || "unknown";
    if (now - x.at > silent_after_s)
      out.push(`${x.name} on host ${host} has been silent for ${duration_text(now - x.at)}.`);
  }
  return out;
}

export function make_members(store, is_live) {
  let had_trouble = false;

  function draw() {
    if (is_live() && !store.end)
      forget_old_processes(store);
    const lanes = all_lanes(store);
    set_rows(by_id("members_rows"), tree_rows(store, lanes, is_live()));
    draw_trouble(troubles(store, lanes, is_live()));
  }

  function draw_trouble(all) {
    const more = all.length > most_troubles ? [`and ${all.length - most_troubles} more`] : [];
    set_items(by_id("trouble_list"), [...all.slice(0, most_troubles), ...more]);
    set_hidden(by_id("trouble"), all.length === 0);
    if (had_trouble !== all.length > 0)
      announce(all.length > 0 ? `Straggler or hang: ${all[0]}` : "All stragglers and hangs are over.");
    had_trouble = all.length > 0;
  }

  return { draw, draw_memory: () => draw_memory(store) };
}
