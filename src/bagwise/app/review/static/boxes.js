// Instances that people draw, split, merge, move and remove: by the mouse, by keys, or by numbers.
import { button, dialog, h, s, say } from "./dom.js";
import { current, edit, keyOf, store } from "./store.js";
import { T } from "./texts.js";

const LEAST = 4; // px that a pointer moves before it draws
const REACH = 8; // px of a handle
const DIGITS = { start: 4, end: 4, low: 1, high: 1 };

export const canDraw = () => Boolean(store.run?.boxes?.draw);
const canRemove = () => Boolean(store.run?.boxes?.remove);
const keyFor = ({ bag, instance }) => ({ bag, instance });
const round = (place) =>
  Object.fromEntries(
    Object.entries(place)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [name, store.run.medium === "text" ? Math.round(value) : Number(value.toFixed(DIGITS[name]))]),
  );

// -- what is done ----------------------------------------------------------------------------------------------------

export const add = (file, place, label = null) =>
  edit({ action: "add", file, ...round(place), ...(label === null ? {} : { label }) }, T.boxDrawn);
export const change = (row, place) => edit({ action: "move", ...keyFor(row), ...round(place) }, T.boxMoved);

function remove(row) {
  edit({ action: "remove", ...keyFor(row) }, T.boxRemoved);
}
function splitAt(row, at) {
  if (at === null || at <= row.start || at >= row.end) at = (row.start + row.end) / 2;
  edit({ action: "split", ...keyFor(row), at: round({ start: at }).start }, T.boxSplit);
}

// The neighbour that begins next; of those that begin together the one that comes next in the list.
export function nextOf(row, marks) {
  const sorted = [...marks].sort((a, b) => a.start - b.start || a.instance - b.instance);
  const at = sorted.findIndex((mark) => keyOf(mark) === keyOf(row));
  return at < 0 ? null : (sorted[at + 1] ?? null);
}
function mergeWithNext(row, marks) {
  const next = nextOf(row, marks);
  if (next) edit({ action: "merge", keys: [row, next].map(keyFor) }, T.boxMerged);
  else say(T.noNext);
}

// -- by numbers ------------------------------------------------------------------------------------------------------

// A form for a place: what the mouse does, for keys and for exact numbers.
function askPlace(title, place, save) {
  const fields = Object.entries(round({ ...place, now: null })).map(([name, value]) => [
    name,
    h("input", { type: "number", step: "any", id: `place-${name}`, value: String(value), required: true }),
  ]);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(fields.map(([name, field]) => [name, Number(field.value)]));
    box.close();
    save(given);
  };
  const box = dialog(
    title,
    T.close,
    h(
      "form",
      { class: "place-form", on: { submit } },
      fields.map(([name, field]) => h("label", { class: "pick" }, T.placeNames(store.run.medium)[name], field)),
      h("div", { class: "line" }, h("button", { type: "submit", class: "button main", id: "place-save" }, T.placeSave)),
    ),
  );
  fields[0][1].focus();
}

const placeIn = (row) =>
  Object.fromEntries(["start", "end", "low", "high"].filter((name) => typeof row[name] === "number").map((name) => [name, row[name]]));

// about() gives {file, marks, cursor, fresh}: the file that is shown, its instances, where the cursor is (or null), and the
// place that a new box would have.
export function boxKey(event, about) {
  const row = current();
  const { key } = event;
  if (!row) return false;
  if ((key === "Delete" || key === "Backspace") && canRemove()) {
    remove(row);
    return true;
  }
  if (!canDraw() || event.shiftKey) return false;
  const small = key.length === 1 ? key.toLowerCase() : key;
  if (!"smde".includes(small) || small.length !== 1) return false;
  const { file, marks, cursor, fresh } = about();
  if (small === "s") splitAt(row, cursor);
  else if (small === "m") mergeWithNext(row, marks);
  else if (small === "e") askPlace(T.boxEdit, placeIn(row), (place) => change(row, place));
  else if (fresh?.now) add(file, fresh.now);
  else askPlace(T.boxNew, fresh, (place) => add(file, place));
  return true;
}

export function boxButtons(about) {
  if (!canRemove()) return [];
  const press = (key) => () => boxKey({ key, shiftKey: false }, about);
  const one = (text, name, key, hint, id) => button(text, { icon: name, key, hint, id, on: press(key === "Del" ? "Delete" : key) });
  return [
    ...(canDraw()
      ? [
          one(T.boxNewShort, "plus", "D", T.boxNewHint, "box-new"),
          one(T.boxEditShort, "pen", "E", T.boxEditHint, "box-edit"),
          one(T.boxSplitShort, "cut", "S", T.boxSplitHint, "box-split"),
          one(T.boxMergeShort, "join", "M", T.boxMergeHint, "box-merge"),
        ]
      : []),
    one(T.boxRemoveShort, "bin", "Del", T.boxRemoveHint, "box-remove"),
  ];
}

// -- by the mouse ----------------------------------------------------------------------------------------------------

// Where the edges of a box are after a handle moved: `side` holds n, s, w, e, or is "move".
export function dragged(box, side, by, room) {
  const made = { ...box };
  const shift = (low, high, delta, [first, last]) => {
    const far = Math.max(first - box[low], Math.min(last - box[high], delta));
    made[low] = box[low] + far;
    made[high] = box[high] + far;
  };
  const put = (name, value, [first, last]) => (made[name] = Math.max(first, Math.min(last, value)));
  if (side === "move") {
    shift("start", "end", by.time, room.time);
    if (room.hertz) shift("low", "high", by.hertz, room.hertz);
    return made;
  }
  if (side.includes("w")) put("start", box.start + by.time, room.time);
  if (side.includes("e")) put("end", box.end + by.time, room.time);
  if (room.hertz && side.includes("n")) put("high", box.high + by.hertz, room.hertz);
  if (room.hertz && side.includes("s")) put("low", box.low + by.hertz, room.hertz);
  return ordered(made);
}

export function ordered({ start, end, low, high }) {
  const made = { start: Math.min(start, end), end: Math.max(start, end) };
  return low === undefined ? made : { ...made, low: Math.min(low, high), high: Math.max(low, high) };
}

// Drawing and dragging on a stage. spot(event) gives {time, hertz} of the pointer (no hertz where there are none); room()
// first and last of each; box() the place of the instance in question; redraw() draws, with `pen.ghost` as the box that is
// being drawn; done(place, side) is called at the end, with no side for a new box.
export function penOn(stage, { spot, room, box, redraw, done }) {
  const pen = { ghost: null, cursor: null, isBusy: false };
  let suppress = false;

  stage.addEventListener("pointerdown", (down) => {
    if (down.button !== 0 || down.shiftKey || !canDraw()) return;
    const begin = spot(down);
    if (!begin) return;
    const side = down.target.dataset?.side ?? null;
    const old = box();
    if (side && !old) return;
    down.preventDefault();
    pen.isBusy = true;
    suppress = false;
    const moved = (event) => {
      const now = spot(event, true);
      const far = Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY);
      if (!pen.ghost && far <= LEAST) return;
      suppress = true;
      const by = { time: now.time - begin.time, hertz: (now.hertz ?? 0) - (begin.hertz ?? 0) };
      pen.ghost = side
        ? dragged(old, side, by, room())
        : ordered({ start: begin.time, end: now.time, low: begin.hertz, high: now.hertz });
      redraw();
    };
    const stop = () => {
      window.removeEventListener("pointermove", moved);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", cancel);
      window.removeEventListener("keydown", escaped, true);
      pen.isBusy = false;
    };
    const cancel = () => {
      stop();
      pen.ghost = null;
      redraw();
    };
    const escaped = (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      cancel();
    };
    const up = () => {
      stop();
      const made = pen.ghost;
      pen.ghost = null;
      redraw();
      if (made && made.end > made.start && (made.low === undefined || made.high > made.low)) done(made, side);
    };
    window.addEventListener("pointermove", moved);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", cancel);
    window.addEventListener("keydown", escaped, true);
  });
  // what was dragged is no click on the box below
  stage.addEventListener(
    "click",
    (event) => {
      if (suppress) event.stopPropagation();
      suppress = false;
    },
    true,
  );
  stage.addEventListener("pointermove", (event) => {
    pen.cursor = spot(event)?.time ?? null;
  });
  stage.addEventListener("pointerleave", () => {
    pen.cursor = null;
  });
  return pen;
}

// Where a new box lies first: in the middle of what is seen.
export const middleOf = ({ from, to }, low, high) => ({
  start: from + 0.45 * (to - from),
  end: from + 0.55 * (to - from),
  ...(low === undefined ? {} : { low: low + (high - low) / 4, high: low + (high - low) / 2 }),
});

// The handles of a box with these edges on the screen.
export function handles({ left, top, wide, tall }, hasBand) {
  if (!canDraw()) return null;
  const [right, below, middle, half] = [left + wide, top + tall, left + wide / 2, top + tall / 2];
  const places = { w: [left, half], e: [right, half] };
  if (hasBand) Object.assign(places, { n: [middle, top], s: [middle, below] });
  if (hasBand && wide > 3 * REACH && tall > 3 * REACH)
    Object.assign(places, { nw: [left, top], ne: [right, top], sw: [left, below], se: [right, below] });
  const grip = hasBand ? [middle, tall > 5 * REACH && wide > 5 * REACH ? half : below + 2 * REACH] : [middle, half];
  return s(
    "g",
    { class: "handles", "aria-hidden": "true" },
    Object.entries(places).map(([side, [x, y]]) =>
      s("rect", { class: "handle", "data-side": side, x: x - REACH / 2, y: y - REACH / 2, width: REACH, height: REACH, rx: 2 }),
    ),
    s("circle", { class: "handle", "data-side": "move", cx: grip[0], cy: grip[1], r: REACH / 1.6 }),
  );
}
