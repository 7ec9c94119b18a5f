// The entry point of a run's page: connects its parts. docs/formats/telemetry.md describes the data.

import { draw_newest_steps, make_loss_chart, make_speed_chart } from "./charts.js";
import { keep_token, make_connection, take_fragment } from "./connect.js";
import { make_control } from "./control.js";
import { announce, by_id, set_class, set_hidden, set_text } from "./dom.js";
import { make_events } from "./events.js";
import { make_facts, make_header } from "./header.js";
import { make_members } from "./members.js";
import { draw_norms } from "./norms.js";
import { make_schedule } from "./schedule.js";
import { make_store } from "./store.js";
import { make_timeline } from "./timeline.js";
import { make_traffic } from "./traffic.js";

const store = make_store();
let condition = "connecting";

const header = make_header(store, () => condition);
const facts = make_facts(store);
const loss = make_loss_chart(store);
const speed = make_speed_chart(store);
const timeline = make_timeline(store);
const members = make_members(store, () => condition === "live");
const traffic = make_traffic(store);
const events = make_events(store);
const control = make_control(store);
const connection = make_connection(store, take_condition, (is_other) => is_other && control.forget());

make_schedule([
  { keys: ["run", "step", "clock", "member"], ms: 250, draw: header.draw },
  { keys: ["run"], ms: 1000, draw: facts.draw },
  { keys: ["run", "curves"], ms: 1000, draw: loss.draw },
  { keys: ["run", "curves"], ms: 1000, draw: speed.draw },
  { keys: ["run", "curves"], ms: 1000, draw: () => draw_newest_steps(store) },
  { keys: ["run", "curves"], ms: 10000, draw: loss.say },
  { keys: ["run", "curves"], ms: 10000, draw: speed.say },
  { keys: ["run", "timeline", "size"], ms: 1000, draw: timeline.draw },
  { keys: ["run", "norms"], ms: 1000, draw: () => draw_norms(store) },
  { keys: ["run", "process", "member", "event", "clock"], ms: 1000, draw: members.draw },
  { keys: ["run", "process"], ms: 1000, draw: members.draw_memory },
  { keys: ["run", "process"], ms: 1000, draw: traffic.draw },
  { keys: ["run", "event"], ms: 250, draw: events.draw },
  { keys: ["run", "process"], ms: 1000, draw: control.draw },
], store.dirty);

// Shown ages grow even if no record arrives.
setInterval(() => store.dirty.add("clock"), 1000);

function take_condition(now, text) {
  const is_shown = now === "lost" || now === "ended";
  if (now !== condition && is_shown)
    announce(text);
  condition = now;
  const banner = by_id("banner");
  set_text(banner, is_shown ? text : "");
  set_class(banner, `banner${is_shown ? " shown" : ""}${now === "ended" ? " ended" : ""}`);
  show_token_form(now === "refused", text);
  store.dirty.add("run");
}

function show_token_form(is_needed, text) {
  const section = by_id("token_section");
  const was_hidden = section.hidden;
  set_hidden(section, !is_needed);
  if (!is_needed)
    return;
  set_text(by_id("token_answer"), text);
  if (was_hidden)
    by_id("token_input").focus();
}

by_id("token_form").addEventListener("submit", (e) => {
  e.preventDefault();
  const input = by_id("token_input");
  if (!keep_token(input.value.trim()))
    return set_text(by_id("token_answer"), "This is not a token: it contains invalid characters.");
  input.value = "";
  set_text(by_id("token_answer"), "Checking the token.");
  connection.begin();
});

for (const id of ["loss_scale", "loss_smoothing"])
  by_id(id).addEventListener("change", () => store.dirty.add("curves"));
by_id("pipeline_zoom").addEventListener("change", () => store.dirty.add("timeline"));

window.addEventListener("resize", () => store.dirty.add("size"));
window.addEventListener("hashchange", () => take_fragment() && connection.begin());

function repaint() {
  loss.repaint();
  speed.repaint();
  store.dirty.add("curves");
}
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

take_fragment();
connection.begin();
