// Where the lanes are, what they do, and which of them keeps the others waiting.

import { is_number, compare_names, plain_text } from "./format.js";

export const long_wait_s = 10;
export const silent_after_s = 15;

/// "0.1" of "lane:0.1".
function place_of(name) {
  const colon = String(name).indexOf(":");
  return colon < 0 ? "" : String(name).slice(colon + 1);
}

/// Lanes of all samples: [{who, place, process, state, work, for_s, on, step}].
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

/// Stages of the run with their lanes: those of /api/run, and those that only lanes name.
export function all_stages(store, lanes) {
  const out = new Map();
  for (const x of Array.isArray(store.run.stages) ? store.run.stages : [])
    out.set(place_of(x.name), {
      name: plain_text(x.name, 200), replica: x.replica, chunks: x.chunks, lanes: [],
      process: is_number(x.process) ? `process:${x.process}` : plain_text(x.process, 200),
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

/// By name and by place, so that "stage:0.1" finds "lane:0.1".
function lanes_by_name(lanes) {
  const out = new Map();
  for (const x of lanes) {
    out.set(x.who, x);
    if (x.who.startsWith("lane:"))
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

/// Lanes that wait for long, longest first. None while the run waits on purpose.
export function long_waits(store, lanes) {
  if (store.end || store.pause_asked)
    return [];
  return lanes.filter((x) => waits(x) && x.for_s > long_wait_s).sort((a, b) => b.for_s - a.for_s);
}
