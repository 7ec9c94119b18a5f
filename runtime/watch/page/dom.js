// Helpers for the DOM. They insert texts only as text nodes, never as HTML.

const svg_space = "http://www.w3.org/2000/svg";

export function by_id(id) {
  return document.getElementById(id);
}

/// Sets a text only if it differs. An unchanged node keeps selections and is not read aloud again.
export function set_text(node, text) {
  if (node.textContent !== text)
    node.textContent = text;
}

export function set_class(node, text) {
  if (node.className !== text)
    node.className = text;
}

export function set_hidden(node, hidden) {
  if (node.hidden !== hidden)
    node.hidden = hidden;
}

/// Makes an element. `fields`: its attributes; `children`: nodes and texts.
export function make(tag, fields = {}, children = []) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(fields))
    out.setAttribute(name, value);
  out.append(...children);
  return out;
}

export function make_svg(tag, fields = {}, children = []) {
  const out = document.createElementNS(svg_space, tag);
  for (const [name, value] of Object.entries(fields))
    out.setAttribute(name, String(value));
  out.append(...children);
  return out;
}

function fill_cell(cell, of) {
  set_class(cell, of.style ?? "");
  if (of.node !== undefined) {
    if (cell.firstChild !== of.node)
      cell.replaceChildren(of.node);
  } else {
    set_text(cell, of.text ?? "");
  }
}

function make_row(of) {
  const row = document.createElement("tr");
  for (const cell of of.cells)
    row.append(cell.scope ? make("th", { scope: cell.scope }) : make("td"));
  return row;
}

/// Makes the rows of a table body equal to `rows`: [{style, cells: [{text | node, style, scope}]}].
/// Only the first cell of a row has a scope. Existing rows are reused.
export function set_rows(body, rows) {
  while (body.rows.length > rows.length)
    body.deleteRow(-1);
  rows.forEach((of, i) => {
    if (i >= body.rows.length || body.rows[i].cells.length !== of.cells.length) {
      const row = make_row(of);
      if (i < body.rows.length)
        body.rows[i].replaceWith(row);
      else
        body.append(row);
    }
    const row = body.rows[i];
    set_class(row, of.style ?? "");
    of.cells.forEach((cell, k) => fill_cell(row.cells[k], cell));
  });
}

/// Makes a description list equal to `pairs`: [[term, text]].
export function set_pairs(list, pairs) {
  while (list.children.length > pairs.length)
    list.lastElementChild.remove();
  pairs.forEach(([term, text], i) => {
    if (i >= list.children.length)
      list.append(make("div", {}, [make("dt"), make("dd")]));
    const [dt, dd] = list.children[i].children;
    set_text(dt, term);
    set_text(dd, text);
  });
}

/// Makes a list equal to `texts`.
export function set_items(list, texts) {
  while (list.children.length > texts.length)
    list.lastElementChild.remove();
  texts.forEach((text, i) => {
    if (i >= list.children.length)
      list.append(make("li"));
    set_text(list.children[i], text);
  });
}

/// Makes the options of a select equal to `pairs`: [[value, text]]. Keeps the selected value if it is
/// still an option.
export function set_options(select, pairs) {
  const now = Array.from(select.options, (x) => `${x.value}\n${x.text}`).join("\n\n");
  if (now === pairs.map(([value, text]) => `${value}\n${text}`).join("\n\n"))
    return;
  const chosen = select.value;
  select.replaceChildren(...pairs.map(([value, text]) => make("option", { value }, [text])));
  if (pairs.some(([value]) => value === chosen))
    select.value = chosen;
}

/// The value of a custom property of the style sheet, such as a colour.
export function style_value(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Announces a text to screen readers: at most one every 5 s, the newest.
let said_at = -Infinity;
let next_words = null;

export function announce(text) {
  if (next_words !== null) {
    next_words = text;
    return;
  }
  next_words = text;
  const wait = Math.max(0, said_at + 5000 - performance.now());
  setTimeout(() => {
    said_at = performance.now();
    set_text(by_id("announcer"), next_words);
    next_words = null;
  }, wait);
}
