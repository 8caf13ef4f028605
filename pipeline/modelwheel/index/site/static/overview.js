// Search, filters and order of the overview: hidden without this script, all rows are then there.
"use strict";

const body = document.querySelector(".models tbody");
const rows = [...body.rows].map((row, place) => {
  const [bytes, nanoseconds, day] = row.dataset.n.split(" ").map((text) => (text ? Number(text) : null));
  const [tags, licence] = [row.querySelector("i"), row.cells[1]].map((cell) => (cell ? cell.textContent.trim() : ""));
  return {
    row, place, licence, bytes, nanoseconds, day,
    tags: tags.split(", "),
    places: row.dataset.p.split(" "),
    text: `${row.textContent} ${row.dataset.w}`.toLowerCase(),
  };
});

const controls = Object.fromEntries(
  ["query", "place", "licence", "tag", "size", "order"].map((name) => [name, document.getElementById(name)]),
);
const ORDERS = {
  0: (a, b) => a.bytes - b.bytes,
  1: (a, b) => (a.nanoseconds ?? Infinity) - (b.nanoseconds ?? Infinity) || 0,
  2: (a, b) => (b.day ?? 0) - (a.day ?? 0),
};

function matches(entry, wanted, words) {
  return (
    words.every((word) => entry.text.includes(word)) &&
    (!wanted.place || entry.places.includes(wanted.place)) &&
    (!wanted.licence || entry.licence === wanted.licence) &&
    (!wanted.tag || entry.tags.includes(wanted.tag)) &&
    (!wanted.size || entry.bytes <= Number(wanted.size))
  );
}

function show() {
  const wanted = Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value]));
  const words = wanted.query.toLowerCase().split(/\s+/).filter(Boolean);
  const order = ORDERS[wanted.order] ?? (() => 0);
  const sorted = [...rows].sort((a, b) => order(a, b) || a.place - b.place);
  let shown = 0;
  for (const entry of sorted) {
    entry.row.hidden = !matches(entry, wanted, words);
    shown += !entry.row.hidden;
  }
  body.append(...sorted.map((entry) => entry.row));
  const narrowed = words.length || wanted.place || wanted.licence || wanted.tag || wanted.size;
  document.getElementById("found").textContent = narrowed ? `${shown} of ${rows.length}` : "";
  document.getElementById("nothing").hidden = shown > 0;
  return wanted;
}

// The address says what is shown, so that it can be sent to others.
function remember() {
  const parts = new URLSearchParams(Object.entries(show()).filter(([, value]) => value));
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname + location.search);
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) {
    const value = parts.get(name) ?? "";
    if (name === "tag" && value && ![...control.options].some((option) => option.value === value)) {
      control.add(new Option(value)); // of a page of a model: the list has only the most frequent ones
    }
    control.value = value;
  }
  show();
}

const form = document.getElementById("search");
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", remember);
form.addEventListener("change", remember); // drivers of browsers send this alone for a choice
document.getElementById("reset").addEventListener("click", () => {
  form.reset();
  remember();
  controls.query.focus();
});
addEventListener("hashchange", restore);
form.hidden = false;
restore();
