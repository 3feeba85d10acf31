// Many at once: up to sixty instances under one label; mark the wrong ones, confirm the rest.
import { get } from "./api.js";
import { describe, square, whereOf } from "./chip.js";
import { button, h, icon, replace, say, select, toast } from "./dom.js";
import { preview, player } from "./preview.js";
import {
  answer,
  clearFilters,
  emit,
  goTo,
  intern,
  keyOf,
  labelOfKey,
  nameOf,
  on,
  setOf,
  show,
  store,
  writeAddress,
} from "./store.js";
import { number, percent, T } from "./texts.js";

const MOST = 60;

const top = h("div", { class: "gallery-head" });
const grid = h("div", {
  class: "gallery",
  id: "gallery",
  role: "listbox",
  "aria-multiselectable": "true",
  "aria-label": T.gallery,
  tabindex: 0,
});
const sound = player();
export const gallery = h("section", { class: "gallery-view", "aria-label": T.views.gallery }, top, grid, sound.element);

let rows = [];
let total = 0;
let at = 0;
let wrong = new Set();
let asked = 0;

async function fill() {
  const mine = ++asked;
  const { order, all } = store.gallery;
  if (!store.gallery.label) store.gallery.label = busiest();
  const { label } = store.gallery;
  if (!label) return drawEmpty();
  const query = { label, order: "least-sure", background: "no", checked: all ? "" : "no" };
  try {
    let found = await get("/api/instances", { ...query, limit: MOST });
    if (order === "sure" && found.total > MOST)
      found = await get("/api/instances", { ...query, limit: MOST, offset: found.total - MOST });
    if (mine !== asked) return;
    const before = rows[at] && keyOf(rows[at]);
    total = found.total;
    rows = found.instances.map(intern);
    if (order === "sure") rows.reverse();
    wrong = new Set(rows.map(keyOf).filter((key) => wrong.has(key)));
    at = Math.max(
      0,
      rows.findIndex((row) => keyOf(row) === before),
    );
  } catch (error) {
    if (mine !== asked) return;
    rows = [];
    emit("failed", error, "read");
  }
  draw();
}

// What is taken for background is not shown: its label is only the next most probable.
const left = ({ instances, checked, background = 0 }) => instances - checked - background;

// Where most is left to do.
function busiest() {
  return [...store.run.labels].sort((a, b) => left(b) - left(a))[0]?.name ?? "";
}

function drawTop() {
  const { label, order, all } = store.gallery;
  const names = store.run.labels.map((entry) => [entry.name, `${entry.name} (${number(left(entry))})`]);
  const rest = rows.length - wrong.size;
  const others = [
    ["", T.galleryChoose],
    ...store.run.labels.filter(({ name }) => name !== label).map(({ name }) => [`=${name}`, name]),
    ["=", T.background],
  ];
  replace(
    top,
    h(
      "div",
      { class: "line" },
      square(label),
      select(names, label, (value) => choose({ label: value }), { "aria-label": T.galleryOf, id: "gallery-label" }),
      select(T.galleryOrders, order, (value) => choose({ order: value }), { "aria-label": T.galleryOrder }),
      h(
        "label",
        { class: "tickbox" },
        h("input", {
          type: "checkbox",
          checked: Boolean(all),
          on: { change: (event) => choose({ all: event.target.checked ? "yes" : "" }) },
        }),
        T.galleryChecked,
      ),
      h("span", { class: "spring" }),
      h("span", { class: "quiet" }, T.galleryMore(rows.length, total)),
    ),
    h(
      "div",
      { class: "line" },
      button(T.galleryConfirm(rest), {
        icon: "check",
        key: "Enter",
        class: "main",
        id: "gallery-confirm",
        disabled: !rest,
        on: confirmRest,
      }),
      h(
        "span",
        { class: wrong.size ? "count-wrong" : "quiet", id: "gallery-wrong" },
        wrong.size ? T.galleryMarked(wrong.size) : T.galleryHint,
      ),
      wrong.size > 0 &&
        h(
          "label",
          { class: "pick" },
          T.galleryMarkedAs,
          select(others, "", (value) => value && giveWrong(value.slice(1)), { id: "gallery-give" }),
        ),
      wrong.size > 0 && button(T.galleryOpen, { class: "link", on: openWrong }),
    ),
  );
}

async function choose(change) {
  Object.assign(store.gallery, change);
  wrong.clear();
  at = 0;
  writeAddress();
  await fill();
  grid.focus({ preventScroll: true });
}

function drawEmpty() {
  drawTop();
  replace(grid, h("p", { class: "empty" }, T.galleryEmpty(store.gallery.label)));
}

function draw() {
  drawTop();
  if (!rows.length) return drawEmpty();
  grid.classList.toggle("stretched", store.run.medium !== "image"); // seconds may be stretched, pictures not
  replace(grid, rows.map(tile));
  mark();
}

function tile(row, i) {
  const key = keyOf(row);
  const element = h(
    "div",
    {
      class: "tile",
      role: "option",
      id: `tile-${i}`,
      style: { "--colour": `${getColour(row)}` },
      on: { click: () => ((at = i), toggle(key)) },
    },
    h("div", { class: "look" }),
    h(
      "div",
      { class: "line" },
      h("span", { class: "figure" }, row.checked ? icon("check") : percent(row.probability)),
      h("span", { class: "spot", title: whereOf(row) }, whereOf(row)),
    ),
    h("span", { class: "stamp", "aria-hidden": "true" }, icon("cross"), T.wrong),
  );
  preview(element.firstChild, row);
  return element;
}

const getColour = (row) => store.run.labels.find(({ name }) => name === row.label)?.colour ?? "var(--noise)";

function mark() {
  [...grid.children].forEach((element, i) => {
    const row = rows[i];
    if (!row) return;
    const isWrong = wrong.has(keyOf(row));
    element.classList.toggle("here", i === at);
    element.classList.toggle("bad", isWrong);
    element.setAttribute("aria-selected", String(isWrong));
    element.setAttribute(
      "aria-label",
      `${describe(row)}, ${isWrong ? T.wrong : T.right}`,
    );
  });
  grid.setAttribute("aria-activedescendant", `tile-${at}`);
  grid.children[at]?.scrollIntoView({ block: "nearest" });
}

function toggle(key) {
  if (!wrong.delete(key)) wrong.add(key);
  drawTop();
  mark();
  say(wrong.has(key) ? T.wrong : T.right);
}

function confirmRest() {
  const rest = rows.filter((row) => !wrong.has(keyOf(row)));
  if (!rest.length) return;
  const { label } = store.gallery;
  const saved = answer(rest, store.run.label_sets ? setOf : label);
  toast(T.galleryConfirmed(rest.length, label), { seconds: 3 });
  rows = rows.filter((row) => wrong.has(keyOf(row)));
  at = 0;
  draw();
  grid.focus({ preventScroll: true });
  saved.then(fill);
}

function giveWrong(label) {
  const those = rows.filter((row) => wrong.has(keyOf(row)));
  if (!those.length) return;
  const others = (row) => setOf(row).filter((name) => name !== store.gallery.label && name !== label);
  const saved = answer(those, store.run.label_sets ? (row) => [...(label ? [label] : []), ...others(row)] : label);
  toast(T.galleryGiven(those.length, nameOf(label)), { seconds: 3 });
  wrong.clear();
  rows = rows.filter((row) => !those.includes(row));
  at = Math.min(at, Math.max(0, rows.length - 1));
  draw();
  grid.focus({ preventScroll: true });
  saved.then(fill);
}

function openWrong() {
  const first = rows.find((row) => wrong.has(keyOf(row)));
  goTo(keyOf(first));
  clearFilters().then(() => show("queue"));
}

const columns = () => getComputedStyle(grid).gridTemplateColumns.split(" ").length;

export function galleryKey(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns(), Home: -MOST, End: MOST };
  const { key } = event;
  if (key in steps) {
    at = Math.max(0, Math.min(rows.length - 1, at + steps[key]));
    mark();
  } else if (key === " ") rows[at] && toggle(keyOf(rows[at]));
  else if (key === "Enter") confirmRest();
  else if (key === "p" || key === "P") sound.play(rows[at]);
  else if (key === "x" || key === "X") giveWrong("");
  else if (/^[0-9]$/.test(key) && wrong.size) {
    const label = labelOfKey(key);
    if (label !== undefined && label !== store.gallery.label) giveWrong(label);
  } else if (key === "/") document.getElementById("gallery-give")?.focus();
  else return false;
  return true;
}

export function openGallery() {
  wrong.clear();
  rows = [];
  at = 0;
  fill();
  grid.focus({ preventScroll: true });
}
on("revised", () => gallery.isConnected && fill());
on("undone", () => gallery.isConnected && fill());
on("failed", (_, what) => what === undefined && gallery.isConnected && fill());
let counts = "";
on("run", () => {
  const now = JSON.stringify(store.run.labels);
  if (gallery.isConnected && now !== counts && !top.contains(document.activeElement)) drawTop();
  counts = now;
});
