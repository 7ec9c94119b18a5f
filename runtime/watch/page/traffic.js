// Traffic of the processes: tensors sent and received, and the counters of the transport.

import { by_id, set_rows, set_text } from "./dom.js";
import { bytes_text, compare_names, count_text, counted, is_number, plain_text } from "./format.js";

const most_rows = 1000;

/// Traffic by peer: [[peer, {sent, received}]], each {messages, bytes}.
function by_peer(process) {
  const out = new Map();
  for (const way of ["sent", "received"])
    for (const x of Array.isArray(process[way]) ? process[way] : []) {
      const peer = plain_text(x?.peer, 200);
      out.set(peer, { ...out.get(peer), [way]: x });
    }
  return [...out.entries()].sort((a, b) => compare_names(a[0], b[0]));
}

function traffic_text(x) {
  return x === undefined ? "" : `${bytes_text(x.bytes)} in ${counted(x.messages, "message")}`;
}

/// Example: "handed_bytes": 2048 becomes "handed: 2.0 kB".
function counter_text([name, value]) {
  const words = plain_text(name, 60);
  return words.endsWith("_bytes") ? `${words.slice(0, -6)}: ${bytes_text(value)}` : `${words}: ${count_text(value)}`;
}

function sum_of(processes, way) {
  let out = 0;
  for (const process of processes)
    for (const x of Array.isArray(process[way]) ? process[way] : [])
      out += is_number(x?.bytes) ? x.bytes : 0;
  return out;
}

export function make_traffic(store) {
  function draw() {
    const all = [...store.processes.values()].sort((a, b) => compare_names(a.name, b.name));
    set_rows(by_id("traffic_rows"), all.flatMap((process) => by_peer(process).map(([peer, x]) => ({ cells: [
      { text: process.name, scope: "row" }, { text: peer },
      { text: traffic_text(x.sent), style: "number" }, { text: traffic_text(x.received), style: "number" },
    ] }))).slice(0, most_rows));
    set_rows(by_id("transfers_rows"), all.filter((x) => x.transfers).slice(0, most_rows).map((x) => ({ cells: [
      { text: x.name, scope: "row" }, { text: Object.entries(x.transfers).map(counter_text).join(", "), style: "long" },
    ] })));
    const sent = sum_of(all, "sent");
    set_text(by_id("traffic_text"), sent === 0 ? "No messages between stages yet."
      : `Sum of all processes: sent ${bytes_text(sent)}, received ${bytes_text(sum_of(all, "received"))}.`);
  }
  return { draw };
}
