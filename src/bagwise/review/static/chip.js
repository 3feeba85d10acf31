// A label as it looks everywhere: a square of its colour and its name.
import { h, icon } from "./dom.js";
import { colourOf, nameOf, patternOf } from "./store.js";
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

export function sureness(row) {
  if (row.probability === null || row.probability === undefined) return h("span", { class: "sure" });
  const bar = h("span", {
    class: "bar",
    style: { width: percent(row.probability).replace(" ", ""), background: colourOf(row.label) },
  });
  return h(
    "span",
    { class: "sure" },
    h("span", { class: "track", "aria-hidden": "true" }, bar),
    h("span", { class: "figure" }, percent(row.probability)),
  );
}
