// Before there is a run: choose a folder and its table of labels, see how they fit, start, and watch.
import { get, post } from "./api.js";
import { button, h, replace, say, toast } from "./dom.js";
import { T } from "./texts.js";

const W = T.start;
const main = document.getElementById("main");
const OFTEN = 400; // milliseconds between two looks at the progress
let here = null; // the folder that is listed
let found = null; // what lies in the folder that was chosen
let table = null;

const failed = (error) => toast(error.message, { kind: "bad", seconds: 0 });
const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);
const draw = (...children) => replace(main, h("header", { class: "start-head" }, h("h1", {}, W.title), h("p", { class: "note" }, W.words)), ...children);

// A field for a path, and what is done with it on Enter or by the button.
function pathField(id, label, value, does, on) {
  const field = h("input", { type: "text", id, value, spellcheck: "false", autocomplete: "off" });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") on(field.value);
  });
  return h(
    "div",
    { class: "path-line" },
    h("label", { for: id }, label),
    field,
    does && button(does, { on: () => on(field.value) }),
  );
}

// ---------------------------------------------------------------------------------------------------------------------
// The folder

async function list(path) {
  try {
    here = await post("/api/folders", { path });
  } catch (error) {
    return failed(error);
  }
  found = null;
  drawChoice();
}

function folderCard() {
  const entry = (name, path) =>
    h("li", {}, h("button", { type: "button", class: "row-button", on: { click: () => list(path) } }, name));
  const separator = here.path.includes("\\") ? "\\" : "/";
  const below = (name) => (here.path.endsWith(separator) ? here.path : here.path + separator) + name;
  return card(
    W.folder,
    pathField("folder", W.path, here.path, W.go, list),
    h(
      "ul",
      { class: "folders", id: "folders" },
      here.parent && entry(W.up, here.parent),
      here.folders.map((name) => entry(name, below(name))),
    ),
    h(
      "p",
      { class: "line" },
      h("span", { class: "note", id: "in-folder" }, W.inFolder(here.files)),
      h("span", { class: "spring" }),
      button(W.use, { class: "main", id: "use", on: () => look(null) }),
    ),
  );
}

async function look(named) {
  try {
    found = await post("/api/look", { path: here.path, table: named });
  } catch (error) {
    return failed(error);
  }
  table = found.tables[0] ?? null;
  drawChoice();
  say(W.found(found));
}

// ---------------------------------------------------------------------------------------------------------------------
// The labels, and the start

function tableRow(fit) {
  const box = h("input", { type: "radio", name: "table", checked: fit === table });
  box.addEventListener("change", () => {
    table = fit;
    drawChoice();
  });
  return h(
    "label",
    { class: "fit" },
    box,
    h("span", { class: "file" }, fit.path),
    h("span", { class: "note" }, W.fits(fit, found.n_files)),
    fit.n_found < fit.n_rows && h("span", { class: "note bad" }, W.missing(fit.n_rows - fit.n_found, fit.missing[0])),
  );
}

function labelsCard() {
  return card(
    W.labels,
    h("p", { class: "note" }, W.found(found)),
    found.tables.length ? found.tables.map(tableRow) : [h("p", {}, W.noTable), h("pre", { class: "example" }, W.example)],
    pathField("table", W.other, "", W.check, look),
  );
}

function outCard() {
  const field = pathField("out", W.path, found.out, W.begin, begin);
  field.querySelector(".button").classList.add("main");
  return card(W.out, h("p", { class: "note" }, W.outWords), field);
}

function drawChoice() {
  const parts = [folderCard()];
  if (found?.is_run) {
    parts.push(
      card(
        W.isRun,
        h("p", {}, button(W.review, { class: "main", id: "review", on: () => review(found.path) })),
      ),
    );
  } else if (found) {
    parts.push(found.n_files ? labelsCard() : card(W.found(found)));
    if (table) parts.push(outCard());
  }
  draw(...parts);
}

async function begin(out) {
  try {
    watch(await post("/api/start", { path: found.path, labels: table.path, out }));
  } catch (error) {
    failed(error);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The work

const remarks = (lines) => lines?.length > 0 && h("ul", { class: "remarks note" }, lines.map((words) => h("li", {}, words)));

function drawWork(state) {
  const rows = state.steps.map(({ what, done, total }) => {
    const share = total ? Math.min(1, done / total) : null;
    return h(
      "li",
      { class: "step" },
      h("span", {}, what),
      h("span", { class: "track" }, h("span", { class: "bar", style: { width: `${100 * (share ?? 0)}%` } })),
      h("span", { class: "figure" }, W.share(share)),
    );
  });
  draw(
    card(
      W.working,
      h("ul", { class: "steps-done", id: "steps" }, rows.length ? rows : h("li", { class: "note" }, W.beginning)),
      remarks(state.remarks),
      h("p", {}, button(W.cancel, { id: "cancel", on: cancel })),
    ),
  );
}

function drawDone(state) {
  const { files, instances, named, expected, problems } = state.found;
  draw(
    card(
      W.done(files, instances, named),
      expected && h("p", {}, expected),
      remarks(state.remarks),
      problems.length > 0 && h("details", {}, h("summary", {}, T.problems(problems.length)), remarks(problems)),
      h("p", { class: "note" }, W.written(state.out)),
      h("p", {}, button(W.review, { class: "main", id: "review", on: () => review(state.out) })),
    ),
  );
}

function drawFailed(state) {
  draw(
    card(
      W.failed,
      h("p", { class: "bad", role: "alert" }, state.error),
      h("p", {}, button(W.again, { class: "main", id: "again", on: cancel })),
    ),
  );
}

async function watch(given) {
  let state = given;
  while (state.stage === "creating") {
    drawWork(state);
    await new Promise((then) => setTimeout(then, OFTEN));
    try {
      state = await get("/api/start");
    } catch (error) {
      failed(error);
      return;
    }
  }
  if (state.stage === "done") drawDone(state);
  else if (state.stage === "failed") drawFailed(state);
  else if (found) drawChoice();
  else list(null);
}

async function cancel() {
  try {
    await post("/api/start/cancel");
    if (found) drawChoice();
    else list(null);
  } catch (error) {
    failed(error);
  }
}

async function review(path) {
  const waiting = toast(W.opening, { seconds: 0 });
  try {
    await post("/api/open", { path });
    location.reload();
  } catch (error) {
    failed(error);
  }
  waiting.remove();
}

async function begun() {
  document.getElementById("skip").textContent = T.skip;
  try {
    await watch(await get("/api/start"));
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    replace(main, h("p", { class: "empty bad", role: "alert" }, error.message));
  }
}
begun();
