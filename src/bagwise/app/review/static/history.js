// History: what the last retraining changed, agreement with the model, and the share of right labels with intervals.
import { get, post } from "./api.js";
import { chip, square } from "./chip.js";
import { countsCard, fetchCounts } from "./counts.js";
import { button, h, replace, s, say, select } from "./dom.js";
import { goToAny } from "./one.js";
import { clearFilters, colourOf, emit, goTo, keyOf, nameOf, on, setQuery, show, store } from "./store.js";
import { number, percent, T } from "./texts.js";
import { ticks } from "./timeline.js";

const MOST_CHANGES = 200;

const changes = h("section", { class: "card changes" });
const curve = h("section", { class: "card" });
const shares = h("section", { class: "card" });
const samples = h("section", { class: "card" });
export const historyView = h(
  "section",
  { class: "history-view", "aria-label": T.views.history },
  h("div", { class: "column" }, changes),
  h("div", { class: "column" }, countsCard, curve, samples, shares),
);

let asked = 0;

async function fetchAll() {
  const mine = ++asked;
  let reply;
  try {
    reply = await get("/api/history");
    if (!countsCard.contains(document.activeElement)) await fetchCounts(answerSample);
  } catch (error) {
    emit("failed", error, "read");
    return;
  }
  if (mine !== asked) return;
  drawChanges(reply.changes);
  drawCurve(reply.agreement);
  drawShares(reply.labels);
  if (!samples.contains(document.activeElement)) drawSamples(reply.samples);
}

// -- changes --------------------------------------------------------------------------------------------------------

let chosen = null; // the flow whose instances are listed

function drawChanges(all) {
  const flows = new Map();
  for (const change of all) {
    const key = JSON.stringify([change.before, change.after]);
    flows.set(key, [...(flows.get(key) ?? []), change]);
  }
  if (!flows.has(chosen)) chosen = null;
  const sorted = [...flows].sort((a, b) => b[1].length - a[1].length);
  const most = sorted[0]?.[1].length ?? 1;
  const listed = chosen === null ? all : flows.get(chosen);
  replace(
    changes,
    h("h2", {}, T.lastFit(store.run.version)),
    h(
      "p",
      { class: "note" },
      store.run.version ? (all.length ? T.changesWords(all.length) : T.noChanges) : T.lastFitNone,
    ),
    h(
      "ul",
      { class: "flows" },
      sorted.map(([key, those]) => {
        const [before, after] = JSON.parse(key);
        return h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "flow",
              "aria-pressed": String(chosen === key),
              "aria-label": `${T.flow(nameOf(before), nameOf(after))}: ${those.length}`,
              on: { click: () => ((chosen = chosen === key ? null : key), drawChanges(all)) },
            },
            chip(before),
            h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
            chip(after),
            h(
              "span",
              { class: "track" },
              h("span", {
                class: "bar",
                style: {
                  width: `${(100 * those.length) / most}%`,
                  background: after ? colourOf(after) : "var(--noise)",
                },
              }),
            ),
            h("span", { class: "figure" }, number(those.length)),
          ),
        );
      }),
    ),
    listed.length > 0 &&
      h(
        "ul",
        { class: "changed" },
        listed
          .slice(0, MOST_CHANGES)
          .map((change) =>
            h(
              "li",
              {},
              h(
                "button",
                { type: "button", class: "row-button", on: { click: () => open(change) } },
                square(change.before),
                h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
                square(change.after),
                h("span", { class: "name" }, nameOf(change.after)),
                h("span", { class: "quiet spot" }, `${change.file ?? change.bag} ${change.place ?? ""}`),
              ),
            ),
          ),
      ),
  );
}

async function open(change) {
  await goToAny(change);
  await clearFilters();
  show("queue");
}

// -- the curve of agreement -----------------------------------------------------------------------------------------

function drawCurve(points) {
  const [W, H, L, B] = [Math.max(280, (curve.clientWidth || 600) - 36), 190, 46, 26];
  const last = points.at(-1);
  const most = Math.max(last?.[0] ?? 1, 2);
  const x = (n) => L + ((n - 1) / (most - 1)) * (W - L - 10);
  const y = (share) => 10 + (1 - share) * (H - B - 14);
  replace(
    curve,
    h("h2", {}, T.agreement),
    h("p", { class: "note" }, points.length ? T.agreementWords : T.agreementNone),
    points.length > 0 &&
      s(
        "svg",
        { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": T.agreementSays(last[0], last[1]) },
        [0, 0.25, 0.5, 0.75, 1].map((share) => [
          s("line", { class: "grid", x1: L, x2: W - 10, y1: y(share), y2: y(share) }),
          s("text", { x: L - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
        ]),
        ticks(1, most, 6)
          .filter((n) => Number.isInteger(n) && x(n) < W - 80)
          .map((n) => s("text", { x: x(n), y: H - 8, "text-anchor": "middle" }, number(n))),
        s("text", { class: "unit", x: W - 10, y: H - 8, "text-anchor": "end" }, T.agreementAxis),
        s("polyline", {
          class: "curve",
          points: points.map(([n, share]) => `${x(n).toFixed(1)},${y(share).toFixed(1)}`).join(" "),
        }),
        s("circle", { class: "dot", cx: x(last[0]), cy: y(last[1]), r: 4 }),
        s(
          "text",
          {
            class: "last",
            x: Math.min(x(last[0]), W - 14),
            y: y(last[1]) > 30 ? y(last[1]) - 10 : y(last[1]) + 20,
            "text-anchor": "end",
          },
          percent(last[1]),
        ),
      ),
  );
}

// -- shares confirmed -----------------------------------------------------------------------------------------------

function interval({ share, low, high }, colour) {
  return h(
    "span",
    { class: "interval", title: `${percent(share)} (${percent(low)} – ${percent(high)})` },
    h("span", { class: "span", style: { left: `${100 * low}%`, width: `${100 * (high - low)}%`, background: colour } }),
    h("span", { class: "dot", style: { left: `${100 * share}%`, background: colour } }),
  );
}
const figures = ({ share, low, high }) => `${percent(share)} (${Math.round(100 * low)} to ${Math.round(100 * high)})`;

function drawShares(labels) {
  const answered = labels.filter((row) => row.answered > 0);
  replace(
    shares,
    h("h2", {}, T.shares),
    h("p", { class: "note" }, answered.length ? T.sharesWords : T.sharesNone),
    answered.length > 0 &&
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [T.label, T.answered, T.confirmed].map((text, i) => h("th", { scope: "col", class: i ? "n" : "" }, text)),
            h("th", { scope: "col", colspan: 2 }, T.interval),
          ),
        ),
        h(
          "tbody",
          {},
          answered.map((row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, chip(row.label)),
              h("td", { class: "n" }, number(row.answered)),
              h("td", { class: "n" }, number(row.confirmed)),
              h("td", { class: "wide" }, interval(row, row.label ? colourOf(row.label) : "var(--noise)")),
              h("td", { class: "n" }, figures(row)),
            ),
          ),
        ),
      ),
  );
}

// -- samples --------------------------------------------------------------------------------------------------------

function drawSamples(all) {
  let label = "";
  const names = [["", T.drawAll], ...store.run.labels.map(({ name }) => [name, name])];
  const size = h("input", {
    type: "number",
    min: 1,
    max: 10000,
    value: "100",
    id: "sample-size",
    "aria-label": T.drawSize,
  });
  const draw = async (event) => {
    event.preventDefault();
    try {
      const n = Math.max(1, Number(size.value) || 100);
      const reply = await post("/api/sample", { label: label || null, n });
      say(T.drawn(n));
      await answerSample(reply.id);
    } catch (error) {
      emit("failed", error, "read");
    }
  };
  replace(
    samples,
    h("h2", {}, T.samples),
    h("p", { class: "note" }, T.samplesWords),
    h(
      "form",
      { class: "line", on: { submit: draw } },
      h("label", { class: "pick" }, T.drawSize, size),
      h(
        "label",
        { class: "pick" },
        T.drawFrom,
        select(names, "", (value) => (label = value), { id: "sample-label" }),
      ),
      h("button", { type: "submit", class: "button", id: "draw" }, h("span", { class: "words" }, T.draw)),
    ),
    all.length > 0 && h("ul", { class: "samples" }, all.map(sampleElement)),
  );
}

function sampleElement(sample) {
  const isDone = sample.answered >= sample.n;
  const words = isDone
    ? T.quote(sample.label, sample.share, sample.low, sample.high, sample.answered)
    : T.soFar(figures(sample));
  return h(
    "li",
    {},
    h(
      "div",
      { class: "line" },
      sample.label ? chip(sample.label) : h("span", {}, T.drawAll),
      h("span", { class: "spring" }),
      h("span", { class: "quiet" }, T.progress(sample.answered, sample.n)),
      button(isDone ? T.done : T.goOn, { class: isDone ? "link" : "", on: () => answerSample(sample.id) }),
    ),
    sample.answered > 0 && interval(sample, sample.label ? colourOf(sample.label) : "var(--accent)"),
    sample.answered > 0 && h("p", { class: isDone ? "quote" : "note" }, words),
  );
}

async function answerSample(id) {
  await setQuery({ label: "", file: "", bag: "", least: "", most: "", checked: "", sample: String(id), order: "drawn" });
  const first = store.rows.find((row) => !row.checked);
  if (first) goTo(keyOf(first));
  show("queue");
}

export const openHistory = fetchAll;
on("revised", () => historyView.isConnected && fetchAll());
on("undone", () => historyView.isConnected && fetchAll());
