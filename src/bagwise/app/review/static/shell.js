// The top of the page: views, how far one is, retraining, undo, export, keys, light or dark, who reviews.
import { get, media, post } from "./api.js";
import { button, dialog, h, iconButton, replace, say, select, toast } from "./dom.js";
import { addressOf, beat, on, show, store, undo } from "./store.js";
import { percent, T } from "./texts.js";

const head = document.getElementById("head");
const notices = document.getElementById("notices");
const views = h("nav", { "aria-label": T.viewsLabel });
const progress = h("div", { class: "progress" });
const learn = h("div", { class: "learn" });
const name = h("h1", {});

export function drawShell() {
  document.getElementById("skip").textContent = T.skip;
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  replace(
    head,
    name,
    views,
    progress,
    learn,
    h(
      "div",
      { class: "tools" },
      button(T.undo, { icon: "undo", key: "U", id: "undo", on: askedUndo }),
      button(T.export, { icon: "out", id: "export", on: askExport }),
      iconButton("person", T.who, () => askWho(true), { id: "who" }),
      iconButton("sun", T.theme, askTheme, { id: "theme" }),
      button("?", { hint: T.keys, "aria-label": T.keys, class: "bare", id: "keys", on: showKeys }),
    ),
  );
  drawRun();
  drawViews();
  drawExpected();
  drawProblems();
  if (!store.run.by && !remembered("bagwise-asked")) askWho(false);
}

// Undo, after a question where it would take back what was learned.
export const askedUndo = () =>
  undo(
    (would) =>
      new Promise((answer) => {
        let isSure = false;
        const box = dialog(
          T.undoTitle,
          T.close,
          h(
            "div",
            { id: "sure" },
            h("p", {}, T.undoWords(would.corrections, store.run.version, would.version)),
            h(
              "div",
              { class: "line" },
              button(T.undoSure, { class: "main", id: "sure-yes", on: () => ((isSure = true), box.close()) }),
              button(T.undoNot, { id: "sure-no", on: () => box.close() }),
            ),
          ),
          { on: () => answer(isSure) },
        );
        document.getElementById("sure-no").focus();
      }),
  );

function drawRun() {
  const { run } = store;
  document.title = T.title(run.name);
  replace(
    name,
    h("span", { class: "brand" }, "bagwise"),
    h("span", { class: "run", title: run.title ?? run.name }, run.name),
  );
  const { checked, instances } = run.counts;
  replace(
    progress,
    h(
      "div",
      {
        class: "track",
        role: "progressbar",
        "aria-label": T.checkedShare(checked, instances),
        "aria-valuemin": 0,
        "aria-valuemax": instances,
        "aria-valuenow": checked,
      },
      h("span", { class: "bar", style: { width: `${(100 * checked) / Math.max(1, instances)}%` } }),
    ),
    h("span", { class: "figure", id: "progress" }, T.checkedOf(checked, instances)),
  );
  drawLearn(run.refit ?? { state: "idle" });
}

function drawViews() {
  replace(
    views,
    Object.entries(T.views).map(([view, text]) =>
      h(
        "a",
        {
          href: addressOf(view),
          "aria-current": view === store.view ? "page" : null,
          on: { click: (event) => (event.preventDefault(), show(view)) },
        },
        text,
      ),
    ),
  );
}

// How many names are right, in one line: it changes when the model does.
function drawExpected() {
  const words = store.run.expected ?? "";
  let line = document.getElementById("expected");
  if (!line) {
    line = h("p", { class: "notice", id: "expected" });
    notices.prepend(line);
  }
  line.hidden = !words;
  line.textContent = words;
}

let problems = "";
function drawProblems() {
  const now = (store.run.problems ?? []).map((problem) =>
    typeof problem === "string" ? problem : (problem.message ?? String(problem)),
  );
  if (problems === JSON.stringify(now)) return;
  problems = JSON.stringify(now);
  document.getElementById("problems")?.remove();
  if (!now.length) return;
  notices.append(
    h(
      "details",
      { class: "notice", id: "problems" },
      h("summary", {}, T.problems(now.length)),
      h(
        "ul",
        {},
        now.slice(0, 100).map((words) => h("li", {}, words)),
      ),
    ),
  );
}

// -- retraining -------------------------------------------------------------------------------------------------

let learnState = "";
let watching = false;

function drawLearn(refit) {
  const now = JSON.stringify([refit.state, refit.fraction ?? 0]);
  if (now === learnState) return;
  learnState = now;
  if (refit.state !== "running") {
    replace(learn, button(T.learn, { icon: "learn", id: "learn", hint: T.learnHint, on: startLearning }));
    return;
  }
  const share = refit.fraction ?? 0;
  replace(
    learn,
    h(
      "div",
      {
        class: "learning",
        role: "progressbar",
        "aria-label": T.learning(share),
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": Math.round(100 * share),
      },
      h("span", { class: "bar", style: { width: percent(Math.max(share, 0.04)).replace(" ", "") } }),
      h("span", { class: "figure" }, T.learning(share)),
    ),
    button(T.cancel, { id: "cancel", on: cancelLearning }),
  );
  watch();
}

async function startLearning() {
  try {
    await post("/api/refit");
    drawLearn({ state: "running", fraction: 0 });
    say(T.learning(0));
  } catch (error) {
    toast(T.learnFailed(error.message), { kind: "bad", seconds: 0 });
  }
}

async function cancelLearning() {
  try {
    await post("/api/refit/cancel");
    toast(T.cancelled);
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}

async function watch() {
  if (watching) return;
  watching = true;
  const before = store.run.version;
  let refit = { state: "running" };
  while (refit.state === "running") {
    await new Promise((over) => setTimeout(over, 250));
    try {
      refit = await get("/api/refit");
    } catch {
      continue; // the heartbeat says that the server is away
    }
    drawLearn(refit);
  }
  watching = false;
  if (refit.state === "failed") toast(T.learnFailed(refit.error ?? ""), { kind: "bad", seconds: 0 });
  await beat();
  if (refit.state === "idle" && (refit.version ?? before) !== before) {
    const words = T.learned(refit.changed ?? 0);
    toast(words, { kind: "good", label: T.see, action: () => show("history"), seconds: 12 });
    say(words);
  }
}

// -- the small windows ----------------------------------------------------------------------------------------------

function askExport() {
  const out = h("div", { class: "out", role: "status" });
  const go = async (confirmed_only) => {
    replace(out, h("p", { class: "note" }, T.loading));
    try {
      const { files, problems = [] } = await post("/api/export", { confirmed_only });
      replace(
        out,
        problems.map((problem) => h("p", { class: "bad" }, String(problem))),
        h("p", {}, h("a", { class: "button", id: "export-zip", href: media("/media/export"), download: `${store.run.name}.zip` }, T.exportZip)),
        h("p", { class: "note" }, T.exported),
        h(
          "ul",
          { class: "written" },
          files.map((file) => h("li", {}, file)),
        ),
      );
    } catch (error) {
      replace(out, h("p", { class: "bad" }, error.message));
    }
  };
  dialog(
    T.exportTitle,
    T.close,
    h(
      "div",
      {},
      h("p", { class: "note" }, T.exportWords),
      h(
        "div",
        { class: "line" },
        button(T.exportAll, { class: "main", id: "export-all", on: () => go(false) }),
        button(T.exportConfirmed, { id: "export-confirmed", on: () => go(true) }),
      ),
      out,
    ),
  );
}

function askWho(now) {
  if (document.getElementById("ask-who")) return;
  const field = h("input", {
    type: "text",
    id: "by",
    autocomplete: "name",
    maxlength: 100,
    value: store.run.by ?? "",
    "aria-label": T.who,
  });
  const close = () => {
    remember("bagwise-asked", "yes");
    strip.remove();
  };
  const save = async (event) => {
    event.preventDefault();
    const by = field.value.trim();
    try {
      await post("/api/by", { by });
      store.run.by = by;
      close();
      toast(T.whoIs(by), { seconds: 3 });
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
  };
  const strip = h(
    "form",
    { class: "notice who", id: "ask-who", on: { submit: save } },
    h("label", { for: "by" }, T.who),
    field,
    h("button", { type: "submit", class: "button main" }, h("span", { class: "words" }, T.whoSave)),
    button(T.whoSkip, { class: "link", on: close }),
    h("span", { class: "quiet" }, T.whoWords),
  );
  notices.prepend(strip);
  if (now) field.focus();
}

function askTheme() {
  const chosen = document.documentElement.dataset.theme ?? "auto";
  const choose = (value) => {
    if (value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
    remember("bagwise-theme", value);
  };
  dialog(
    T.theme,
    T.close,
    h("div", { class: "line" }, select(T.themes, chosen, choose, { "aria-label": T.theme, id: "theme-choice" })),
  );
}

export function showKeys() {
  if (document.getElementById("key-list")) return;
  dialog(
    T.keys,
    T.close,
    h(
      "div",
      { class: "keys", id: "key-list" },
      T.keyList.map(([title, keys]) =>
        h(
          "section",
          {},
          h("h3", {}, title),
          h(
            "dl",
            {},
            keys.map(([names, words]) => [
              h(
                "dt",
                {},
                names.map((key) => (key === "…" ? "…" : h("kbd", {}, key))),
              ),
              h("dd", {}, words),
            ]),
          ),
        ),
      ),
    ),
  );
}

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // storage is switched off: it will be asked again
  }
}

on("run", () => {
  drawRun();
  drawExpected();
  drawProblems();
});
on("view", drawViews);
let offline = null;
on("away", (error) => {
  offline?.remove();
  offline = null;
  if (error) {
    offline = h(
      "div",
      { class: "notice bad", role: "alert" },
      error.status === 403 || error.status === 401 ? T.notAllowed : T.away,
    );
    notices.prepend(offline);
  } else toast(T.back, { kind: "good" });
});
on("failed", (error, what) =>
  toast(what === "read" || what === "undo" ? error.message : T.failed(error.message), { kind: "bad", seconds: 12 }),
);
on("undone", (taken) => {
  toast(taken.length ? T.undone(taken.length) : T.nothingToUndo, { seconds: 3 });
  say(taken.length ? T.undone(taken.length) : T.nothingToUndo);
});
