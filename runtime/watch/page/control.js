// The section for commands to the run. It shows only a button until the user gives the control
// token. The token stays in memory.

import { ask, is_token } from "./connect.js";
import { by_id, make, set_hidden, set_options, set_text } from "./dom.js";
import { compare_names, plain_text } from "./format.js";

const most_answer = 4000;
const answer_ms = 600000;  // a run answers between two steps

const whole = { type: "number", min: 1, step: 1, required: "" };
const interval = { ...whole, min: 0 };
const few = { ...whole, max: 1000 };

/// The commands of docs/formats/commands.md: label, fields, and a question before a command that
/// cannot be undone.
const known = {
  status: { label: "Status" },
  pause: { label: "Pause" },
  resume: { label: "Resume" },
  save: { label: "Save now" },
  evaluate: { label: "Evaluate now" },
  learning_rate: { label: "Set learning rate", fields: [
    { name: "rate", label: "rate of the next step", input: { type: "number", min: 0, step: "any", required: "" } }] },
  log_level: { label: "Set log level", fields: [
    { name: "level", label: "minimum severity on the console", options: ["debug", "info", "warning", "error"] }] },
  eval_interval: { label: "Set interval of evaluation", fields: [
    { name: "steps", label: "steps (0: never)", input: interval }] },
  save_interval: { label: "Set interval of saving", fields: [
    { name: "steps", label: "steps (0: only at the end)", input: interval }] },
  trace: { label: "Trace the next steps", fields: [{ name: "steps", label: "number of steps", input: few }] },
  norms: { label: "Report gradient norms", fields: [
    { name: "of", label: "prefix of the parameter names", may_be_empty: true, input: { type: "text" } },
    { name: "steps", label: "number of steps", input: few }] },
  replace: { label: "Replace a worker", fields: [{ name: "worker", label: "worker", workers: true }],
             question: (x) => `Replace ${x.worker}? Its process ends, and its ranks continue in a new process.` },
  stop_after: { label: "Stop after a step", fields: [{ name: "step", label: "step", input: whole }],
                question: (x) => `Stop the run after step ${x.step}?` },
  stop: { label: "Stop now", question: () => "Stop the run after its newest step?" },
};

/// Form of a command that this page does not know: its arguments as JSON.
function of_unknown(name) {
  const input = { type: "text", placeholder: "{}" };
  return { label: name, fields: [{ name: "", label: "arguments as a JSON object", input }],
           question: () => `Send the command '${name}'?` };
}

function make_input(field) {
  if (field.options !== undefined || field.workers) {
    const out = make("select", field.workers ? { "data-workers": "" } : {});
    out.append(...(field.options ?? []).map((x) => make("option", { value: x }, [x])));
    return out;
  }
  return make("input", { autocomplete: "off", ...field.input });
}

/// The command {"command": name, ...}. Throws an Error with a text for the user.
function read_command(name, fields, inputs) {
  const out = { command: name };
  fields.forEach((field, i) => {
    const text = inputs[i].value.trim();
    if (field.name === "") {
      const more = text === "" ? {} : JSON.parse(text);
      if (more === null || typeof more !== "object" || Array.isArray(more))
        throw new SyntaxError();
      Object.assign(out, more, { command: name });
    } else if (text === "" && !field.may_be_empty) {
      throw new Error(`Give a value for '${field.label}'.`);
    } else {
      out[field.name] = field.input?.type === "number" ? Number(text) : text;
    }
  });
  return out;
}

function answer_text(body) {
  return plain_text(typeof body.message === "string" ? body.message : JSON.stringify(body), most_answer);
}

export function make_control(store) {
  let token = "";
  let shown = null;  // names of the commands that have forms
  const open = by_id("control_open");
  const form = by_id("control_form");
  const panel = by_id("control_panel");

  open.addEventListener("click", () => {
    set_hidden(form, !form.hidden);
    open.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden)
      by_id("control_input").focus();
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    take_token(by_id("control_input").value.trim());
  });
  by_id("control_forget").addEventListener("click", () => {
    forget("");
    open.focus();
  });

  /// Tests the token with the command `status`, which changes nothing, if the run has it.
  async function take_token(given) {
    if (!is_token(given))
      return set_text(by_id("control_answer"), "This is not a token: it contains invalid characters.");
    set_text(by_id("control_answer"), "Checking the token.");
    try {
      if (has("status"))
        await send({ command: "status" }, given);
    } catch (e) {
      return set_text(by_id("control_answer"), e.message);
    }
    token = given;
    by_id("control_input").value = "";
    set_text(by_id("control_answer"), "");
    set_hidden(form, true);
    draw();
    panel.querySelector("button")?.focus();
  }

  function forget(why) {
    token = "";
    set_hidden(form, why === "");
    open.setAttribute("aria-expanded", String(!form.hidden));
    set_text(by_id("control_answer"), why);
    draw();
  }

  function has(name) {
    return commands().includes(name);
  }

  function commands() {
    return Array.isArray(store.run.commands) ? store.run.commands.map((x) => plain_text(x, 100)) : [];
  }

  function send(command, with_token) {
    const headers = { "Content-Type": "application/json" };
    return ask("/api/command", { method: "POST", headers, body: JSON.stringify(command) }, with_token, answer_ms);
  }

  function make_command(name) {
    const of = Object.hasOwn(known, name) ? known[name] : of_unknown(name);
    const fields = of.fields ?? [];
    const inputs = fields.map(make_input);
    const button = make("button", { type: "submit" }, [of.label]);
    const answer = make("output", { "aria-live": "polite" });
    const out = make("form", { class: "command", method: "post" }, [
      button, ...fields.map((field, i) => make("label", {}, [field.label, inputs[i]])), answer,
    ]);
    out.addEventListener("submit", (e) => {
      e.preventDefault();
      run_command(name, of, inputs, button, answer);
    });
    return out;
  }

  async function run_command(name, of, inputs, button, answer) {
    if (button.getAttribute("aria-busy") === "true")
      return;
    try {
      const command = read_command(name, of.fields ?? [], inputs);
      if (of.question && !window.confirm(of.question(command)))
        return set_text(answer, "Not sent.");
      button.setAttribute("aria-busy", "true");
      set_text(answer, "Sent; the run answers after the current step.");
      set_text(answer, answer_text(await send(command, token)));
    } catch (e) {
      set_text(answer, e instanceof SyntaxError ? "The arguments are not a JSON object." : `Error: ${e.message}`);
      if (e.status === 401 || e.status === 403) {
        forget(e.message);
        by_id("control_input").focus();
      }
    } finally {
      button.removeAttribute("aria-busy");
    }
  }

  function draw() {
    const names = commands();
    set_hidden(by_id("control_none"), names.length > 0);
    set_hidden(open, names.length === 0 || token !== "");
    set_hidden(panel, names.length === 0 || token === "");
    if (panel.hidden)
      return;
    if (shown !== names.join()) {
      by_id("control_commands").replaceChildren(...names.map(make_command));
      shown = names.join();
    }
    const stages = Array.isArray(store.run.stages) ? store.run.stages.map((x) => plain_text(x.name, 200)) : [];
    const workers = [...[...store.processes.keys()].filter((x) => x.startsWith("node-")).sort(compare_names), ...stages]
      .map((x) => [x, x]);
    for (const select of panel.querySelectorAll("select[data-workers]"))
      set_options(select, workers);
  }

  return { draw, forget: () => token !== "" && forget("The run has changed. The new one has its own control token.") };
}
