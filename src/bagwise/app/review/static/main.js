// Starts the page, shows the view that the address names, and hands keys on.
import { h, replace } from "./dom.js";
import { issues, issuesKey, openIssues } from "./label-issues.js";
import { files, filesKey, openFiles } from "./files.js";
import { historyView, openHistory } from "./history.js";
import { list, queue, reveal } from "./list.js";
import { novel, novelKey, openNovel } from "./novel.js";
import { closeOne, one, oneKey, openOne } from "./one.js";
import { askedUndo, drawShell, showKeys } from "./shell.js";
import {
  clearFilters,
  emit,
  load,
  on,
  readAddress,
  show,
  start,
  store,
  viewAfter,
  writeAddress,
} from "./store.js";
import { T } from "./texts.js";
import { openGallery, gallery, galleryKey } from "./gallery.js";

const main = document.getElementById("main");
const split = h("div", { class: "split" }, queue, one);
const VIEWS = {
  queue: { element: split, open: openOne, close: closeOne, key: oneKey },
  one: { element: split, open: openOne, close: closeOne, key: oneKey },
  gallery: { element: gallery, open: openGallery, key: galleryKey },
  files: { element: files, open: openFiles, key: filesKey },
  issues: { element: issues, open: openIssues, key: issuesKey },
  novel: { element: novel, open: openNovel, key: novelKey },
  history: { element: historyView, open: openHistory },
};
let shown = null;

function drawView() {
  const view = VIEWS[store.view];
  split.classList.toggle("solo", store.view === "one");
  if (shown?.element !== view.element) {
    shown?.close?.();
    replace(main, view.element);
    shown = view;
    view.open();
  }
  if (view.element === split) {
    requestAnimationFrame(reveal);
    (store.view === "one" ? one : list).focus({ preventScroll: true });
  }
}

// Keys belong to fields and open windows first; a focused button keeps Enter and space.
function isTaken(event) {
  const { target } = event;
  if (document.querySelector("dialog[open]")) return true;
  if (target.closest?.("input, select, textarea, [contenteditable]")) return true;
  return Boolean(target.closest?.("button, a, summary")) && (event.key === "Enter" || event.key === " ");
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || !shown) return;
  const taken = isTaken(event);
  const isUndo = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.shiftKey;
  if (isUndo && !event.target.closest?.("input, textarea")) askedUndo();
  else if (taken || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "?") showKeys();
  else if (event.key === "u" || event.key === "U") askedUndo();
  else if (event.key === "]") show(viewAfter(1));
  else if (event.key === "[") show(viewAfter(-1));
  else if (!shown.key?.(event)) return;
  event.preventDefault();
});

// A click on a button of the mouse's is over when it is over: keys go on where they went.
document.addEventListener("click", (event) => {
  const pressed = event.target.closest?.("button");
  if (event.detail > 0 && pressed && split.contains(pressed)) list.focus({ preventScroll: true });
});

on("view", drawView);
for (const event of ["at", "query"]) on(event, writeAddress);
window.addEventListener("popstate", () => {
  const before = JSON.stringify(store.query);
  readAddress();
  if (JSON.stringify(store.query) !== before) {
    emit("query");
    load().catch((error) => emit("failed", error, "read"));
  } else emit("at");
  emit("view");
});

async function begin() {
  readAddress();
  one.tabIndex = -1;
  try {
    await start();
    drawShell();
    emit("query");
    emit("run");
    emit("view");
    // an address from before may ask for a label or a file that is no more
    await load().catch(() => clearFilters());
    performance.mark("rows");
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    replace(main, h("p", { class: "empty bad", role: "alert" }, T.noStart(error.message)));
  }
}
begin();
