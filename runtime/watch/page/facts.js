// What follows from the store: the run's state, its speed, the time left.

import { is_number, loss_text, number_text } from "./format.js";

/// What the run does now: [text, style].
export function state_of(store) {
  if (store.end)
    return store.end.exit_code === 0 ? ["done", "good"] : [`ended with exit code ${store.end.exit_code}`, "bad"];
  for (const [who, x] of store.members)
    if (x.state === "dead" || (x.state === "starting" && store.step))
      return [`recovering: ${who} is ${x.state}`, "caution"];
  if (store.pause_asked)
    return ["paused", "caution"];
  if (store.said_state)
    return [store.said_state, "good"];
  return store.step ? ["training", "good"] : ["starting", "caution"];
}

/// Mean of the newest steps.
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

/// Pairs [term, text] of the newest step.
export function figures_of_step(step) {
  return [
    ["Training loss", `${loss_text(step.lm_loss)} nats per token`],
    ["Gradient norm", number_text(step.grad_norm, 3)],
    ["Learning rate", number_text(step.learning_rate, 3)],
  ];
}
