// The section on gradient norms of single parameters, which the command `norms` requests.

import { by_id, set_hidden, set_rows, set_text } from "./dom.js";
import { count_text, is_number, number_text, plain_text } from "./format.js";

const most_rows = 500;

function size_of(x) {
  return is_number(x) ? x : Infinity;  // null: not finite
}

export function draw_norms(store) {
  const { norms } = store;
  set_hidden(by_id("norms"), norms === null);
  if (norms === null)
    return;
  const all = Object.entries(norms.gradients ?? {}).sort((a, b) => size_of(b[1]) - size_of(a[1]));
  const cut = all.length > most_rows ? `, the first ${most_rows}` : "";
  set_text(by_id("norms_caption"),
    `Step ${count_text(norms.iteration)}: ${count_text(all.length)} parameters, largest first${cut}`);
  set_rows(by_id("norms_rows"), all.slice(0, most_rows).map(([name, value]) => ({ cells: [
    { text: plain_text(name, 300), scope: "row" },
    { text: is_number(value) ? number_text(value) : "not finite", style: "number" },
  ] })));
}
