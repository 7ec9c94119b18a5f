// Values derived from the store: the run's state, its speed, the time left.

import { is_number, loss_of, loss_text, loss_unit, number_text } from "./format.js";

const calm_states = new Set(["training", "validating"]);

function end_of(code) {
  if (code === 0)
    return ["done", "good"];
  return [is_number(code) ? `ended with exit code ${code}` : "died", "bad"];
}

function recovery_text(store) {
  const [who] = [...store.members].find(([, x]) => x.state === "dead") ?? [];
  return who === undefined ? "recovering" : `recovering: ${who} is dead`;
}

/// The state of the run: [text, style].
export function state_of(store) {
  if (store.end)
    return end_of(store.end.exit_code);
  if (store.state === "recovering")
    return [recovery_text(store), "caution"];
  if (store.state !== "")
    return [store.state, calm_states.has(store.state) ? "good" : "caution"];
  return store.step ? ["training", "good"] : ["starting", "caution"];
}

/// Mean duration of the newest steps.
export function step_seconds(store) {
  const all = store.step_times_ms;
  return all.length > 0 ? all.reduce((a, b) => a + b, 0) / all.length / 1000 : null;
}

/// The step after which the run ends.
export function last_step(store) {
  const planned = store.run.steps;
  return is_number(store.stops_after) && !(planned < store.stops_after) ? store.stops_after : planned;
}

export function seconds_left(store) {
  const each = step_seconds(store);
  const last = last_step(store);
  return each !== null && is_number(last) && store.step ? Math.max(0, last - store.step.iteration) * each : null;
}

/// Figures of the newest step: [[term, text]].
export function figures_of_step(step) {
  return [
    ["Training loss", `${loss_text(loss_of(step))}${loss_unit(step)}`],
    ["Gradient norm", number_text(step.grad_norm, 3)],
    ["Learning rate", number_text(step.learning_rate, 3)],
  ];
}
