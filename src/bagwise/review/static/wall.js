// Many at once: up to sixty instances under one label; mark the wrong ones, confirm the rest.
import { get } from "./api.js";
import { square } from "./chip.js";
import { button, h, icon, replace, say, select, toast } from "./dom.js";
import { glance, player } from "./glance.js";
import { whereOf } from "./list.js";
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
  show,
  store,
  writeAddress,
} from "./store.js";
import { number, percent, T } from "./texts.js";

const MOST = 60;

const top = h("div", { class: "wall-head" });
const grid = h("div", {
  class: "wall",
  id: "wall",
  role: "listbox",
  "aria-multiselectable": "true",
  "aria-label": T.wall,
  tabindex: 0,
});
const sound = player();
export const wall = h("section", { class: "wall-view", "aria-label": T.views.wall }, top, grid, sound.element);

let rows = [];
let total = 0;
let at = 0;
let wrong = new Set();
let asked = 0;

async function fill() {
  const mine = ++asked;
  const { order, all } = store.wall;
  if (!store.wall.label) store.wall.label = busiest();
  const { label } = store.wall;
  if (!label) return drawEmpty();
  const query = { label, order: "least-sure", checked: all ? "" : "no" };
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

// Where most is left to do.
function busiest() {
  const left = ({ instances, checked }) => instances - checked;
  return [...store.run.labels].sort((a, b) => left(b) - left(a))[0]?.name ?? "";
}

function drawTop() {
  const { label, order, all } = store.wall;
  const names = store.run.labels.map(({ name, instances, checked }) => [
    name,
    `${name} (${number(instances - checked)})`,
  ]);
  const rest = rows.length - wrong.size;
  const others = [
    ["", T.wallChoose],
    ...store.run.labels.filter(({ name }) => name !== label).map(({ name }) => [`=${name}`, name]),
    ["=", T.noise],
  ];
  replace(
    top,
    h(
      "div",
      { class: "line" },
      square(label),
      select(names, label, (value) => choose({ label: value }), { "aria-label": T.wallOf, id: "wall-label" }),
      select(T.wallOrders, order, (value) => choose({ order: value }), { "aria-label": T.wallOrder }),
      h(
        "label",
        { class: "tickbox" },
        h("input", {
          type: "checkbox",
          checked: Boolean(all),
          on: { change: (event) => choose({ all: event.target.checked ? "yes" : "" }) },
        }),
        T.wallChecked,
      ),
      h("span", { class: "spring" }),
      h("span", { class: "quiet" }, T.wallMore(rows.length, total)),
    ),
    h(
      "div",
      { class: "line" },
      button(T.wallConfirm(rest), {
        icon: "check",
        key: "Enter",
        class: "main",
        id: "wall-confirm",
        disabled: !rest,
        on: confirmRest,
      }),
      h(
        "span",
        { class: wrong.size ? "count-wrong" : "quiet", id: "wall-wrong" },
        wrong.size ? T.wallMarked(wrong.size) : T.wallHint,
      ),
      wrong.size > 0 &&
        h(
          "label",
          { class: "pick" },
          T.wallMarkedAs,
          select(others, "", (value) => value && giveWrong(value.slice(1)), { id: "wall-give" }),
        ),
      wrong.size > 0 && button(T.wallOpen, { class: "link", on: openWrong }),
    ),
  );
}

async function choose(change) {
  Object.assign(store.wall, change);
  wrong.clear();
  at = 0;
  writeAddress();
  await fill();
  grid.focus({ preventScroll: true });
}

function drawEmpty() {
  drawTop();
  replace(grid, h("p", { class: "empty" }, T.wallEmpty(store.wall.label)));
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
  glance(element.firstChild, row);
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
      `${T.rowSays(nameOf(row.label), percent(row.probability), whereOf(row), row.checked)}, ${isWrong ? T.wrong : T.right}`,
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
  const { label } = store.wall;
  const saved = answer(rest, label);
  toast(T.wallConfirmed(rest.length, label), { seconds: 3 });
  rows = rows.filter((row) => wrong.has(keyOf(row)));
  at = 0;
  draw();
  grid.focus({ preventScroll: true });
  saved.then(fill);
}

function giveWrong(label) {
  const those = rows.filter((row) => wrong.has(keyOf(row)));
  if (!those.length) return;
  const saved = answer(those, label);
  toast(T.wallGiven(those.length, nameOf(label)), { seconds: 3 });
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

export function wallKey(event) {
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
    if (label !== undefined && label !== store.wall.label) giveWrong(label);
  } else if (key === "/") document.getElementById("wall-give")?.focus();
  else return false;
  return true;
}

export function openWall() {
  wrong.clear();
  rows = [];
  at = 0;
  fill();
  grid.focus({ preventScroll: true });
}
on("revised", () => wall.isConnected && fill());
on("undone", () => wall.isConnected && fill());
on("failed", (_, what) => what === undefined && wall.isConnected && fill());
let counts = "";
on("run", () => {
  const now = JSON.stringify(store.run.labels);
  if (wall.isConnected && now !== counts && !top.contains(document.activeElement)) drawTop();
  counts = now;
});
