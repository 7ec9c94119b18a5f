// The timeline of the pipeline as SVG: for each stage, the planned above the executed actions.

import { by_id, make, make_svg, set_rows, set_text } from "./dom.js";
import { count_text, counted, is_number, ms_text, number_text, percent_text, plain_text } from "./format.js";

const row_px = 18;
const gap_px = 8;
const axis_px = 22;
const text_px = 6.5;  // approximate width of a character
const most_rows = 512;

/// Patterns distinguish the kinds without colours.
const kinds = {
  F: { name: "f", words: "forward", text: "light" },
  B: { name: "b", words: "backward", text: "dark" },
  I: { name: "i", words: "input gradients", text: "dark" },
  W: { name: "w", words: "weight gradients", text: "dark", pattern: "hatch" },
  R: { name: "r", words: "recompute", text: "dark", pattern: "dots" },
};
const other = { name: "other", words: "other", text: "dark" };

/// Example: "1I3.2" is chunk 1, input gradients, micro-batch 3, block 2.
const action_pattern = /^(?:eval )?(\d+)([FBIWR])(\d+)(?:\.(\d+))?$/;

function read_action(x) {
  if (!Array.isArray(x) || !is_number(x[1]) || !is_number(x[2]) || x[2] < x[1])
    return null;
  const name = plain_text(x[0], 30);
  const found = action_pattern.exec(name);
  const kind = found ? kinds[found[2]] : other;
  return { name, begin: x[1], end: x[2], kind, short: found ? found[2] + found[3] : name, parts: found };
}

function read_actions(all) {
  return (Array.isArray(all) ? all : []).map(read_action).filter((x) => x !== null);
}

function words_of(x) {
  const place = x.parts ? `, chunk ${x.parts[1]}, micro-batch ${x.parts[3]}` : "";
  const block = x.parts && x.parts[4] !== undefined ? `, block ${x.parts[4]}` : "";
  return `${x.name}: ${x.kind.words}${place}${block}; ${ms_text(x.end - x.begin)}, `
    + `from ${ms_text(x.begin)} to ${ms_text(x.end)}`;
}

/// Joins adjacent actions of one kind that are narrower than a pixel.
function joined(actions, px_per_ms) {
  const out = [];
  for (const x of actions) {
    const last = out[out.length - 1];
    const is_thin = (x.end - x.begin) * px_per_ms < 1;
    if (is_thin && last && last.is_thin && last.kind === x.kind && (x.begin - last.end) * px_per_ms < 1)
      Object.assign(last, { end: x.end, count: last.count + 1 });
    else
      out.push({ ...x, is_thin, count: 1 });
  }
  return out;
}

function pattern_of(name, mark) {
  return make_svg("pattern", { id: `pattern_${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, [mark]);
}

function patterns() {
  return make_svg("defs", {}, [
    pattern_of("hatch", make_svg("path", { d: "M0,6 L6,0", class: "hatch" })),
    pattern_of("dots", make_svg("circle", { cx: 3, cy: 3, r: 1.1, class: "dot" })),
  ]);
}

function add_box(to, x, left, y, px_per_ms) {
  const at = { x: (left + x.begin * px_per_ms).toFixed(1), y, height: row_px - 2,
               width: Math.max(0.6, (x.end - x.begin) * px_per_ms).toFixed(1) };
  const box = make_svg("g", {}, [make_svg("rect", { ...at, class: `${x.kind.name} outline` })]);
  box.append(make_svg("title", {}, [x.count > 1 ? `${x.count} actions: ${x.kind.words}` : words_of(x)]));
  if (x.kind.pattern)
    box.append(make_svg("rect", { ...at, fill: `url(#pattern_${x.kind.pattern})` }));
  const label = [x.name, x.short, x.short.slice(0, 1)].find((t) => t.length * text_px + 3 < Number(at.width));
  if (label !== undefined && x.count === 1)
    box.append(make_svg("text",
      { x: Number(at.x) + Number(at.width) / 2, y: y + 12, "text-anchor": "middle", class: x.kind.text }, [label]));
  to.append(box);
}

function add_row(to, actions, name, y, left, width, px_per_ms) {
  to.append(make_svg("text", { x: 0, y: y + 12 }, [name]));
  to.append(make_svg("rect", { x: left, y, width: Math.max(0, width - left), height: row_px - 2, class: "track" }));
  for (const x of joined(actions, px_per_ms))
    add_box(to, x, left, y, px_per_ms);
}

/// A round distance of ticks, at least 90 pixels.
function tick_ms(px_per_ms) {
  const least = 90 / px_per_ms;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((x) => x * power).find((x) => x >= least) ?? least;
}

function add_axis(to, span, y, left, px_per_ms) {
  const each = tick_ms(px_per_ms);
  for (let i = 0; i * each <= span && i < 1000; ++i) {
    const x = left + i * each * px_per_ms;
    to.append(make_svg("line", { x1: x, x2: x, y1: 0, y2: y + 4, class: "axis" }));
    to.append(make_svg("text", { x, y: y + 16, "text-anchor": i === 0 ? "start" : "middle" },
      [`${number_text(i * each, 3)} ms`]));
  }
}

function make_drawing(rows, span, width, is_narrow) {
  const left = is_narrow ? 52 : 112;
  const px_per_ms = Math.max(1e-9, width - left - 24) / span;
  const height = rows.length * (2 * row_px + gap_px) + axis_px;
  const out = make_svg("svg", { width, height, "aria-hidden": "true", focusable: "false" });
  add_axis(out, span, height - axis_px, left, px_per_ms);
  rows.forEach((row, i) => {
    const y = i * (2 * row_px + gap_px);
    add_row(out, row.planned, is_narrow ? `${row.rank} plan` : `stage ${row.rank}, planned`, y, left, width, px_per_ms);
    add_row(out, row.executed, is_narrow ? `${row.rank} run` : "executed", y + row_px, left, width, px_per_ms);
  });
  return out;
}

function busy_ms(actions) {
  return actions.reduce((sum, x) => sum + x.end - x.begin, 0);
}

function busy_row(row, executed_ms) {
  const busy = busy_ms(row.executed);
  return { cells: [
    { text: `stage ${row.rank}`, scope: "row" },
    { text: count_text(row.executed.length), style: "number" },
    { text: ms_text(busy_ms(row.planned)), style: "number" },
    { text: ms_text(busy), style: "number" },
    { text: percent_text(executed_ms > 0 ? Math.max(0, 1 - busy / executed_ms) : NaN), style: "number" },
  ] };
}

function figures_text(x, has_replicas) {
  const cut = x.left_out > 0 ? ` ${counted(x.left_out, "executed action")} left out of the drawing and the table.` : "";
  const of = has_replicas ? ", slowest replica" : "";
  return `Step ${count_text(x.iteration)}${of}: executed in ${ms_text(x.executed_ms)}, planned ${ms_text(x.planned_ms)}. `
    + `Bubble: ${percent_text(x.bubble)} of the stages' time, planned ${percent_text(x.planned_bubble)}.${cut}`;
}

function make_legend(to) {
  const mark = (x) => {
    const box = { width: 18, height: 14 };
    const out = make_svg("svg", { ...box, "aria-hidden": "true" }, [make_svg("rect", { ...box, class: x.name })]);
    if (x.pattern)
      out.append(make_svg("rect", { ...box, fill: `url(#pattern_${x.pattern})` }));
    return out;
  };
  to.append(make_svg("svg", { class: "unseen", "aria-hidden": "true" }, [patterns()]));
  to.append(...Object.entries(kinds).map(([letter, x]) => make("span", {}, [mark(x), `${letter}: ${x.words}`])));
}

export function make_timeline(store) {
  const scroll = by_id("pipeline_scroll");
  const hold = by_id("pipeline_hold");
  let held = null;
  let held_run = null;
  make_legend(by_id("pipeline_legend"));
  hold.addEventListener("click", () => {
    held = held === null ? store.timeline : null;
    held_run = store.run.id;
    store.dirty.add("timeline");
    draw();
  });

  function draw() {
    if (held_run !== store.run.id)
      held = null;
    hold.setAttribute("aria-pressed", String(held !== null));
    show(held ?? store.timeline);
  }

  function show(x) {
    if (x === null) {
      scroll.replaceChildren();
      set_text(by_id("pipeline_figures"), "No timed step yet.");
      return set_rows(by_id("busy_rows"), []);
    }
    const rows = x.rows.slice(0, most_rows).filter((row) => row !== null && typeof row === "object").map((row) => ({
      rank: plain_text(row.rank, 20), planned: read_actions(row.planned), executed: read_actions(row.executed),
    }));
    const room = Math.max(240, scroll.clientWidth);
    const ends = rows.flatMap((row) => [row.planned, row.executed])
      .map((all) => all.reduce((end, a) => Math.max(end, a.end), 0));
    const span = Math.max(x.executed_ms || 0, x.planned_ms || 0, ...ends, 1e-6);
    scroll.replaceChildren(make_drawing(rows, span, room * Number(by_id("pipeline_zoom").value), room < 600));
    set_text(by_id("pipeline_figures"), figures_text(x, store.run.layout?.replicas > 1));
    set_rows(by_id("busy_rows"), rows.map((row) => busy_row(row, x.executed_ms)));
  }

  return { draw };
}
