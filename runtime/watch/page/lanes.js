// Lanes and actors of all processes (field `lanes` of `process` records): their stages, their work,
// and the cause of long waits.

import { step_seconds } from "./facts.js";
import { is_number, compare_names, plain_text } from "./format.js";

export const silent_after_s = 15;

/// Threshold of a long wait. Shorter waits are normal: stages wait for each other in each step.
export function long_wait_s(store) {
  return Math.max(10, 3 * (step_seconds(store) ?? 0));
}

/// The stage in a name: "0.1" for "lane:0.1" and "stage:0.1"; empty for an actor without a stage.
export function place_of(name) {
  return /^(?:lane|saver|stage|wire):(.+)$/.exec(String(name))?.[1] ?? "";
}

/// All lanes: [{who, place, process, state, work, for_s, on, step}]. States: runs, waits, idle.
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

/// Converts the number of a process in /api/run to its name in `process` records.
function process_name(store, number) {
  return store.run.layout?.processes > 1 ? `node-${number}` : "supervisor";
}

/// All stages with their lanes: those of /api/run, and those that only appear in lanes.
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

/// Lanes by name. The name of a stage without its own entry also finds its lane.
export function lanes_by_name(lanes) {
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

/// Follows the wait graph from a lane to a member that does not wait, or to a process. `names`: of
/// `lanes_by_name`. Example of the text: "stage:0.0, which is in state 'runs' (0F3)".
export function cause_of(lane, names, processes) {
  const seen = new Set([lane]);
  let at = lane;
  for (;;) {
    const name = at.on[0];
    const next = names.get(name);
    if (name === undefined)
      return at === lane ? "" : `${at.who}, which does not say what it waits for`;
    if (processes.has(name))
      return at === lane ? "" : `${at.who}, which waits for ${name}`;
    if (next === undefined)
      return `${name}, which has sent no sample`;
    if (seen.has(next))
      return `${next.who}, in a cycle of waits`;
    if (!waits(next))
      return `${next.who}, which is in state '${next.state}'${next.work ? ` (${next.work})` : ""}`;
    seen.add(next);
    at = next;
  }
}

/// Lanes and stages with a long wait, longest first. Empty if the run is paused or has ended.
export function long_waits(store, lanes) {
  if (store.end || store.state === "paused")
    return [];
  const least = long_wait_s(store);
  return lanes.filter((x) => x.place !== "" && waits(x) && x.for_s > least).sort((a, b) => b.for_s - a.for_s);
}
