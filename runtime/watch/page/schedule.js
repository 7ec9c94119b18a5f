// When which part of the page is drawn: at most four times a second, a part at most once in its
// interval, and nothing while the page is hidden.

const least_ms = 250;
/// A part that takes long to draw comes less often, so that drawing takes a tenth of the time.
const rest = 10;

/// `parts`: [{keys, ms, draw}]; a `draw` that returns false begins no interval. `dirty`: a Set of
/// keys, emptied here.
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

  /// Looks four times a second. A frame is asked for only if something is to be drawn.
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
