// The curves of loss and throughput, drawn by Chart.js. A text and a table give the same data.

import { range_of, smooth } from "./curve.js";
import { by_id, set_rows, set_text, style_value } from "./dom.js";
import { count_text, is_number, loss_text, loss_unit, number_text, percent_text, rate_text } from "./format.js";

const most_rows = 20;

/// Draws dashed vertical lines at restarts, with a label if there is room.
function marks_plugin(marks) {
  return {
    id: "marks",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales } = chart;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = style_value("--curve_mark");
      ctx.setLineDash([4, 3]);
      ctx.textAlign = "center";
      let label_end = -Infinity;
      for (const mark of marks()) {
        const x = scales.x.getPixelForValue(mark.x);
        if (!(x >= area.left && x <= area.right))
          continue;
        ctx.beginPath();
        ctx.moveTo(x, area.top);
        ctx.lineTo(x, area.bottom);
        ctx.stroke();
        if (x - label_end > 50) {
          ctx.fillText(mark.text, x, area.top + 10);
          label_end = x;
        }
      }
      ctx.restore();
    },
  };
}

function axis(title, type = "linear") {
  return { type, title: { display: true, text: title }, ticks: { maxRotation: 0 }, grid: {} };
}

function line(label, more = {}) {
  return { label, data: [], borderWidth: 1.5, pointRadius: 0, pointHitRadius: 6, ...more };
}

function make_chart(canvas, datasets, y_title, y_text, marks) {
  if (typeof globalThis.Chart !== "function")
    return null;
  const y = axis(y_title);
  y.ticks.callback = (value) => y_text(value);
  const x = axis("step");
  x.ticks.callback = (value) => (Number.isInteger(value) ? count_text(value) : "");
  return new globalThis.Chart(canvas, {
    type: "line",
    data: { datasets },
    options: {
      animation: false,
      parsing: false,
      normalized: true,
      responsive: true,
      maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x, y },
      plugins: {
        legend: { labels: { usePointStyle: true, pointStyle: "line", filter: (item) => item.text !== "" } },
        tooltip: {
          callbacks: {
            title: (items) => (items.length > 0 ? `step ${count_text(items[0].parsed.x)}` : ""),
            label: (item) => `${item.dataset.label}: ${y_text(item.parsed.y)}`,
          },
        },
      },
    },
    plugins: [marks_plugin(marks)],
  });
}

/// Sets the colours of the style sheet, which follow the light or dark scheme of the system.
function paint(chart, colours) {
  const text = style_value("--soft");
  const grid = style_value("--line");
  chart.options.color = text;
  for (const id of ["x", "y"]) {
    const scale = chart.options.scales[id];
    scale.ticks.color = scale.title.color = text;
    scale.grid.color = scale.grid.borderColor = grid;
  }
  chart.data.datasets.forEach((x, i) => {
    x.borderColor = x.backgroundColor = style_value(colours[i]);
  });
}

export function make_loss_chart(store) {
  const training = line("training");
  const mean = line("training, smoothed", { borderWidth: 2.5 });
  const validation = line("validation", {
    borderDash: [6, 4], pointRadius: 4, pointStyle: "rectRot", borderWidth: 2,
  });
  const y_text = (value) => number_text(value, 4);
  const curves = [training, mean, validation];
  const chart = make_chart(by_id("loss_chart"), curves, "nats per token", y_text, () => store.marks);

  function draw() {
    if (chart === null)
      return;
    const span = Number(by_id("loss_smoothing").value);
    training.data = store.training.slice();
    training.borderWidth = span > 0 ? 0.6 : 1.5;
    mean.data = span > 0 ? smooth(store.training, span) : [];
    mean.label = span > 0 ? `training, over about ${span} steps` : "";
    validation.data = store.validation.slice();
    set_scale(chart, by_id("loss_scale").value, "nats per token", y_text);
    chart.update();  // mode "none" keeps the first colours of points
  }

  function repaint() {
    if (chart !== null)
      paint(chart, ["--curve_a", "--curve_a", "--curve_b"]);
  }
  repaint();
  return { draw, repaint, say: () => say(store.training, by_id("loss_text"), loss_words(store), chart) };
}

/// The newest steps as a table, for screen readers.
export function draw_newest_steps(store) {
  const speeds = new Map(store.speed.slice(-most_rows).map((p) => [p.x, p.y]));
  const checks = new Map(store.validation.slice(-most_rows).map((p) => [p.x, p.y]));
  set_rows(by_id("steps_rows"), store.training.slice(-most_rows).reverse().map((p) => ({ cells: [
    { text: count_text(p.x), scope: "row" },
    { text: loss_text(p.y), style: "number" },
    { text: checks.has(p.x) ? loss_text(checks.get(p.x)) : "", style: "number" },
    { text: speeds.has(p.x) ? rate_text(speeds.get(p.x)) : "", style: "number" },
  ] })));
}

function set_scale(chart, type, title, y_text) {
  if (chart.options.scales.y.type === type)
    return;
  const y = axis(title, type);
  y.ticks.callback = (value) => y_text(value);
  y.ticks.color = y.title.color = style_value("--soft");
  y.grid.color = y.grid.borderColor = style_value("--line");
  chart.options.scales.y = y;
}

export function make_speed_chart(store) {
  const raw = line("tokens per second");
  const chart = make_chart(by_id("speed_chart"), [raw], "tokens per second", rate_text, () => store.marks);
  if (chart !== null)
    chart.options.scales.y.beginAtZero = true;

  function draw() {
    if (chart === null)
      return;
    raw.data = store.speed.slice();
    chart.update();
  }

  function repaint() {
    if (chart !== null)
      paint(chart, ["--curve_a"]);
  }
  repaint();
  return { draw, repaint, say: () => say(store.speed, by_id("speed_text"), speed_words(store), chart) };
}

/// Writes the text. Returns false if there is no data yet; then the first data is shown at once.
function say(points, to, words, chart) {
  set_text(to, chart === null ? `${words} The chart library is missing, so no curve is drawn.` : words);
  return points.length > 0;
}

function loss_words(store) {
  const all = store.training;
  if (all.length === 0)
    return "No step yet.";
  const newest = all[all.length - 1];
  const { low } = range_of(all);
  const parts = [
    `Training loss from ${loss_text(all[0].y)} at step ${count_text(all[0].x)}`
      + ` to ${loss_text(newest.y)}${loss_unit(store.step)} at step ${count_text(newest.x)}.`,
    `Lowest: ${loss_text(low.y)} at step ${count_text(low.x)}.`,
  ];
  const checked = store.validation[store.validation.length - 1];
  if (checked !== undefined)
    parts.push(`Newest validation: ${loss_text(checked.y)} at step ${count_text(checked.x)}.`);
  if (store.marks.length > 0)
    parts.push(`${store.marks.length === 1 ? "Restart at step" : "Restarts at steps"} `
      + `${store.marks.slice(-10).map((m) => count_text(m.x)).join(", ")}.`);
  return parts.join(" ");
}

function speed_words(store) {
  const all = store.speed;
  if (all.length === 0)
    return "No step yet.";
  const { low, high } = range_of(all);
  const parts = [
    `${rate_text(all[all.length - 1].y)} tokens per second at the newest step; `
      + `lowest ${rate_text(low.y)}, highest ${rate_text(high.y)}.`,
  ];
  if (is_number(store.step?.teraflops_per_second))
    parts.push(`${number_text(store.step.teraflops_per_second, 3)} TFLOP/s.`);
  if (is_number(store.step?.share_of_matrix_rate))
    parts.push(`MFU ${percent_text(store.step.share_of_matrix_rate)}.`);
  return parts.join(" ");
}
