// A label as it looks everywhere, a square of its colour and its name; and a row in words.
import { h, icon } from "./dom.js";
import { colourOf, nameOf, patternOf, store } from "./store.js";
import { percent, T } from "./texts.js";

export const square = (label) =>
  h("span", {
    class: label ? `square ${patternOf(label)}` : "square none",
    "aria-hidden": "true",
    style: label ? { "background-color": colourOf(label) } : {},
  });

export const chip = (label, kind = "") =>
  h("span", { class: `chip ${kind}` }, square(label), h("span", { class: "name" }, nameOf(label)));

export const tick = () => h("span", { class: "tick", title: T.checkedBy }, icon("check"));

// How probable what an instance is taken for is: its label, or background.
export const certainty = (row) => (row.label ? row.probability : (row.noise ?? row.probability));

export function sureness(row) {
  const value = certainty(row);
  if (value === null || value === undefined) return h("span", { class: "sure" });
  const bar = h("span", {
    class: "bar",
    style: { width: percent(value).replace(" ", ""), background: colourOf(row.label) },
  });
  return h(
    "span",
    { class: "sure" },
    h("span", { class: "track", "aria-hidden": "true" }, bar),
    h("span", { class: "figure" }, percent(value)),
  );
}

// All bags of a table come from one file, which says nothing.
export const fileOf = (row) => (store.run.medium === "table" ? T.bag(row.bag) : (row.file ?? row.bag));
export const placeOf = (row) =>
  store.run.medium === "table" ? T.instance(row.instance) : row.place || T.instance(row.instance);
export const whereOf = (row) => `${fileOf(row)}, ${placeOf(row)}`;
export const describe = (row) => T.rowSays(nameOf(row.label), percent(certainty(row)), whereOf(row), row.checked);
