// The head of the page: the run's name, state, progress and newest figures.

import { by_id, set_class, set_pairs, set_text } from "./dom.js";
import { figures_of_step, last_step, seconds_left, state_of, step_seconds } from "./facts.js";
import {
  clock_text, count_text, counted, duration_text, is_number, number_text, percent_text, plain_text, rate_text,
} from "./format.js";

export function make_header(store, condition) {
  function draw() {
    const { run, step } = store;
    const name = plain_text(run.name || run.id || "run", 200);
    set_text(by_id("run_name"), `Troupe: ${name}`);
    draw_state();
    draw_progress(name, step?.iteration ?? run.first_step ?? 0);
    set_pairs(by_id("run_figures"), step ? figures(step) : []);
    set_text(by_id("footer_text"), footer(run));
  }

  function draw_state() {
    const shows_run = condition() === "live" || store.end;
    const [text, style] = shows_run ? state_of(store) : [condition_words[condition()], "caution"];
    set_text(by_id("run_state"), text);
    set_class(by_id("run_state"), style);
  }

  function draw_progress(name, done) {
    const last = last_step(store);
    const has_last = is_number(last) && last > 0;
    const bar = by_id("run_progress");
    bar.max = has_last ? last : 1;
    bar.value = has_last ? Math.min(done, last) : 0;
    const of_last = has_last ? ` of ${count_text(last)}` : "";
    set_text(by_id("run_step"), `step ${count_text(done)}${of_last}`);
    const left = seconds_left(store);
    set_text(by_id("run_left"), left === null || store.end ? "" : `about ${duration_text(left)} left`);
    document.title = `${has_last ? `${done}/${last} ` : ""}${name} – Troupe`;
  }

  function figures(step) {
    const each = step_seconds(store);
    const out = [
      ["Throughput", `${rate_text(step.tokens_per_second)} tokens/s`],
      ["Speed", each > 0 ? `${number_text(1 / each, 3)} steps/s` : "unknown"],
      ["Step time", each > 0 ? duration_text(each) : "unknown"],
      ...figures_of_step(step),
    ];
    if (is_number(step.teraflops_per_second))
      out.push(["Operations", `${number_text(step.teraflops_per_second, 3)} TFLOP/s`]);
    if (is_number(step.share_of_matrix_rate))
      out.push(["MFU", percent_text(step.share_of_matrix_rate)]);
    if (store.experts) {
      const { least_expert_rows, most_expert_rows, expert_entropy, dropped_expert_rows } = store.experts;
      out.push(["Rows of an expert", `${count_text(least_expert_rows)} to ${count_text(most_expert_rows)}`]);
      out.push(["Expert entropy", number_text(expert_entropy, 3)]);
      out.push(["Dropped rows", count_text(dropped_expert_rows)]);
    }
    if (is_number(step.skipped_iterations) && step.skipped_iterations > 0)
      out.push(["Skipped", counted(step.skipped_iterations, "step")]);
    return out;
  }

  function footer(run) {
    const lost = store.dropped > 0 ? ` ${counted(store.dropped, "record")} dropped: too many arrived at once.` : "";
    const version = plain_text(run.program, 100).split(" (")[0] || "troupe of an unknown version";  // without its build
    return `${version}, run ${plain_text(run.id, 100) || "unknown"}.${lost}`;
  }

  return { draw };
}

const condition_words = {
  connecting: "connecting",
  lost: "no connection",
  refused: "a token is needed",
  ended: "ended",
};

function layout_text(layout) {
  return Object.entries(layout ?? {}).map(([axis, n]) => `${plain_text(axis, 40)} ${n}`).join(", ");
}

/// A generation has the epoch of its supervisor in the upper 32 bits.
function generation_text(x) {
  if (x === null)
    return "unknown";
  return `${count_text(x % 2 ** 32)}, of supervisor ${count_text(Math.floor(x / 2 ** 32) + 1)}`;
}

export function make_facts(store) {
  function draw() {
    const { run } = store;
    const command = Array.isArray(run.command) ? run.command.join(" ") : run.command;
    set_pairs(by_id("run_facts"), [
      ["Program", plain_text(run.program, 100)],
      ["Started", clock_text(run.started_at)],
      ["Host", plain_text(run.host, 200)],
      ["Started from step", count_text(run.first_step)],
      ["Generation of the ranks", generation_text(store.generation)],
      ["Parameters", count_text(run.parameters)],
      ["Sequence length", counted(run.sequence, "token")],
      ["Global batch size", counted(run.global_batch_size, "sample")],
      ["Precision", plain_text(run.precision, 40)],
      ["Layout", layout_text(run.layout)],
      ["Schedule", plain_text(run.schedule, 100)],
      ["Command", plain_text(command)],
    ]);
  }
  return { draw };
}
