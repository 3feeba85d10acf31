// What the page knows: the run, the rows of the queue, where one stands; answers are made here and sent on in order.
import { get, post } from "./api.js";
import { T } from "./texts.js";

const FIRST = 200; // rows asked for before anything is drawn
const MOST = 10_000; // rows the server gives at once
const HEARTBEAT = 1000; // ms

const NO_FILTERS = { label: "", file: "", bag: "", least: "", most: "", checked: "", sample: "" };

export const store = {
  run: null,
  view: "queue",
  query: { order: "useful", ...NO_FILTERS },
  gallery: { label: "", order: "unsure", all: "" },
  search: "",
  rows: [],
  places: new Map(), // key to place in rows
  total: 0,
  at: null, // key of the row one stands on
  answered: 0, // answers since the order was worked out
  away: false,
};

const known = new Map(); // key to the one row object that all views share
const done = []; // what was answered here, for undo
const listeners = {};
let sending = Promise.resolve();
let pending = 0;
let revision = null;
let version = null;
let spoken = 0; // what was sent so far: an answer of the server to an older question may not know of it
let loads = 0;
let isUntouched = true; // whether one has not moved or answered yet, so that rows may still change places

export const on = (event, listener) => ((listeners[event] ??= []).push(listener), listener);
export const emit = (event, ...given) => (listeners[event] ?? []).forEach((listener) => listener(...given));

export const keyOf = (row) => `${row.bag}~${row.instance}`;
export const rowOf = (key) => known.get(key);
export const current = () => (store.at === null ? undefined : known.get(store.at));
export const place = () => store.places.get(store.at) ?? -1;
export const nameOf = (label) => label || T.background;
// The labels of a row; where each has but one, that.
export const setOf = (row) => row.labels?.map(({ label }) => label) ?? (row.label ? [row.label] : []);

export function patternOf(label) {
  return store.run?.labels.find((entry) => entry.name === label)?.pattern ?? "";
}

export function colourOf(label) {
  return store.run?.labels.find((entry) => entry.name === label)?.colour ?? "var(--noise)";
}

// The key of each label: its place, or its name where all labels are digits.
export function keyOfLabel(name) {
  const names = store.run.labels.map((label) => label.name);
  if (names.every((other) => /^[0-9]$/.test(other))) return name;
  const i = names.indexOf(name);
  return i < 0 || i > 9 ? "" : String((i + 1) % 10);
}
export const labelOfKey = (key) => store.run.labels.find(({ name }) => keyOfLabel(name) === key)?.name;

// The one object of an instance, brought up to date unless an answer to it is under way.
export function intern(fresh) {
  const key = keyOf(fresh);
  const old = known.get(key);
  if (!old) {
    known.set(key, fresh);
    return fresh;
  }
  if (!old.sending) {
    delete old.was;
    Object.assign(old, fresh);
  }
  return old;
}

// -- the queue ------------------------------------------------------------------------------------------------------

function setRows(rows, total) {
  store.rows = rows;
  store.total = total;
  store.places = new Map(rows.map((row, i) => [keyOf(row), i]));
}

const ask = (offset, limit) => get("/api/instances", { ...store.query, offset, limit });

// Work the order out again. What one stands on stays, if it is still in the list.
export async function load({ keep = true } = {}) {
  const mine = ++loads;
  const before = spoken;
  const first = await ask(0, FIRST);
  if (mine !== loads) return;
  setRows(first.instances.map(intern), first.total);
  store.answered = 0;
  const waits = keep && store.at !== null && !store.places.has(store.at) && first.total > FIRST;
  if (!waits) settle(keep);
  emit("rows");
  if (spoken !== before) revision = null; // the next heartbeat looks once more
  if (first.total <= FIRST) return;
  const rest = await ask(FIRST, MOST - FIRST);
  if (mine !== loads) return;
  const seen = store.places;
  setRows([...store.rows, ...rest.instances.filter((row) => !seen.has(keyOf(row))).map(intern)], rest.total);
  if (spoken !== before) revision = null;
  if (waits) settle(keep);
  emit("rows");
}

function settle(keep) {
  if (keep && store.at !== null && store.places.has(store.at)) return;
  store.at = store.rows.length ? keyOf(store.rows[0]) : null;
  emit("at");
}

// Take over what others did without moving anything under one's hands.
async function refresh() {
  const mine = loads;
  const before = spoken;
  const fresh = await ask(0, Math.min(MOST, Math.max(FIRST, store.rows.length + 50)));
  if (mine !== loads) return;
  if (spoken !== before) {
    revision = null; // once more with the next heartbeat
    return;
  }
  const came = fresh.instances.map(intern);
  const keys = new Set(came.map(keyOf));
  const stays = store.rows.filter((row) => keys.has(keyOf(row)) || row.sending || keyOf(row) === store.at || row.mine);
  const had = new Set(stays.map(keyOf));
  setRows([...stays, ...came.filter((row) => !had.has(keyOf(row)))], Math.max(fresh.total, stays.length));
  emit("rows");
}

export function goTo(key, { quiet = false } = {}) {
  isUntouched = false;
  if (key === store.at) return;
  store.at = key;
  emit("at", quiet);
}

export function move(step) {
  const n = store.rows.length;
  if (!n) return false;
  const here = place();
  const there = Math.max(0, Math.min(n - 1, here + step));
  if (there === here) return false;
  goTo(keyOf(store.rows[there]));
  return true;
}

export async function setQuery(change) {
  const before = { ...store.query };
  Object.assign(store.query, change);
  if (!store.query.sample && store.query.order === "drawn") store.query.order = "useful";
  emit("query");
  try {
    await load();
  } catch (error) {
    Object.assign(store.query, before); // a file that is none of the run, for one
    emit("query");
    emit("failed", error, "read");
  }
}

export const clearFilters = () => setQuery({ ...NO_FILTERS });
export const hasFilters = () => Object.keys(NO_FILTERS).some((name) => store.query[name] !== "");

// -- answers --------------------------------------------------------------------------------------------------------

const SAID = ["label", "labels", "probability", "noise", "checked", "was"];
const stateOf = (row) => Object.fromEntries(SAID.map((name) => [name, row[name]]));

function putBack(entry) {
  entry.rows.forEach((row, i) => Object.assign(row, entry.before[i]));
  emit("changed", entry.rows);
}

function apply(entry) {
  entry.rows.forEach((row, i) => {
    const said = [entry.said[i]].flat().filter(Boolean);
    Object.assign(row, {
      label: said[0] ?? "",
      probability: said.length ? 1 : 0,
      noise: said.length ? 0 : 1,
      checked: true,
    });
    if (row.labels) row.labels = said.map((label) => ({ label, probability: 1 }));
    delete row.draft;
    row.mine = true;
  });
  emit("changed", entry.rows);
}

// One after the other, so that the file holds answers in the order they were given.
function send(job) {
  pending += 1;
  spoken += 1;
  const result = sending.then(job);
  const over = () => {
    pending -= 1;
  };
  sending = result.then(over, over);
  return result;
}

function took(reply) {
  // other changes came in between: the next heartbeat brings them
  if (typeof reply.revision === "number" && revision !== null && reply.revision <= revision + 1)
    revision = reply.revision;
}

// Say what instances are: at once on the page, then on disk; put back if that fails. A label for all, or a function of
// the row that gives the list of all its labels.
export function answer(rows, label) {
  const said = rows.map((row) => (typeof label === "function" ? label(row) : label));
  const keys = rows.flatMap((row, i) => Array(Math.max(1, [said[i]].flat().length)).fill(keyOf(row)));
  const entry = { rows, said, before: rows.map(stateOf), keys };
  for (const name of new Set(said.flat()))
    if (name && !store.run.labels.some((known) => known.name === name)) addLabel(name);
  rows.forEach((row) => (row.sending = (row.sending ?? 0) + 1));
  store.answered += rows.length;
  isUntouched = false;
  done.push(entry);
  apply(entry);
  const corrections = rows.map(({ bag, instance }, i) => ({
    bag,
    instance,
    ...(Array.isArray(said[i]) ? { labels: said[i] } : { label: said[i] }),
  }));
  return send(() => post("/api/corrections", { corrections, by: store.run.by }))
    .then(took, (error) => {
      const index = done.indexOf(entry);
      if (index >= 0) {
        done.splice(index, 1);
        putBack(entry);
        goTo(keyOf(rows[0]));
      }
      revision = null; // another answer to the same instance may be under way
      emit("failed", error);
    })
    .finally(() => rows.forEach((row) => (row.sending -= 1)));
}

// Until the server has sent its color.
function addLabel(name) {
  store.run.labels.push({ name, colour: "var(--noise)", instances: 0, checked: 0 });
  emit("run");
}

export function answerBag(bag, label, action) {
  return send(() =>
    post("/api/corrections", { corrections: [{ bag, instance: null, label, action }], by: store.run.by }),
  ).then((reply) => {
    done.push({ rows: [], before: [], said: [], keys: [keyOf({ bag, instance: null })] });
    took(reply);
    beat();
  });
}

// Draw, split, merge, move or remove: the server says what came of it, and where one stands then.
export function edit(body, words) {
  const next = store.rows[place() + 1] ?? store.rows[place() - 1];
  isUntouched = false;
  return send(() => post("/api/boxes", body))
    .then(async (reply) => {
      done.push({ rows: [], before: [], keys: [], boxes: true });
      const keys = reply.keys.map(([bag, instance]) => keyOf({ bag, instance }));
      const gone = body.action === "remove" ? keys : body.action === "merge" ? body.keys.map(keyOf).filter((key) => !keys.includes(key)) : [];
      forget(gone, body.action === "remove" ? next && keyOf(next) : keys[0]);
      await takeOver();
      emit("edited", words);
    })
    .catch((error) => emit("failed", error));
}

// Rows that are no more, and where one stands then.
function forget(keys, at = null) {
  keys.forEach((key) => known.delete(key));
  store.at = at;
  const left = store.rows.filter((row) => !keys.includes(keyOf(row)));
  setRows(left, Math.max(left.length, store.total - (store.rows.length - left.length)));
  if (keys.length) emit("rows");
}

async function takeOver() {
  revision = null;
  await beat();
  if (revision === null) await beat(); // one was under way
  if (store.at === null) settle(false);
  else emit("at");
}

const BOXES = ["box", "moved", "removed"];

// What was learned from is taken back only where somebody says so: `sure` asks, and is given what it would be.
export async function undo(sure = async () => true) {
  try {
    const would = await send(() => get("/api/undo"));
    if (would.learned && !(await sure(would))) return;
  } catch (error) {
    emit("failed", error, "undo");
    return;
  }
  const entry = done.pop();
  if (entry) putBack(entry);
  try {
    const reply = await send(() => post("/api/undo"));
    const keys = entry?.keys ?? [];
    if (reply.taken.some(({ action }) => BOXES.includes(action))) {
      if (entry && !entry.boxes) done.push(entry);
      const drawn = reply.taken.filter(({ action }) => action === "box").map(keyOf);
      const back = reply.taken.find(({ action }) => action !== "box" && BOXES.includes(action));
      const left = store.rows.find((row) => !drawn.includes(keyOf(row)));
      const stays = drawn.includes(store.at) ? left && keyOf(left) : store.at;
      forget(drawn, back ? keyOf(back) : stays);
      await takeOver();
      emit("undone", reply.taken);
      return;
    }
    const isMine = reply.taken.length === keys.length && reply.taken.every((said) => keys.includes(keyOf(said)));
    if (isMine && entry.rows.length) {
      took(reply);
      goTo(keyOf(entry.rows[0]));
    } else {
      revision = null; // it was said elsewhere, or of a bag: take over what is so now
      if (entry && !isMine) done.push(entry);
    }
    await beat();
    emit("undone", reply.taken);
  } catch (error) {
    if (entry) {
      done.push(entry);
      apply(entry);
    }
    emit("failed", error, "undo");
  }
}

// -- staying in step ------------------------------------------------------------------------------------------------

let beating = null;

export function beat() {
  beating ??= pulse().finally(() => {
    beating = null;
  });
  return beating;
}

async function pulse() {
  let run;
  try {
    run = await get("/api/run");
  } catch (error) {
    if (!store.away) {
      store.away = true;
      emit("away", error);
    }
    return;
  }
  if (store.away) {
    store.away = false;
    emit("away", null);
  }
  if (pending) return;
  const moved = revision !== null && run.revision !== revision;
  const learned = version !== null && run.version !== version;
  const unknown = revision === null;
  const first = version === null;
  store.run = run;
  revision = run.revision;
  version = run.version;
  emit("run");
  if (first) return;
  try {
    if (learned)
      await load({ keep: false }); // to the new first: another answer helps most now
    else if (moved && isUntouched && store.query.order === "useful")
      await load({ keep: false }); // an order that came late
    else if (moved || unknown) await refresh();
    if (moved || learned || unknown) emit("revised");
  } catch (error) {
    emit("failed", error, "read");
  }
}

export async function start() {
  store.run = await get("/api/run");
  revision = store.run.revision;
  version = store.run.version;
  const loop = async () => {
    await beat();
    setTimeout(loop, document.hidden ? 3 * HEARTBEAT : HEARTBEAT);
  };
  setTimeout(loop, HEARTBEAT);
  document.addEventListener("visibilitychange", () => document.hidden || beat());
}

// -- the address ----------------------------------------------------------------------------------------------------

const VIEWS = ["queue", "one", "gallery", "files", "issues", "novel", "history"];

export function readAddress() {
  const [view, text = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const given = new URLSearchParams(text);
  store.view = VIEWS.includes(view) ? view : "queue";
  for (const name of Object.keys(store.query))
    store.query[name] = given.get(name) ?? (name === "order" ? "useful" : "");
  if (!(store.query.order in T.orders) || (store.query.order === "drawn" && !store.query.sample)) store.query.order = "useful";
  store.at = given.get("at") ?? store.at;
  isUntouched &&= store.at === null;
  store.gallery = { label: given.get("gallery") ?? "", order: given.get("sure") ?? "unsure", all: given.get("all") ?? "" };
  store.search = given.get("search") ?? "";
}

export function addressOf(view = store.view) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(store.query))
    if (value !== "" && value !== "useful") parts.set(name, value);
  if (store.at !== null) parts.set("at", store.at);
  if (store.gallery.label) parts.set("gallery", store.gallery.label);
  if (store.gallery.order !== "unsure") parts.set("sure", store.gallery.order);
  if (store.gallery.all) parts.set("all", store.gallery.all);
  if (store.search) parts.set("search", store.search);
  const text = parts.toString();
  return `#${view}${text ? `?${text}` : ""}`;
}

let writing = 0;
export function writeAddress() {
  clearTimeout(writing);
  // browsers refuse more than some hundred changes of the address in a short while
  writing = setTimeout(() => history.replaceState(null, "", addressOf()), 150);
}
window.addEventListener("pagehide", () => history.replaceState(null, "", addressOf()));

export function show(view) {
  if (!VIEWS.includes(view)) return;
  clearTimeout(writing);
  history.replaceState(null, "", addressOf());
  if (view !== store.view) {
    store.view = view;
    history.pushState(null, "", addressOf());
  }
  emit("view");
}

export const viewAfter = (step) => VIEWS[(VIEWS.indexOf(store.view) + step + VIEWS.length) % VIEWS.length];
