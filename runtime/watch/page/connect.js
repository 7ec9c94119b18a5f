// The connection to the run: token, answers, the stream of records, and what to do when it is lost.

import { record_kinds, records_of, reset, take, take_run, take_state } from "./store.js";

const answer_ms = 8000;
const history_ms = 10000;
const history_records = 16384;
const silent_ms = 30000;  // a run sends a sample of each process every 10 s at least
const retry_ms = [1000, 2000, 4000, 8000, 10000];

/// Tokens have these characters alone, so that one fits into a cookie.
const token_pattern = /^[A-Za-z0-9._~+/=-]{1,512}$/;

let read_token = "";  // empty: the cookie of an earlier visit, or a Unix socket that needs none

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

/// Cookies do not know ports: another run of this host may have written its own.
function write_cookie() {
  if (read_token === "")
    return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `troupe_token=${read_token}; SameSite=Strict; path=/${secure}`;
}

/// Takes the token from the fragment of the address, and removes it there.
export function take_fragment() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null)
    return false;
  history.replaceState(null, "", location.pathname + location.search);
  return keep_token(token.trim());
}

/// An answer as JSON. Throws an Error with `status`, 0 if nothing answered.
export async function ask(path, fields = {}, token = read_token) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), answer_ms);
  try {
    const headers = { ...fields.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const got = await fetch(path, { ...fields, headers, cache: "no-store", credentials: "same-origin", signal: stop.signal });
    const body = await got.json().catch(() => null);
    if (!got.ok)
      throw failure(got.status, body?.error?.message ?? `the run answered ${got.status}`);
    if (body === null)
      throw failure(0, "the answer is not JSON");
    return body;
  } catch (e) {
    throw e.status === undefined ? failure(0, "the run's process does not answer") : e;
  } finally {
    clearTimeout(timer);
  }
}

function failure(status, text) {
  return Object.assign(new Error(text), { status });
}

/// `tell(condition, text)` hears "live", "lost", "refused" or "ended". `on_run()`: /api/run was read.
export function make_connection(store, tell, on_run) {
  let stream = null;
  let position = null;  // behind the newest record that came
  let heard_at = 0;
  let attempt = 0;      // older ones end at their next step
  let failures = 0;
  let timer = 0;

  function begin() {
    const mine = ++attempt;
    close_stream();
    clearTimeout(timer);
    load(mine, true).catch((e) => mine === attempt && give_way(e));
  }

  /// Reads run and state. Opens the stream where asked, or where another run is there now.
  async function load(mine, opens) {
    const run = await ask("/api/run");
    const state = await ask("/api/state");
    if (mine !== attempt)
      return;
    const is_other = run.id !== store.run.id;
    if (is_other) {
      close_stream();
      const past = [];
      if (!has_curves(state))
        await read_history(state.next, past).catch((e) => console.warn("older records are missing:", e));
      if (mine !== attempt)
        return;
      reset(store);
      position = null;
      take_run(store, run);
      past.forEach((x) => take(store, x));
    } else {
      take_run(store, run);
    }
    take_state(store, state);
    on_run(is_other);
    failures = 0;
    if (opens || is_other)
      open_stream(position ?? state.next);
    else
      tell("live", "");
  }

  function has_curves(state) {
    return records_of(state).filter((x) => x.kind === "step").length > 1;
  }

  /// Older records up to `next`, as far as the run still has them and time allows.
  async function read_history(next, out) {
    const kinds = "kinds=step,validation,event,save,warning,command&most=1000";
    const until = performance.now() + history_ms;
    let from = `newest=${history_records}`;
    while (performance.now() < until) {
      const got = await ask(`/api/records?${kinds}&${from}`);
      for (const x of got.records)
        out.push(x);
      if (is_behind(got.next, next) || from === `after=${encodeURIComponent(got.next)}`)
        break;
      from = `after=${encodeURIComponent(got.next)}`;
    }
  }

  function open_stream(from) {
    write_cookie();
    const opened = new EventSource(`/api/events?after=${encodeURIComponent(from)}`);
    stream = opened;
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
        give_way(failure(0, "the run's process does not answer"));
      else
        tell_lost();
    };
    for (const kind of record_kinds)
      opened.addEventListener(kind, (e) => hear(opened, kind, e));
  }

  function hear(from, kind, e) {
    if (from !== stream)
      return;
    heard_at = performance.now();
    const before = epoch_of(position);
    position = e.lastEventId || position;
    try {
      take(store, { ...JSON.parse(e.data), kind });
    } catch (wrong) {
      console.warn("a record was left out:", wrong);
    }
    if (before !== "" && epoch_of(position) !== before)
      refresh();
  }

  /// Another process may serve the run now, or another run: asks again, beside the stream.
  function refresh() {
    const mine = ++attempt;
    clearTimeout(timer);
    load(mine, false).catch((e) => mine === attempt && give_way(e));
  }

  function give_way(e) {
    close_stream();
    ++attempt;
    if (e.status === 401 || e.status === 403)
      return tell("refused", e.message);
    if (e.status === undefined)
      console.error(e);
    tell_lost();
    clearTimeout(timer);
    timer = setTimeout(begin, retry_ms[Math.min(failures++, retry_ms.length - 1)]);
  }

  function tell_lost() {
    if (store.end)
      tell("ended", "The run has ended. Its process is gone, so this page stands still.");
    else
      tell("lost", "The run's process does not answer; trying again.");
  }

  function close_stream() {
    stream?.close();
    stream = null;
  }

  /// A connection whose other end vanished stays silent for ever.
  setInterval(() => {
    if (stream?.readyState === EventSource.OPEN && performance.now() - heard_at > silent_ms) {
      heard_at = performance.now();
      refresh();
    }
  }, 5000);

  return { begin };
}

function epoch_of(position) {
  return position === null ? "" : position.split(":")[0];
}

/// True if `a` is at or behind `b`, or of another epoch.
function is_behind(a, b) {
  const [a_epoch, a_number] = String(a).split(":");
  const [b_epoch, b_number] = String(b).split(":");
  return a_epoch !== b_epoch || Number(a_number) >= Number(b_number);
}
