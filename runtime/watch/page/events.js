// The list of events, newest first. New rows are added at the top.

import { announce, by_id, make, set_hidden, set_text } from "./dom.js";
import { clock_text, count_text, is_number } from "./format.js";

const most_rows = 500;
/// Marks before the kind, so that the severity is visible without colours.
const marks = { bad: "✕ ", caution: "▲ ", good: "✓ ", "": "" };

function make_row(x) {
  const cell = (text, style) => make("td", style ? { class: style } : {}, [text]);
  const out = make("tr", { "data-group": x.group }, [
    make("th", { scope: "row", class: "short" }, [clock_text(x.at)]),
    cell(is_number(x.iteration) ? count_text(x.iteration) : "", "number"),
    cell(`${marks[x.severity] ?? ""}${x.kind}`, `short ${x.severity}`.trim()),
    cell(x.text, "long"),
  ]);
  return out;
}

export function make_events(store) {
  const body = by_id("events_rows");
  const group = by_id("events_group");
  const none = by_id("events_none");
  let newest = 0;
  let rebuilt = -1;
  let run = null;  // id of the run whose events are known

  function show_group() {
    for (const row of body.rows)
      set_hidden(row, group.value !== "" && row.dataset.group !== group.value);
    const is_empty = body.rows.length === 0;
    set_text(none, is_empty ? "No events yet." : "No events of this kind.");
    set_hidden(none, Array.from(body.rows).some((row) => !row.hidden));
  }
  group.addEventListener("change", show_group);

  function draw() {
    const known = newest;
    if (rebuilt !== store.events_rebuilt) {
      body.replaceChildren();
      newest = 0;
      rebuilt = store.events_rebuilt;
    }
    const more = store.events.filter((x) => x.number > newest);
    newest = store.event_number;
    body.prepend(...more.map(make_row).reverse());
    while (body.rows.length > most_rows)
      body.deleteRow(-1);
    show_group();
    if (run === store.run.id)
      say(more.filter((x) => x.number > known));
    run = store.run.id;  // its first events are old
  }

  /// Announces only failures, because saves and commands are frequent.
  function say(more) {
    const worst = more.filter((x) => x.severity === "bad" || x.group === "failure");
    if (worst.length > 0)
      announce(`${worst[worst.length - 1].kind}: ${worst[worst.length - 1].text}`.slice(0, 300));
  }

  return { draw };
}
