// One instance: what is shown around it, and the labels it can be given.
import { get, media } from "./api.js";
import { chip, chips, describe, fileOf, placeOf, square, sureness } from "./chip.js";
import { button, h, icon, iconButton, replace, say } from "./dom.js";
import { pictureStage } from "./pictures.js";
import { featureStage, seriesStage, textStage } from "./plain.js";
import { soundStage } from "./sound.js";
import {
  answer,
  current,
  goTo,
  intern,
  keyOf,
  keyOfLabel,
  labelOfKey,
  load,
  move,
  nameOf,
  on,
  place,
  rowOf,
  setOf,
  store,
} from "./store.js";
import { T } from "./texts.js";

const STAGES = { sound: soundStage, image: pictureStage, text: textStage, series: seriesStage, none: featureStage };
const KEPT = 40; // answers of the server about what to show

const facts = h("header", { class: "facts" });
const place_ = h("div", { class: "place-for-stage" });
const finder = h("input", {
  type: "text",
  id: "finder",
  role: "combobox",
  autocomplete: "off",
  spellcheck: "false",
  "aria-expanded": "true",
  "aria-controls": "palette",
  "aria-label": T.typeAheadLabel,
  placeholder: T.typeAhead,
  maxlength: 200,
});
const palette = h("div", { class: "palette", id: "palette", role: "listbox", "aria-label": T.palette });
const hint = h("p", { class: "note hint", hidden: true });
const answers = h("div", { class: "answers" });
export const one = h(
  "section",
  { class: "one", "aria-label": T.views.one },
  facts,
  place_,
  h("div", { class: "say-what" }, answers, h("div", { class: "find" }, finder, hint), palette),
);

let stage = null;
let kind = null;
let marks = []; // the neighbours in what is shown
let listed = new Set(); // labels that the bag lists, and what was found
let picked = 0; // place in the labels that fit what was typed
const kept = new Map();

// -- what is shown --------------------------------------------------------------------------------------------------

function fetchShow(row) {
  const key = keyOf(row);
  if (!kept.has(key)) {
    const asked = get("/api/show", { bag: row.bag, instance: row.instance });
    asked.catch(() => kept.delete(key));
    kept.set(key, asked);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }
  return kept.get(key);
}

function useStage(name) {
  if (name !== kind) {
    stage?.close();
    kind = name;
    stage = (STAGES[name] ?? featureStage)();
    replace(place_, stage.element);
  }
  return stage;
}

let showing = 0;
async function showRow() {
  const mine = ++showing;
  const row = current();
  if (!row || !one.isConnected) return;
  let shown;
  try {
    shown = await fetchShow(row);
  } catch (error) {
    shown = { kind: "none", why: error.message, features: {} };
  }
  if (mine !== showing) return;
  marks = (shown.boxes ?? shown.regions ?? shown.spans ?? shown.passages ?? []).filter(
    (mark) => mark.instance !== null && mark.instance !== undefined,
  );
  if (marks.every((mark) => typeof mark.start === "number")) marks = [...marks].sort((a, b) => a.start - b.start);
  listed = new Set((shown.candidates ?? []).map(({ label }) => label));
  drawPalette();
  useStage(STAGES[shown.kind] ? shown.kind : "none").update(shown, row);
  ahead();
}

// What comes next is asked for while one thinks.
function ahead() {
  const next = store.rows[place() + 1];
  if (!next) return;
  fetchShow(next).then(
    (shown) => {
      if (shown.kind === "image" && shown.picture) new Image().src = media(shown.picture);
    },
    () => {},
  );
}

// -- what is said ---------------------------------------------------------------------------------------------------

function drawFacts() {
  const row = current();
  if (!row) {
    replace(facts, h("p", { class: "empty" }, T.noRows));
    replace(place_);
    kind = null;
    return;
  }
  const details = [];
  if (row.runner_up && !row.checked) details.push(T.runnerUp(row.runner_up));
  if (row.label && row.noise > 0.01 && !row.checked) details.push(T.backgroundShare(row.noise));
  if (row.novel && !row.checked) details.push(T.novel);
  replace(
    facts,
    h(
      "div",
      { class: "what" },
      row.draft ? drafted(row) : chips(row, "large"),
      row.checked ? h("span", { class: "badge" }, icon("check"), T.checkedBy) : sureness(row),
      h("span", { class: "quiet" }, details.join(" · ")),
      row.was !== undefined && row.was !== null && h("span", { class: "was" }, T.was(nameOf(row.was))),
    ),
    h(
      "div",
      { class: "from" },
      h("span", { class: "file", title: fileOf(row) }, fileOf(row)),
      h("span", { class: "quiet" }, placeOf(row)),
    ),
    h(
      "div",
      { class: "steps" },
      iconButton("back", T.previous, () => move(-1)),
      iconButton("on", T.next, () => move(1)),
    ),
  );
}

// Where an instance may carry several labels, keys toggle them; what is chosen counts when it is confirmed.
const chosen = (row) => row.draft ?? setOf(row);
const drafted = (row) => [
  row.draft.length ? row.draft.map((label) => chip(label, "large")) : chip("", "large"),
  h("span", { class: "badge draft" }, T.unconfirmed),
];

function toggle(label) {
  const row = current();
  if (!row) return;
  goTo(keyOf(row), { quiet: true }); // from now on rows keep their places
  const now = chosen(row);
  const isOff = now.includes(label);
  row.draft = isOff ? now.filter((name) => name !== label) : [...now, label];
  drawFacts();
  drawPalette();
  say(T.toggled(label, !isOff));
}

function fitting() {
  const text = finder.value.trim().toLocaleLowerCase();
  const labels = store.run.labels.map(({ name }) => name);
  if (!text) return labels;
  const starts = labels.filter((name) => name.toLocaleLowerCase().startsWith(text));
  const holds = labels.filter((name) => !starts.includes(name) && name.toLocaleLowerCase().includes(text));
  return [...starts, ...holds];
}

function drawPalette() {
  const row = current();
  const typed = finder.value.trim();
  const names = fitting();
  picked = Math.min(picked, Math.max(0, names.length - 1));

  replace(
    palette,
    names.map((name, i) => {
      const isOn = store.run.label_sets ? Boolean(row) && chosen(row).includes(name) : row?.label === name;
      return h(
        "button",
        {
          type: "button",
          class: `choice${isOn ? " on" : ""}${typed && i === picked ? " picked" : ""}`,
          role: "option",
          id: `choice-${i}`,
          tabindex: -1,
          "aria-selected": String(typed ? i === picked : isOn),
          title: name,
          on: { click: () => (pick(name), leaveFinder()) },
        },
        h("kbd", { "aria-hidden": "true" }, keyOfLabel(name)),
        square(name),
        h("span", { class: "name" }, name),
        listed.has(name) && h("span", { class: "listed", title: T.listed, "aria-label": T.listed }),
      );
    }),
  );
  hint.hidden = !typed || names.length > 0;
  hint.textContent = hint.hidden ? "" : T.noSuchLabel(typed);
  if (typed && names.length) finder.setAttribute("aria-activedescendant", `choice-${picked}`);
  else finder.removeAttribute("aria-activedescendant");
}

function drawAnswers() {
  replace(
    answers,
    button(T.confirm, {
      icon: "check",
      key: "Enter",
      class: "main",
      hint: store.run.label_sets ? T.confirmSetHint : T.confirmHint,
      id: "confirm",
      on: confirm,
    }),
    button(T.isBackground, { icon: "cross", key: "X", id: "noise", on: clear }),
    button(T.newLabel, { icon: "plus", key: "N", id: "new", on: () => askNew() }),
  );
}

function give(label) {
  const row = current();
  if (!row) return;
  const agreed = row.label === label;
  const wasAt = place();
  answer([row], label);
  const words = agreed ? T.confirmedSay(nameOf(label)) : T.given(nameOf(label));
  const went = wasAt >= 0 && move(1);
  say(`${words} ${went ? T.nextSay(describe(current())) : T.end}`);
}

// All labels at once, and no others.
function giveSet(labels) {
  const row = current();
  if (!row) return;
  const agreed = [...labels].sort().join() === setOf(row).sort().join();
  const wasAt = place();
  answer([row], () => labels);
  const names = labels.length ? labels.join(" + ") : T.background;
  const went = wasAt >= 0 && move(1);
  say(`${agreed ? T.confirmedSay(names) : T.given(names)} ${went ? T.nextSay(describe(current())) : T.end}`);
}

const pick = (label) => (store.run.label_sets ? toggle(label) : give(label));
const clear = () => (store.run.label_sets ? giveSet([]) : give(""));
const confirm = () =>
  current() && (store.run.label_sets ? giveSet(chosen(current())) : give(current().label));

// -- finding a label by its letters ---------------------------------------------------------------------------------

function leaveFinder() {
  finder.value = "";
  finder.placeholder = T.typeAhead;
  picked = 0;
  drawPalette();
  finder.blur();
  document.getElementById("list")?.focus({ preventScroll: true });
}

function startFinder(letter = "") {
  finder.value = letter;
  picked = 0;
  finder.focus();
  drawPalette();
}

function askNew() {
  startFinder();
  finder.placeholder = T.newLabelAsk;
  finder.dataset.fresh = "yes";
}

finder.addEventListener("input", () => {
  picked = 0;
  drawPalette();
});
finder.addEventListener("blur", () => {
  delete finder.dataset.fresh;
  finder.placeholder = T.typeAhead;
});
finder.addEventListener("keydown", (event) => {
  const names = fitting();
  const typed = finder.value.trim();
  if (event.key === "Escape") leaveFinder();
  else if (event.key === "Enter") {
    if (!typed) leaveFinder();
    else {
      const isNew = finder.dataset.fresh === "yes" || !names.length;
      const label = isNew ? (store.run.labels.find(({ name }) => name === typed)?.name ?? typed) : names[picked];
      leaveFinder();
      pick(label);
    }
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    picked = Math.max(0, Math.min(names.length - 1, picked + (event.key === "ArrowDown" ? 1 : -1)));
    drawPalette();
    palette.querySelector(".picked")?.scrollIntoView({ block: "nearest" });
  } else return;
  event.preventDefault();
  event.stopPropagation();
});

// -- neighbours, keys -----------------------------------------------------------------------------------------------

async function neighbour(step) {
  const row = current();
  const at = marks.findIndex((mark) => keyOf(mark) === keyOf(row));
  const next = marks[at + step];
  if (at >= 0 && next) await goToAny(next);
}

// An instance that the list need not hold.
export async function goToAny(mark) {
  const key = keyOf(mark);
  if (!rowOf(key)) {
    const found = await get("/api/instances", { order: "file", bag: mark.bag, limit: 10_000 });
    found.instances.forEach(intern);
  }
  goTo(key);
}

export function oneKey(event) {
  const { key } = event;
  const jumps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  if (stage?.key(event)) return true;
  if (key in jumps && !event.shiftKey) move(jumps[key]) && say(describe(current()));
  else if (key === "ArrowRight" || key === "ArrowLeft") neighbour(key === "ArrowRight" ? 1 : -1);
  else if (key === "Enter") confirm();
  else if (/^[0-9]$/.test(key)) {
    const label = labelOfKey(key);
    if (label !== undefined) pick(label);
  } else if (key === "x" || key === "X") clear();
  else if (key === "n" || key === "N") askNew();
  else if (key === "/") startFinder();
  else if (/^\p{L}$/u.test(key)) startFinder(key);
  else return false;
  return true;
}

let paletteOf = "";
on("run", () => {
  const now = JSON.stringify(store.run.labels.map(({ name, colour }) => [name, colour]));
  if (now === paletteOf) return;
  paletteOf = now;
  drawPalette();
  stage?.redraw();
});
on("at", async () => {
  if (store.at !== null && !current()) await fetchCurrent();
  drawFacts();
  drawPalette();
  showRow();
});
on("changed", () => {
  drawFacts();
  drawPalette();
  stage?.redraw();
});
on("edited", (words) => {
  kept.clear();
  drawFacts();
  showRow();
  say(words);
});
on("rows", async () => {
  kept.clear();
  if (store.at !== null && !current()) await fetchCurrent();
  drawFacts();
  drawPalette();
  showRow();
});

// An address may name an instance that the filters leave out, or that never was.
async function fetchCurrent() {
  const cut = store.at.lastIndexOf("~");
  try {
    const found = await get("/api/instances", { order: "file", bag: store.at.slice(0, cut), limit: 10_000 });
    found.instances.forEach(intern);
  } catch {
    store.at = null;
  }
  if (!current()) await load({ keep: false });
}

export function openOne() {
  drawAnswers();
  drawFacts();
  drawPalette();
  showRow();
}
export function closeOne() {
  stage?.close();
  stage = null;
  kind = null;
  replace(place_);
}
