// Novel groups: instances that belong together and to no listed label, a row of pictures each; named, merged, or background.
import { get } from "./api.js";
import { whereOf } from "./chip.js";
import { button, h, iconButton, replace, say, toast } from "./dom.js";
import { preview, player } from "./preview.js";
import { answer, emit, intern, keyOf, nameOf, on, store } from "./store.js";
import { percent, T } from "./texts.js";

const SHOWN = 12; // pictures of a group

const sound = player();
const head = h("p", { class: "note" });
const body = h("ol", { class: "novel-groups" });
export const novel = h(
  "section",
  { class: "novel-view", "aria-label": T.views.novel },
  h("div", { class: "card" }, head, body),
  sound.element,
);

let groups = [];
let merged = new Map(); // number of a group to that of the group it was merged into, for the model of `version`
let version = null;
let at = 0;
let asked = 0;
let heard = 0; // how many instances of the group one stands on were played
let drawn = "";

async function fill() {
  const mine = ++asked;
  let reply;
  try {
    reply = await get("/api/novel-groups");
  } catch (error) {
    emit("failed", error, "read");
    return;
  }
  if (mine !== asked) return;
  if (reply.version !== version) {
    version = reply.version;
    merged = new Map();
  }
  join(reply.groups);
  const now = JSON.stringify([reply.is_done, reply.failed, reply.why, groups.map((group) => group.members.map(keyOf))]);
  if (now === drawn || novel.contains(document.activeElement?.closest("form"))) return;
  drawn = now;
  at = Math.max(0, Math.min(at, groups.length - 1));
  const empty = !reply.is_done ? T.novelWait : reply.failed ? T.novelFailed : reply.why || T.novelNone;
  replace(head, groups.length ? T.novelWords : empty);
  draw();
}

function join(found) {
  groups = [];
  for (const group of found) {
    const members = group.members.map(intern);
    const into = groups.find(({ group: number }) => number === merged.get(group.group));
    if (into) into.members.push(...members);
    else groups.push({ ...group, members });
  }
}

function draw() {
  body.classList.toggle("stretched", store.run.medium !== "image");
  replace(body, groups.map(element));
  mark();
}

// Some of all, from the first to the last.
function sample(members) {
  const n = Math.min(SHOWN, members.length);
  return Array.from({ length: n }, (_, i) => members[Math.floor((i * members.length) / n)]);
}

function element(group, i) {
  return h(
    "li",
    { class: "novel-group", id: `group-${i}`, on: { click: () => stand(i), focusin: () => stand(i) } },
    h(
      "div",
      { class: "line" },
      h("strong", {}, T.novelSize(group.members.length, group.bags)),
      h("span", { class: "quiet" }, group.label ? T.novelWith(group.label, group.share) : "", " ", T.novelStable(group.stability)),
      h("span", { class: "spring" }),
      h("span", { class: "line act" }, actions(i)),
    ),
    h(
      "div",
      { class: "pictures" },
      sample(group.members).map((row) => {
        const look = h("div", { class: "look" });
        preview(look, row);
        return h(
          "div",
          { class: "one-of", title: whereOf(row) },
          look,
          store.run.kinds.play && iconButton("play", T.play, () => sound.play(row)),
        );
      }),
    ),
  );
}

const actions = (i) => [
  button(T.novelName, { icon: "pen", key: "N", class: "main", on: () => ask(i) }),
  button(T.novelBackground, { icon: "cross", key: "X", on: () => give(i, "") }),
  i > 0 && button(T.novelMerge, { icon: "join", key: "M", on: () => merge(i) }),
];

function ask(i) {
  const item = document.getElementById(`group-${i}`);
  if (!item) return;
  const names = h(
    "datalist",
    { id: "group-names" },
    store.run.labels.map(({ name }) => h("option", { value: name })),
  );
  const field = h("input", { id: "group-name", list: "group-names", maxlength: 200, "aria-label": T.novelAsk, placeholder: T.novelAsk });
  const back = () => replace(item.querySelector(".act"), actions(i));
  const form = h(
    "form",
    {
      class: "line",
      on: {
        submit: (event) => {
          event.preventDefault();
          if (field.value.trim()) give(i, field.value.trim());
        },
        keydown: (event) => event.key === "Escape" && back(),
      },
    },
    field,
    names,
    h("button", { type: "submit", class: "button main" }, T.novelName),
  );
  replace(item.querySelector(".act"), form);
  field.focus();
}

// On the page at once, all instances in one step of undo; put back if that fails.
function give(i, label) {
  const group = groups[i];
  if (!group) return;
  const saved = answer(group.members, store.run.label_sets ? () => (label ? [label] : []) : label);
  toast(T.galleryGiven(group.members.length, nameOf(label)), { seconds: 3 });
  groups.splice(i, 1);
  drawn = "";
  at = Math.max(0, Math.min(at, groups.length - 1));
  document.activeElement?.blur?.();
  draw();
  saved.then(fill);
}

function merge(i) {
  if (!groups[i] || i === 0) return;
  merged.set(groups[i].group, groups[i - 1].group);
  for (const [from, into] of merged) if (into === groups[i].group) merged.set(from, groups[i - 1].group);
  groups[i - 1].members.push(...groups[i].members);
  groups.splice(i, 1);
  at = i - 1;
  drawn = "";
  draw();
  say(T.novelMerged(groups[at].members.length));
}

function stand(i) {
  if (at === i) return;
  at = i;
  mark();
}

function mark() {
  groups.forEach((_, i) => document.getElementById(`group-${i}`)?.classList.toggle("here", i === at));
  document.getElementById(`group-${at}`)?.scrollIntoView({ block: "nearest" });
}

function go(step) {
  at = Math.max(0, Math.min(groups.length - 1, at + step));
  heard = 0;
  mark();
  const group = groups[at];
  if (group) say(`${T.novelSize(group.members.length, group.bags)}. ${group.label ? `${group.label} ${percent(group.share)}` : ""}`);
}

export function novelKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const { key } = event;
  if (key in steps) go(steps[key]);
  else if (key === "n" || key === "N") ask(at);
  else if (key === "x" || key === "X") give(at, "");
  else if (key === "m" || key === "M") merge(at);
  else if (key === "p" || key === "P") {
    const shown = sample(groups[at]?.members ?? []);
    if (shown.length) sound.play(shown[heard++ % shown.length]);
  } else return false;
  return true;
}

export function openNovel() {
  drawn = "";
  fill();
}
on("revised", () => novel.isConnected && fill());
on("undone", () => novel.isConnected && fill());
on("failed", (_, what) => what === undefined && novel.isConnected && fill());
