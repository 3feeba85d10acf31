// The queue: rows are made as they come into view, so ten thousand cost what thirty do.
import { get } from "./api.js";
import { chips, describe, fileOf, placeOf, sureness, tick, whereOf } from "./chip.js";
import { button, h, replace, select } from "./dom.js";
import { clearFilters, goTo, hasFilters, keyOf, load, nameOf, on, place, setQuery, store } from "./store.js";
import { number, T } from "./texts.js";

const HEIGHT = 46; // px of a row, as in style.css
const SPARE = 8; // rows beyond what is seen

const drawn = new Map(); // place to element
const room = h("div", { class: "rows" });
export const list = h(
  "div",
  { class: "list", id: "list", role: "listbox", tabindex: 0, "aria-label": T.list, on: { scroll: draw } },
  room,
);
const foot = h("div", { class: "foot" });
const head = h("div", { class: "filters" });
export const queue = h("section", { class: "queue", "aria-label": T.views.queue }, head, list, foot);

function rowElement(i) {
  const row = store.rows[i];
  const element = h("div", {
    class: "row",
    role: "option",
    id: `row-${i}`,
    style: { transform: `translateY(${i * HEIGHT}px)` },
    on: { click: () => (goTo(keyOf(row)), list.focus({ preventScroll: true })) },
  });
  return fillRow(element, i);
}

function fillRow(element, i) {
  const row = store.rows[i];
  const isHere = keyOf(row) === store.at;
  element.classList.toggle("here", isHere);
  element.classList.toggle("done", Boolean(row.checked));
  element.setAttribute("aria-selected", String(isHere));
  element.setAttribute("aria-setsize", String(store.rows.length));
  element.setAttribute("aria-posinset", String(i + 1));
  element.setAttribute("aria-label", describe(row));
  return replace(
    element,
    chips(row),
    row.checked ? tick() : sureness(row),
    h(
      "span",
      { class: "where", title: whereOf(row) },
      h("span", { class: "file" }, fileOf(row)),
      h("span", { class: "spot" }, placeOf(row)),
    ),
    row.was !== undefined && row.was !== null && h("span", { class: "was" }, T.was(nameOf(row.was))),
  );
}

function draw() {
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - SPARE);
  const last = Math.min(store.rows.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + SPARE);
  for (const [i, element] of drawn) {
    if (i < first || i >= last) {
      element.remove();
      drawn.delete(i);
    }
  }
  for (let i = first; i < last; i++) {
    if (drawn.has(i)) continue;
    const element = rowElement(i);
    drawn.set(i, element);
    room.append(element);
  }
  const here = place();
  if (drawn.has(here)) list.setAttribute("aria-activedescendant", `row-${here}`);
  else list.removeAttribute("aria-activedescendant");
}

function redraw() {
  drawn.clear();
  room.replaceChildren();
  room.style.height = `${HEIGHT * store.rows.length}px`;
  if (!store.rows.length) room.append(h("p", { class: "empty" }, T.noRows));
  draw();
}

// Bring the row one stands on into view, with a neighbour to see where it goes.
export function reveal() {
  const i = place();
  if (i < 0 || !list.clientHeight) return;
  const top = i * HEIGHT;
  if (top < list.scrollTop + HEIGHT) list.scrollTop = top - HEIGHT;
  else if (top + 2 * HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + 2 * HEIGHT - list.clientHeight;
}

function drawFoot() {
  const shown = store.rows.length;
  const here = place();
  replace(
    foot,
    h("span", {}, T.rows(shown, store.total)),
    here >= 0 && h("span", { class: "quiet" }, T.position(here + 1, shown)),
    store.answered > 0 && button(T.resort, { class: "link", hint: T.resortHint, on: () => load() }),
  );
}

// Only a sample can be listed as it was drawn.
const ordersOf = ({ sample }) => Object.entries(T.orders).filter(([name]) => sample || name !== "drawn");

function drawFilters() {
  const { query } = store;
  const labels = [
    ["", T.anyLabel],
    ...(store.run?.labels ?? []).map(({ name, instances }) => [name, `${name} (${number(instances)})`]),
  ];
  if (!labels.some(([name]) => name === query.label)) labels.push([query.label, query.label]);
  const share = (name, words) =>
    h("input", {
      type: "number",
      min: 0,
      max: 100,
      step: 1,
      inputmode: "numeric",
      placeholder: name === "least" ? "0" : "100",
      "aria-label": `${T.probability} ${words}`,
      value: query[name] === "" ? "" : String(Math.round(100 * query[name])),
      on: {
        change: (event) =>
          setQuery({
            [name]:
              event.target.value === "" ? "" : String(Math.max(0, Math.min(100, Number(event.target.value))) / 100),
          }),
      },
    });
  replace(
    head,
    select(ordersOf(query), query.order, (order) => setQuery({ order }), { "aria-label": T.order, id: "order" }),
    select(T.checkedChoices, query.checked, (checked) => setQuery({ checked }), {
      "aria-label": T.checked,
      id: "checked",
    }),
    select(labels, query.label, (label) => setQuery({ label }), { "aria-label": T.label, id: "label" }),
    store.run?.medium !== "table" && fileField(query.file),
    h(
      "span",
      { class: "range" },
      h("span", {}, T.probability),
      share("least", T.least),
      h("span", {}, T.to),
      share("most", T.most),
      h("span", {}, "%"),
      h("span", { class: "spring" }),
      hasFilters() && button(T.noFilters, { class: "link", on: () => clearFilters() }),
    ),
    query.sample &&
      h(
        "p",
        { class: "note" },
        T.sample(query.sample),
        button(T.leaveSample, { class: "link", on: () => setQuery({ sample: "" }) }),
      ),
  );
}

// Names come as one types, since there may be very many.
function fileField(value) {
  const names = h("datalist", { id: "file-names" });
  const suggest = async (event) => {
    try {
      const { files } = await get("/api/files", { search: event.target.value.trim(), limit: 30 });
      replace(
        names,
        files.map(({ file }) => h("option", { value: file })),
      );
    } catch {
      replace(names); // a name can still be typed
    }
  };
  const take = (event) => setQuery({ file: event.target.value.trim() });
  return [
    h("input", {
      type: "search",
      placeholder: T.anyFile,
      "aria-label": T.file,
      id: "file",
      list: "file-names",
      autocomplete: "off",
      value,
      on: { focus: suggest, input: suggest, change: take },
    }),
    names,
  ];
}

let labelled = "";
on("run", () => {
  const now = JSON.stringify(store.run.labels.map(({ name, instances }) => [name, instances]));
  if (now === labelled) return;
  for (const [i, element] of drawn) fillRow(element, i); // a new label has its colour by now
  if (head.contains(document.activeElement)) return; // never under one's hands
  labelled = now;
  drawFilters();
});
on("query", drawFilters);
on("rows", () => {
  redraw();
  reveal();
  drawFoot();
});
on("changed", () => {
  for (const [i, element] of drawn) fillRow(element, i);
  drawFoot();
});
on("at", () => {
  reveal();
  draw();
  for (const [i, element] of drawn) {
    const isHere = keyOf(store.rows[i]) === store.at;
    element.classList.toggle("here", isHere);
    element.setAttribute("aria-selected", String(isHere));
  }
  drawFoot();
});
new ResizeObserver(draw).observe(list);
