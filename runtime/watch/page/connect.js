// The connection to the run: the token, requests, the stream of records, and reconnection.

import { record_kinds, reset, take, take_run, take_state } from "./store.js";

const answer_ms = 8000;
const most_heard = 10000;
const format_version = 1;
const silent_ms = 30000;  // a run sends a sample of each process at least every 10 s
const after_drop_ms = 5000;
const retry_ms = [1000, 2000, 4000, 8000, 10000];
const no_answer = "the run does not answer";

/// Characters of a token; all of them are allowed in a cookie.
const token_pattern = /^[A-Za-z0-9._~+/=-]{1,512}$/;

let read_token = "";  // empty: an earlier cookie has it, or none is needed

export function is_token(text) {
  return token_pattern.test(text);
}

export function keep_token(token) {
  if (!is_token(token))
    return false;
  read_token = token;
  write_cookie();
  return true;
}

/// Stores the token as a cookie, because EventSource cannot send headers. Browsers share cookies
/// between the ports of a host, so the name of the cookie has the port.
function write_cookie() {
  if (read_token === "")
    return;
  const is_tls = location.protocol === "https:";
  const port = location.port || (is_tls ? "443" : "80");
  document.cookie = `troupe_token_${port}=${read_token}; SameSite=Strict; path=/${is_tls ? "; Secure" : ""}`;
}

/// Takes the token from the fragment of the address, and removes it from the address.
export function take_fragment() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null)
    return false;
  history.replaceState(null, "", location.pathname + location.search);
  return keep_token(token.trim());
}

/// Sends a request and returns the answer as JSON. Throws an Error with a `status`; 0: no answer.
export async function ask(path, fields = {}, token = read_token, most_ms = answer_ms) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), most_ms);
  try {
    const headers = { ...fields.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const got = await fetch(path, {
      ...fields, headers, cache: "no-store", credentials: "same-origin", signal: stop.signal,
    });
    const body = await got.json().catch(() => null);
    if (!got.ok)
      throw failure(got.status, body?.error?.message ?? `the run answered with status ${got.status}`);
    if (body === null)
      throw failure(0, "the answer is not JSON");
    return body;
  } catch (e) {
    throw e.status === undefined ? failure(0, no_answer) : e;
  } finally {
    clearTimeout(timer);
  }
}

function failure(status, text) {
  return Object.assign(new Error(text), { status });
}

/// Calls `tell(condition, text)` when the condition changes: "live", "lost", "refused" or "ended".
/// Calls `on_run(is_other)` after each read of /api/run and /api/state.
export function make_connection(store, tell, on_run) {
  let stream = null;
  let position = null;  // after the newest received record
  let heard_at = 0;
  let attempt = 0;      // older attempts stop at their next check
  let failures = 0;
  let timer = 0;
  let drop_timer = 0;
  let heard = null;     // while the state is read, records of the stream: [{number, record}]

  function begin() {
    const mine = ++attempt;
    close_stream();
    clearTimeout(timer);
    load(mine, true).catch((e) => mine === attempt && give_way(e));
  }

  /// Reads the run and its state. Opens a new stream if `opens`, or if another run or another
  /// supervisor process answers.
  async function load(mine, opens) {
    const run = await ask("/api/run");
    if ((run.version ?? format_version) !== format_version)
      throw failure(501, `this page reads version ${format_version} of the records, but the run sends version `
        + `${Number(run.version)}; use the page of the program that started the run`);
    if (mine !== attempt)
      return;
    heard = [];
    const state = await ask("/api/state");
    if (mine !== attempt)
      return;
    const newer = heard;
    heard = null;
    const is_other = run.id !== store.run.id;
    if (is_other)
      reset(store);
    if (is_other || epoch_of(state.next) !== epoch_of(position))
      position = null;
    take_run(store, run);
    take_state(store, state);
    if (position !== null)
      take_newer(newer, number_of(state.next));
    on_run(is_other);
    failures = 0;
    if (opens || position === null)
      open_stream(position ?? state.next);
    else if (stream?.readyState === EventSource.OPEN)
      tell("live", "");
  }

  /// Takes the records after `number` again, because the state is older than they are.
  function take_newer(records, number) {
    for (const x of records)
      if (x.number > number)
        take(store, x.record);
  }

  function open_stream(from) {
    close_stream();
    write_cookie();
    const opened = new EventSource(`/api/events?after=${encodeURIComponent(from)}`);
    stream = opened;
    position = from;
    heard_at = performance.now();
    let is_first = true;
    opened.onopen = () => {
      heard_at = performance.now();
      if (is_first)
        tell("live", "");
      else
        refresh();
      is_first = false;
    };
    opened.onerror = () => {
      if (stream !== opened)
        return;
      if (opened.readyState === EventSource.CLOSED)
        give_way(failure(0, no_answer));
      else
        tell_lost(no_answer);
    };
    for (const kind of record_kinds)
      opened.addEventListener(kind, (e) => hear(opened, kind, e));
  }

  function hear(from, kind, e) {
    if (from !== stream)
      return;
    heard_at = performance.now();
    // A new supervisor process answers. Reads its state, which is shorter than all its records.
    if (epoch_of(e.lastEventId) !== epoch_of(position))
      return begin();
    position = e.lastEventId;
    try {
      const record = { ...JSON.parse(e.data), kind };
      if (heard !== null && heard.length < most_heard && kind !== "dropped")
        heard.push({ number: number_of(position), record });
      take(store, record);
    } catch (wrong) {
      console.warn("ignored a malformed record:", wrong);
    }
    if (kind === "dropped" && drop_timer === 0)
      drop_timer = setTimeout(replace_dropped, after_drop_ms);
  }

  /// Reads the state, because the newest record of a member may be among the dropped ones.
  function replace_dropped() {
    drop_timer = 0;
    if (stream?.readyState === EventSource.OPEN)
      refresh();
  }

  /// Reads the run and its state, which another supervisor process or another run may answer. Keeps the
  /// stream open.
  function refresh() {
    const mine = ++attempt;
    clearTimeout(timer);
    load(mine, false).catch((e) => mine === attempt && give_way(e));
  }

  function give_way(e) {
    close_stream();
    ++attempt;
    heard = null;
    if (e.status === 401 || e.status === 403)
      return tell("refused", e.message);
    if (e.status === undefined)
      console.error(e);
    tell_lost(e.status === undefined ? no_answer : e.message);
    clearTimeout(timer);
    timer = setTimeout(begin, retry_ms[Math.min(failures++, retry_ms.length - 1)]);
  }

  function tell_lost(why) {
    if (store.end)
      tell("ended", "The run has ended. This page continues when a run starts in the same folder.");
    else
      tell("lost", `${store.run.id === undefined ? "No connection" : "Connection lost"}: ${why}; reconnecting.`);
  }

  function close_stream() {
    stream?.close();
    stream = null;
  }

  // Replaces dead connections, which the browser does not report.
  setInterval(() => {
    if (stream?.readyState === EventSource.OPEN && performance.now() - heard_at > silent_ms)
      begin();
  }, 5000);

  return { begin };
}

/// The epoch in a position such as "1:250"; empty without a position.
function epoch_of(position) {
  return position === null ? "" : String(position).split(":")[0];
}

function number_of(position) {
  return Number(String(position).split(":")[1]);
}
