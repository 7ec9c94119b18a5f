// Decides when the parts of the page are drawn: at most four times a second, each part at most once
// per interval, and nothing while the page is hidden.

const least_ms = 250;
/// Pause after a drawing, in multiples of its duration: a slow part takes at most a tenth of the time.
const rest = 10;

/// `parts`: [{keys, ms, draw}]. A part is drawn after one of its keys was added to `dirty`, at most
/// every `ms`. If `draw` returns false, the part may be drawn again at once. `dirty`: a Set, which
/// this clears.
export function make_schedule(parts, dirty) {
  const all = parts.map((x) => ({ ...x, wanted: false, next: 0 }));
  let is_waiting = false;
  let timer = 0;

  function collect() {
    for (const x of all)
      x.wanted ||= x.keys.some((key) => dirty.has(key));
    dirty.clear();
  }

  function draw_due() {
    is_waiting = false;
    if (document.hidden)
      return;
    for (const x of all)
      if (x.wanted && performance.now() >= x.next)
        draw_one(x);
  }

  function draw_one(x) {
    const begun = performance.now();
    let has_drawn = true;
    x.wanted = false;
    try {
      has_drawn = x.draw() !== false;
    } catch (e) {
      console.error(e);
    }
    const ended = performance.now();
    x.next = ended + Math.max(has_drawn ? x.ms - (ended - begun) : 0, rest * (ended - begun));
  }

  /// Runs four times a second. Requests an animation frame only if a part has to be drawn.
  function look() {
    if (document.hidden)
      return;
    collect();
    if (is_waiting || !all.some((x) => x.wanted && performance.now() >= x.next))
      return;
    is_waiting = true;
    requestAnimationFrame(draw_due);
  }

  function follow_visibility() {
    clearInterval(timer);
    is_waiting = false;
    if (!document.hidden) {
      timer = setInterval(look, least_ms);
      look();
    }
  }

  document.addEventListener("visibilitychange", follow_visibility);
  follow_visibility();
}
