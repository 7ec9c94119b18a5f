// Formats numbers with units for the user.

const none = "unknown";
const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function is_number(x) {
  return typeof x === "number" && Number.isFinite(x);
}

export function count_text(x) {
  return is_number(x) ? counts.format(x) : none;
}

/// Examples: "1 step", "2 steps".
export function counted(x, word, words = `${word}s`) {
  return `${count_text(x)} ${x === 1 ? word : words}`;
}

/// Four significant digits by default; exponents for very small and very large numbers.
export function number_text(x, digits = 4) {
  if (!is_number(x))
    return none;
  const size = Math.abs(x);
  if (x !== 0 && (size < 1e-3 || size >= 1e6))
    return x.toExponential(digits - 1);
  return String(Number(x.toPrecision(digits)));
}

/// The training loss of a step: the weighted sum, which may be null, or the only loss.
export function loss_of(step) {
  return Object.hasOwn(step, "loss") ? step.loss : step.lm_loss;
}

export function loss_unit(step) {
  return Object.hasOwn(step, "loss") ? "" : " nats per token";
}

export function loss_text(x) {
  return is_number(x) ? x.toFixed(4) : none;
}

export function rate_text(x) {
  return is_number(x) && x < 100 ? number_text(x, 3) : count_text(x);
}

export function percent_text(x) {
  return is_number(x) ? `${(x * 100).toFixed(x < 0.0995 ? 1 : 0)} %` : none;
}

export function ms_text(x) {
  if (!is_number(x))
    return none;
  return x >= 10000 ? duration_text(x / 1000) : `${number_text(x, 3)} ms`;
}

export function duration_text(seconds) {
  if (!is_number(seconds))
    return none;
  const x = Math.max(0, seconds);
  if (x < 1)
    return `${Math.round(x * 1000)} ms`;
  if (x < 9.95)
    return `${x.toFixed(1)} s`;
  const s = Math.round(x);
  if (s < 60)
    return `${s} s`;
  if (s < 3600)
    return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400)
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const byte_units = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes_text(bytes) {
  if (!is_number(bytes))
    return none;
  let x = bytes;
  let unit = 0;
  for (; x >= 999.5 && unit + 1 < byte_units.length; ++unit)
    x /= 1000;
  return unit === 0 ? `${bytes} B` : `${x.toFixed(x < 9.95 ? 1 : 0)} ${byte_units[unit]}`;
}

export function energy_text(joules) {
  if (!is_number(joules))
    return none;
  return joules < 1e4 ? `${count_text(joules)} J` : `${number_text(joules / 1000, 3)} kJ`;
}

/// Local time of Unix seconds; with the date unless it is today.
export function clock_text(at) {
  if (!is_number(at))
    return none;
  const then = new Date(at * 1000);
  const time = then.toLocaleTimeString("en-GB");
  const is_today = then.toDateString() === new Date().toDateString();
  return is_today ? time : `${then.toLocaleDateString("en-CA")} ${time}`;
}

/// Cleans text from the run: no control characters, at most `most` characters.
export function plain_text(x, most = 2000) {
  const text = x === undefined || x === null ? "" : String(x);
  const clean = text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, " ");
  return clean.length > most ? `${clean.slice(0, most)}…` : clean;
}

/// Compares names with numbers: "process:2" is before "process:10".
export function compare_names(a, b) {
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
