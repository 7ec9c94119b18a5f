// Curves: a bounded list of points {x, y}, sorted by x.

import { is_number } from "./format.js";

const most_points = 5000;

/// Adds a point. Steps that run again replace their earlier points.
export function add_point(points, x, y) {
  if (!is_number(x) || !is_number(y))
    return;
  while (points.length > 0 && points[points.length - 1].x >= x)
    points.pop();
  points.push({ x, y });
  if (points.length > most_points)
    thin(points);
}

/// Keeps every second point of the older half.
function thin(points) {
  const half = points.length >> 1;
  let kept = 0;
  for (let i = 0; i < points.length; ++i)
    if (i >= half || i % 2 === 0)
      points[kept++] = points[i];
  points.length = kept;
}

/// Exponential moving average over about `span` steps. A point also stands for the removed points
/// before it.
export function smooth(points, span) {
  const out = [];
  let sum = 0;
  let weight = 0;
  points.forEach((p, i) => {
    const gap = i === 0 ? 1 : Math.max(1, p.x - points[i - 1].x);
    const keep = Math.exp(-gap / span);
    sum = sum * keep + p.y * (1 - keep);
    weight = weight * keep + (1 - keep);
    out.push({ x: p.x, y: sum / weight });
  });
  return out;
}

export function range_of(points) {
  let low = null;
  let high = null;
  for (const p of points) {
    if (low === null || p.y < low.y)
      low = p;
    if (high === null || p.y > high.y)
      high = p;
  }
  return { low, high };
}
