// The connection to the run: token, answers, the stream of records, and what to do when it is lost.

import { record_kinds, reset, take, take_run, take_state } from "./store.js";

const answer_ms = 8000;
const format_version = 1;
const silent_ms = 30000;  // a run sends a sample of each process every 10 s at least
const retry_ms = [1000, 2000, 4000, 8000, 10000];
const no_answer = "the run does not answer";

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

/// For EventSource, which sends no header of ours. Cookies do not distinguish ports, so the port is
/// in the name.
function write_cookie() {
  if (read_token === "")
    return;
  const is_tls = location.protocol === "https:";
  const port = location.port || (is_tls ? "443" : "80");
  document.cookie = `troupe_token_${port}=${read_token}; SameSite=Strict; path=/${is_tls ? "; Secure" : ""}`;
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
export async function ask(path, fields = {}, token = read_token, most_ms = answer_ms) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), most_ms);
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
    throw e.status === undefined ? failure(0, no_answer) : e;
  } finally {
    clearTimeout(timer);
  }
}

function failure(status, text) {
  return Object.assign(new Error(text), { status });
}

/// Calls `tell(condition, text)` with "live", "lost", "refused" or "ended", and `on_run(is_other)`
/// after it has read /api/run.
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

  /// Reads run and state. Opens the stream where asked, or where another run or another process of
  /// the run answers.
  async function load(mine, opens) {
    const run = await ask("/api/run");
    if ((run.version ?? format_version) !== format_version)
      throw failure(501, `this page reads version ${format_version} of the run's records, and the run has version `
        + `${Number(run.version)}; use the page of the program that started the run`);
    const state = await ask("/api/state");
    if (mine !== attempt)
      return;
    const is_other = run.id !== store.run.id;
    if (is_other)
      reset(store);
    if (is_other || epoch_of(state.next) !== epoch_of(position))
      position = null;
    const { end } = store;
    take_run(store, run);
    take_state(store, state);
    if (position !== null)
      store.end ??= end;  // it came while the state was on its way
    on_run(is_other);
    failures = 0;
    if (opens || position === null)
      open_stream(position ?? state.next);
    else
      tell("live", "");
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
    // A new process of the run begins with its oldest records; its state is shorter.
    if (epoch_of(e.lastEventId) !== epoch_of(position))
      return begin();
    position = e.lastEventId;
    try {
      take(store, { ...JSON.parse(e.data), kind });
    } catch (wrong) {
      console.warn("a record was left out:", wrong);
    }
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
    tell_lost(e.status === undefined ? no_answer : e.message);
    clearTimeout(timer);
    timer = setTimeout(begin, retry_ms[Math.min(failures++, retry_ms.length - 1)]);
  }

  function tell_lost(why) {
    if (store.end)
      tell("ended", "The run has ended. This page goes on when it is started again in its folder.");
    else
      tell("lost", `Connection lost: ${why}; trying again.`);
  }

  function close_stream() {
    stream?.close();
    stream = null;
  }

  /// A connection whose other end has vanished stays silent.
  setInterval(() => {
    if (stream?.readyState === EventSource.OPEN && performance.now() - heard_at > silent_ms) {
      heard_at = performance.now();
      refresh();
    }
  }, 5000);

  return { begin };
}

/// Of "1:250"; empty without a position.
function epoch_of(position) {
  return position === null ? "" : String(position).split(":")[0];
}
