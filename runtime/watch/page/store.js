// The state of a run as the page knows it: the sum of its records (docs/formats/telemetry.md).
// Ignores unknown fields and kinds. Does not use the DOM.

import { add_point } from "./curve.js";
import { duration_text, is_number, loss_of, loss_text, plain_text } from "./format.js";

const most_events = 500;
const most_marks = 200;
const most_members = 5000;
const most_processes = 5000;
const most_stragglers = 1000;
const recent_steps = 50;
const forgotten_after_s = 300;  // without a sample, until a process is removed

export function make_store() {
  const store = { dirty: new Set() };
  reset(store);
  return store;
}

/// Clears the store, for a run with another id.
export function reset(store) {
  Object.assign(store, {
    run: {},
    step: null,
    experts: null,
    step_times_ms: [],
    training: [],
    validation: [],
    speed: [],
    marks: [],          // restarts: [{x: iteration, text}]
    timeline: null,
    norms: null,
    processes: new Map(),
    keepers: new Map(),  // by process: the process that keeps its states
    members: new Map(),
    stragglers: new Map(),
    events: [],         // oldest first
    event_keys: new Set(),
    event_number: store.event_number ?? 0,            // of the newest event
    events_rebuilt: (store.events_rebuilt ?? 0) + 1,  // increases when all rows must be rebuilt
    state: "",          // of the newest `state` record
    generation: null,
    stops_after: null,
    dropped: 0,
    end: null,
    clock_offset_s: null,
  });
  mark_all(store);
}

function mark_all(store) {
  for (const x of ["run", "step", "curves", "timeline", "norms", "process", "member", "event", "clock", "size"])
    store.dirty.add(x);
}

/// The current time of the run's host, in Unix seconds, estimated from the times of its records.
export function run_now(store) {
  return page_now() + (store.clock_offset_s ?? 0);
}

/// Unix seconds by a steady clock: it ignores changes of the system's clock.
function page_now() {
  return (performance.timeOrigin + performance.now()) / 1000;
}

export function take_run(store, run) {
  store.run = run;
  store.dirty.add("run");
}

/// Takes the answer of /api/state. Removes processes, members and stragglers that it does not have. The
/// keepers stay: a successor reports them again only if they change.
export function take_state(store, state) {
  store.processes.clear();
  store.members.clear();
  store.stragglers.clear();
  store.timeline = store.norms = null;
  store.clock_offset_s = null;  // the supervisor may run on another host now
  store.end = null;
  store.stops_after = null;
  for (const x of Array.isArray(state.records) ? state.records : [])
    if (x?.kind !== "step" || !(store.step?.iteration >= x.iteration))
      take(store, x);
  mark_all(store);
}

const folds = {
  step: take_step,
  validation: take_validation,
  event: take_event,
  state: take_said_state,
  timeline: take_timeline,
  norms: take_norms,
  process: take_process,
  keepers: take_keepers,
  member: take_member,
  save: take_save,
  warning: take_warning,
  command: take_command,
  end: take_end,
  dropped: take_dropped,
};

export const record_kinds = Object.keys(folds);

export function take(store, x) {
  if (x === null || typeof x !== "object" || !Object.hasOwn(folds, x.kind))
    return;
  if (is_number(x.at))
    // The record with the shortest delay gives the best estimate of the clocks' difference.
    store.clock_offset_s = Math.max(store.clock_offset_s ?? -Infinity, x.at - page_now());
  folds[x.kind](store, x);
}

function take_step(store, x) {
  if (!is_number(x.iteration))
    return;
  store.step = x;
  if (is_number(x.expert_entropy))  // only some steps are counted
    store.experts = x;
  add_point(store.training, x.iteration, loss_of(x));
  add_point(store.speed, x.iteration, x.tokens_per_second);
  if (is_number(x.elapsed_ms))
    store.step_times_ms.push(x.elapsed_ms);
  if (store.step_times_ms.length > recent_steps)
    store.step_times_ms.shift();
  store.dirty.add("step").add("curves");
}

function take_validation(store, x) {
  if (is_number(x.test_loss))
    add_event(store, x, "other", "test", `test loss ${loss_text(x.test_loss)} nats per token`);
  add_point(store.validation, x.iteration, x.validation_loss);
  store.dirty.add("curves");
}

const failure_kinds = new Set(["restart", "move", "replaced", "given up", "rerun", "wrong bits", "not finite"]);
const bad_kinds = new Set(["wrong bits", "given up", "not finite"]);

function take_event(store, x) {
  const kind = plain_text(x.event, 60);
  const parts = [plain_text(x.who, 500)];
  if (x.why)
    parts.push(`: ${plain_text(x.why)}`);
  if (x.verdict)
    parts.push(` (${plain_text(x.verdict, 60)})`);
  if (x.state_from)
    parts.push(`; state from ${plain_text(x.state_from, 60)}`);
  if (is_number(x.resumed_from))
    parts.push(`; resumed from step ${x.resumed_from}`);
  if (is_number(x.seconds) && x.seconds > 0)
    parts.push(`; recovered after ${duration_text(x.seconds)}`);
  const group = failure_kinds.has(kind) ? "failure" : "other";
  const is_new = add_event(store, x, group, kind, parts.join(""), bad_kinds.has(kind) ? "bad" : "caution");
  if (kind === "straggler")
    take_straggler(store, x);
  if (kind === "restart" || kind === "move")
    store.stragglers.clear();  // the run measures its workers again
  if (is_new && (kind === "restart" || kind === "move"))
    add_mark(store, x, kind);
}

function take_straggler(store, x) {
  for (const who of plain_text(x.who, 5000).split(", "))
    if (x.verdict === "over")
      store.stragglers.delete(who);
    else
      store.stragglers.set(who, x);
  drop_first(store.stragglers, most_stragglers);
}

/// Removes the oldest entries of a Map, so that `most` are left.
function drop_first(map, most) {
  for (const key of map.keys()) {
    if (map.size <= most)
      return;
    map.delete(key);
  }
}

function add_mark(store, x, kind) {
  if (!is_number(x.iteration) || store.marks.some((m) => m.x === x.iteration && m.text === kind))
    return;
  store.marks.push({ x: x.iteration, text: kind });
  store.marks.sort((a, b) => a.x - b.x);
  if (store.marks.length > most_marks)
    store.marks.shift();
  store.dirty.add("curves");
}

function take_timeline(store, x) {
  if (!Array.isArray(x.rows))
    return;
  store.timeline = x;
  store.dirty.add("timeline");
}

function take_norms(store, x) {
  store.norms = x;
  store.dirty.add("norms");
}

function take_said_state(store, x) {
  store.state = plain_text(x.state, 60);
  store.generation = is_number(x.generation) ? x.generation : null;
  store.dirty.add("run").add("process");
}

function take_process(store, x) {
  const name = plain_text(x.name, 200);
  if (name === "")
    return;
  const before = store.processes.get(name);
  const is_same = before && before.pid === x.pid && x.at > before.at;
  const cores = is_same ? (x.cpu_s - before.cpu_s) / (x.at - before.at) : before?.cores;
  store.processes.set(name, { ...x, name, cores });
  drop_first(store.processes, most_processes);
  store.dirty.add("process");
}

function take_keepers(store, x) {
  store.keepers.clear();
  for (const one of Array.isArray(x.keepers) ? x.keepers.slice(0, most_processes) : [])
    store.keepers.set(plain_text(one?.of, 200), plain_text(one?.by, 200));
  store.dirty.add("process");
}

function take_warning(store, x) {
  const from = x.process ? `${plain_text(x.process, 200)}: ` : "";
  const [kind, severity] = x.severity === "error" ? ["error", "bad"] : ["warning", "caution"];
  add_event(store, x, "warning", kind, `${from}${plain_text(x.text)}`, severity);
}

/// Removes processes that have sent no sample for a long time. Call it only while samples can arrive.
export function forget_old_processes(store) {
  const now = run_now(store);
  for (const [name, x] of store.processes)
    if (now - x.at > forgotten_after_s)
      store.processes.delete(name);
}

function take_member(store, x) {
  const who = plain_text(x.who, 200);
  if (who === "")
    return;
  const before = store.members.get(who);
  store.members.delete(who);
  if (x.state === "left")
    store.processes.delete(who);
  else
    store.members.set(who, x);
  drop_first(store.members, most_members);
  // The death of a process is one event, and not one for each of its stages.
  if (before?.state !== x.state && x.state === "dead" && !who.startsWith("stage:"))
    add_event(store, x, "failure", "dead", x.why ? `${who}: ${plain_text(x.why)}` : who, "bad");
  store.dirty.add("member");
}

function take_save(store, x) {
  const place = x.path ? ` to ${plain_text(x.path, 500)}` : "";
  const time = is_number(x.seconds) ? `, after ${duration_text(x.seconds)}` : "";
  const why = x.why ? `: ${plain_text(x.why)}` : "";
  const words = {
    begun: `saving step ${x.iteration}${place}`,
    collected: `collected the snapshots of all ranks for step ${x.iteration}${time}`,
    written: `saved step ${x.iteration}${place}${time}`,
    failed: `cannot save step ${x.iteration}${place}${time}${why}`,
  };
  if (Object.hasOwn(words, x.state))
    add_event(store, x, "save", "save", words[x.state], x.state === "failed" ? "bad" : "");
}

function take_command(store, x) {
  const name = plain_text(x.name, 100);
  const words = x.arguments && Object.keys(x.arguments).length > 0
    ? ` ${plain_text(JSON.stringify(x.arguments), 300)}` : "";
  const by = x.by ? `, by ${plain_text(x.by, 200)}` : "";
  add_event(store, { ...x, iteration: x.step }, "command", "command", `${name}${words}${by}`);
  if (name === "stop_after" && is_number(x.arguments?.step))
    store.stops_after = x.arguments.step;
  if (name === "stop" && is_number(x.step))
    store.stops_after = x.step - 1;
  store.dirty.add("run");
}

function take_end(store, x) {
  store.end = x;
  const reason = x.reason ? `: ${plain_text(x.reason)}` : "";
  const how = is_number(x.exit_code) ? `exit code ${x.exit_code}` : "the run died";
  add_event(store, x, "other", "end", `${how}${reason}`, x.exit_code === 0 ? "good" : "bad");
  store.dirty.add("run");
}

function take_dropped(store, x) {
  if (is_number(x.count))
    store.dropped += x.count;
  store.dirty.add("run");
}

/// Identifies the fact in a record, without its time. A successor repeats a save without its path.
function fact_of(x) {
  const { at, ...rest } = x;
  return JSON.stringify(x.kind === "save" ? [x.kind, x.iteration, x.state] : rest);
}

/// True for a record that the store has. A successor of the supervisor repeats facts of the ledger,
/// without a time. Other records may occur again, at another time.
function is_repeated(store, x, fact, key) {
  const has_own_time = is_number(x.at) && x.kind !== "event" && x.kind !== "validation";
  return has_own_time ? store.event_keys.has(key) : store.events.some((e) => e.fact === fact);
}

/// The place of a new event in the order of time; of steps, if it has no time.
function place_of(events, x) {
  let place = events.length;
  while (place > 0 && (is_number(x.at) ? events[place - 1].at > x.at : !(events[place - 1].iteration <= x.iteration)))
    --place;
  return place;
}

/// Adds an event; keeps the newest ones. Returns false for a repeated record, and for one before them.
function add_event(store, x, group, kind, text, severity = "") {
  const fact = fact_of(x);
  const key = `${x.at} ${fact}`;
  const place = place_of(store.events, x);
  if (is_repeated(store, x, fact, key) || (place === 0 && store.events.length >= most_events))
    return false;
  const number = ++store.event_number;
  if (place < store.events.length)
    ++store.events_rebuilt;
  store.events.splice(place, 0, {
    at: x.at, iteration: x.iteration, group, kind, text: plain_text(text), severity, fact, key, number,
  });
  store.event_keys.add(key);
  if (store.events.length > most_events)
    store.event_keys.delete(store.events.shift().key);
  store.dirty.add("event");
  return true;
}
