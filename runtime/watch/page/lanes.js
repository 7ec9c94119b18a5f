// Lanes and actors of all processes (the field `lanes` of `process` records): their places, their
// work, and which of them keeps the others waiting.

import { step_seconds } from "./facts.js";
import { is_number, compare_names, plain_text } from "./format.js";

export const silent_after_s = 15;

/// A longer wait is reported. Stages wait for each other in each step.
export function long_wait_s(store) {
  return Math.max(10, 3 * (step_seconds(store) ?? 0));
}

/// "0.1" of "lane:0.1" and "stage:0.1"; empty for an actor without a stage.
function place_of(name) {
  return /^(?:lane|stage):(.+)$/.exec(String(name))?.[1] ?? "";
}

/// All samples: [{who, place, process, state, work, for_s, on, step}]. State: runs, waits or idle.
export function all_lanes(store) {
  const out = [];
  for (const process of store.processes.values())
    for (const x of Array.isArray(process.lanes) ? process.lanes : [])
      out.push({
        who: plain_text(x.who, 200),
        place: place_of(x.who),
        process: process.name,
        state: plain_text(x.state, 60),
        work: plain_text(x.work, 200),
        for_s: is_number(x.for_s) ? x.for_s : 0,
        on: (Array.isArray(x.on) ? x.on : []).map((name) => plain_text(name, 200)),
        step: x.step,
      });
  return out.sort((a, b) => compare_names(a.who, b.who));
}

/// The `name` of the `process` records of a process of /api/run.
function process_name(store, number) {
  return store.run.layout?.processes > 1 ? `node-${number}` : "supervisor";
}

/// Stages of the run with their lanes: those of /api/run, and those that only lanes name.
export function all_stages(store, lanes) {
  const out = new Map();
  for (const x of Array.isArray(store.run.stages) ? store.run.stages : [])
    out.set(place_of(x.name), {
      name: plain_text(x.name, 200), replica: x.replica, chunks: x.chunks, lanes: [],
      process: process_name(store, x.process),
    });
  for (const x of lanes) {
    if (x.place === "")
      continue;
    if (!out.has(x.place))
      out.set(x.place, { name: `stage:${x.place}`, replica: Number(x.place.split(".")[0]), lanes: [] });
    const stage = out.get(x.place);
    stage.lanes.push(x);
    stage.process = x.process;  // a process may have moved since /api/run was read
  }
  return [...out.values()].sort((a, b) => compare_names(a.name, b.name));
}

/// By name. A stage without a sample of its own stands for its lane.
function lanes_by_name(lanes) {
  const out = new Map();
  for (const x of lanes) {
    out.set(x.who, x);
    if (x.who.startsWith("lane:") && !out.has(`stage:${x.place}`))
      out.set(`stage:${x.place}`, x);
  }
  return out;
}

function waits(x) {
  return x.state === "waits";
}

/// Follows the waits from a lane to the member that does not wait: "stage:0.0, which runs 0F3".
export function cause_of(lane, lanes) {
  const names = lanes_by_name(lanes);
  const seen = new Set([lane]);
  let at = lane;
  for (;;) {
    const name = at.on[0];
    const next = names.get(name);
    if (name === undefined)
      return at === lane ? "" : `${at.who}, which waits for nothing that has a name`;
    if (next === undefined)
      return `${name}, which no sample names`;
    if (seen.has(next))
      return `${next.who}: the waits form a circle`;
    if (!waits(next))
      return `${next.who}, which is in state '${next.state}'${next.work ? ` (${next.work})` : ""}`;
    seen.add(next);
    at = next;
  }
}

/// Lanes and stages that wait for long, longest first. None while the run is paused.
export function long_waits(store, lanes) {
  if (store.end || store.state === "paused")
    return [];
  const least = long_wait_s(store);
  return lanes.filter((x) => x.place !== "" && waits(x) && x.for_s > least).sort((a, b) => b.for_s - a.for_s);
}
