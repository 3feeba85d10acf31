// Label issues: labels of bags that are probably missing or spurious, or disputed by observers, settled one by one.
import { get } from "./api.js";
import { chip, fileOf, placeOf } from "./chip.js";
import { button, h, iconButton, replace, say } from "./dom.js";
import { preview, player } from "./preview.js";
import { goToAny } from "./one.js";
import { answerBag, clearFilters, emit, on, show, store } from "./store.js";
import { number, percent, T } from "./texts.js";

const KINDS = ["disputed", "missing", "spurious"];

const sound = player();
const cards = Object.fromEntries(KINDS.map((kind) => [kind, h("section", { class: "card" })]));
export const issues = h(
  "section",
  { class: "issues-view", "aria-label": T.views.issues },
  KINDS.map((kind) => cards[kind]),
  sound.element,
);

let rows = [];
let at = 0;
let asked = 0;
let settling = 0; // answers on their way: until they are there, the server knows less than the page
let skipped = false; // whether something new arrived meanwhile
let drawn = ""; // which labels of which model stand on the page

async function fill() {
  const mine = ++asked;
  let reply;
  try {
    reply = await get("/api/label-issues");
  } catch (error) {
    emit("failed", error, "read");
    return;
  }
  if (mine !== asked) return;
  if (settling) {
    skipped = true;
    return;
  }
  rows = KINDS.flatMap((kind) => reply.labels.filter((row) => row.kind === kind));
  const about = [reply.version, reply.is_done, reply.failed, reply.has_rates, reply.observers];
  const now = JSON.stringify([about, rows.map(({ kind, bag, label }) => [kind, bag, label])]);
  if (now === drawn && issues.querySelector(".issue")) rows.forEach((_, i) => settle(i));
  else {
    drawn = now;
    at = Math.max(
      0,
      rows.findIndex((row) => !row.said),
    );
    draw(reply);
  }
}

function draw({ is_done, failed, has_rates, observers }) {
  issues.classList.toggle("stretched", store.run.medium !== "image"); // seconds may be stretched, pictures not
  for (const kind of KINDS) {
    const those = rows.map((row, i) => [row, i]).filter(([row]) => row.kind === kind);
    const isKnown = has_rates || kind === "disputed";
    const empty = !is_done ? T.loading : failed ? T.issuesFailed : isKnown ? T.noIssues[kind] : T.noRates;
    cards[kind].hidden = kind === "disputed" && !observers.length;
    replace(
      cards[kind],
      kind === "disputed" && reliance(observers),
      h("h2", {}, T.issues[kind]),
      h("p", { class: "note" }, those.length ? T.issuesWords[kind] : empty),
      those.length > 0 &&
        h(
          "ul",
          { class: "issues" },
          those.map(([row, i]) => element(row, i)),
        ),
    );
  }
  mark();
}

// How far each observer can be relied on.
function reliance(observers) {
  const cells = ({ listed, missed, invented, right }) => [number(listed), percent(missed), percent(invented), percent(right)];
  return [
    h("h2", {}, T.observers),
    h("p", { class: "note" }, T.observersWords),
    h(
      "table",
      { class: "observers" },
      h("thead", {}, h("tr", {}, T.observersHeadings.map((text, i) => h("th", { scope: "col", class: i ? "n" : "" }, text)))),
      h(
        "tbody",
        {},
        observers.map((row) =>
          h("tr", {}, h("th", { scope: "row" }, row.observer), cells(row).map((text) => h("td", { class: "n" }, text))),
        ),
      ),
    ),
  ];
}

function element(row, i) {
  const look = h("div", { class: "look" });
  preview(look, row);
  const answers = h("div", { class: "line settle" });
  const item = h(
    "li",
    { class: "issue", id: `issue-${i}`, on: { click: () => stand(i), focusin: () => stand(i) } },
    look,
    h(
      "div",
      { class: "about" },
      h(
        "div",
        { class: "line" },
        chip(row.label),
        h("span", { class: "figure", title: T.inTheBag }, percent(row.probability)),
        h("span", { class: "spring" }),
        store.run.kinds.play && iconButton("play", T.play, () => sound.play(row)),
        button(T.lookCloser, { class: "link", key: "O", on: () => open(i) }),
      ),
      h(
        "div",
        { class: "where", title: `${fileOf(row)}, ${placeOf(row)}` },
        h("span", { class: "file" }, fileOf(row)),
        h("span", { class: "quiet spot" }, `${placeOf(row)} · ${T.itIsThat(row.instance_probability)}`),
        row.listed_by && h("span", { class: "quiet" }, T.listedBy(row.listed_by, row.not_listed_by)),
      ),
      answers,
    ),
  );
  fillAnswers(item, answers, i);
  return item;
}

function fillAnswers(item, host, i) {
  const row = rows[i];
  item.classList.toggle("done", Boolean(row.said));
  const choice = (action, text, name, key) =>
    button(text, {
      icon: name,
      key,
      "aria-pressed": String(row.said === action),
      "aria-label": `${text}: ${row.label}, ${fileOf(row)}`,
      on: () => answer(i, action),
    });
  replace(
    host,
    choice("present", T.isThere, "check", "Enter"),
    choice("absent", T.isNotThere, "cross", "X"),
  );
}

function settle(i) {
  const item = document.getElementById(`issue-${i}`);
  if (item) fillAnswers(item, item.querySelector(".settle"), i);
}

// On the page at once, then on disk; put back if that fails.
async function answer(i, action) {
  const row = rows[i];
  if (!row || row.said === action) return;
  const before = row.said;
  const held = document.activeElement?.closest?.(".issue");
  row.said = action;
  settle(i);
  held?.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
  settling += 1;
  try {
    await answerBag(row.bag, row.label, action);
    say(action === "present" ? T.added(row.label, row.bag) : T.isNotIn(row.label, row.bag));
  } catch (error) {
    row.said = before;
    settle(i);
    emit("failed", error);
  } finally {
    settling -= 1;
    if (!settling && skipped) {
      skipped = false;
      fill();
    }
  }
}

async function open(i) {
  if (!rows[i]) return;
  await goToAny(rows[i]);
  await clearFilters();
  show("queue");
}

// Keys speak of where one is, by mouse and by Tab too.
function stand(i) {
  if (at === i) return;
  at = i;
  mark();
}

function mark() {
  rows.forEach((_, i) => {
    const item = document.getElementById(`issue-${i}`);
    item?.classList.toggle("here", i === at);
    if (i === at) item?.setAttribute("aria-current", "true");
    else item?.removeAttribute("aria-current");
  });
  document.getElementById(`issue-${at}`)?.scrollIntoView({ block: "nearest" });
}

function go(step) {
  at = Math.max(0, Math.min(rows.length - 1, at + step));
  mark();
  const row = rows[at];
  if (row) say(`${T.issues[row.kind]}: ${row.label}, ${percent(row.probability)}, ${fileOf(row)}, ${placeOf(row)}`);
}

export function issuesKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const { key } = event;
  if (key in steps) go(steps[key]);
  else if (key === "Enter" || key === "x" || key === "X") {
    answer(at, key === "Enter" ? "present" : "absent");
    go(1);
  } else if (key === "p" || key === "P") sound.play(rows[at]);
  else if (key === "o" || key === "O") open(at);
  else return false;
  return true;
}

export function openIssues() {
  drawn = "";
  fill();
}
on("revised", () => issues.isConnected && fill());
on("undone", () => issues.isConnected && fill());
