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

// The labels of a row, as many as it carries.
export const chips = (row, kind = "") =>
  row.labels?.length > 1
    ? h("span", { class: `chips ${kind}` }, row.labels.map(({ label }) => chip(label, kind)))
    : chip(row.label, kind);
const namesOf = (row) => (row.labels?.length ? row.labels.map(({ label }) => label).join(" + ") : nameOf(row.label));

export const tick = () => h("span", { class: "tick", title: T.checkedBy }, icon("check"));

// How probable what an instance is taken for is: its label, or background.
export const certainty = (row) =>
  row.label
    ? Math.min(row.probability, ...(row.labels ?? []).map(({ probability }) => probability))
    : (row.noise ?? row.probability);

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
export const describe = (row) => T.rowSays(namesOf(row), percent(certainty(row)), whereOf(row), row.checked);
