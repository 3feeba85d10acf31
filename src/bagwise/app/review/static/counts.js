// How many instances carry each label, with intervals, from a random sample that a person answers.
import { get, post } from "./api.js";
import { square } from "./chip.js";
import { button, h, replace, say, select } from "./dom.js";
import { colourOf, emit, nameOf } from "./store.js";
import { number, T } from "./texts.js";

const MOST_BARS = 200;

export const countsCard = h("section", { class: "card", id: "counts" });

let by = "";
let label = "";
let answer = null; // what shows the instances of a sample

export async function fetchCounts(answerSample) {
  answer = answerSample;
  try {
    draw(await get(`/api/estimate${by ? `?by=${by}` : ""}`));
  } catch (error) {
    if (!by) throw error;
    draw({ n: 0, answered: 0, counts: [] }, error.message); // no site, no time of recording: said in words
  }
}

function draw({ id, n, answered, counts }, problem = "") {
  const labels = [...new Set(counts.map((row) => row.label))];
  if (!labels.includes(label)) label = labels[0] ?? "";
  const shown = by ? counts.filter((row) => row.label === label) : counts;
  const most = Math.max(1, ...shown.map((row) => row.high));
  const size = h("input", { type: "number", min: 1, max: 10000, value: "60", id: "survey-size", "aria-label": T.drawSize });
  const drawMore = async (event) => {
    event.preventDefault();
    try {
      const reply = await post("/api/survey", { n: Math.max(1, Number(size.value) || 60) });
      say(T.drawn(reply.n));
      await answer(reply.id);
    } catch (error) {
      emit("failed", error, "read");
    }
  };
  replace(
    countsCard,
    h("h2", {}, T.counts),
    h("p", { class: "note" }, shown[0]?.basis === "model" ? T.countsModel : T.countsWords),
    h(
      "div",
      { class: "line" },
      h("label", { class: "pick" }, T.countsBy, select(T.countsGroups, by, (value) => pick({ by: value }), { id: "count-by" })),
      by && labels.length > 0 && select(labels.map((name) => [name, name]), label, (value) => pick({ label: value })),
    ),
    problem && h("p", { class: "note", role: "alert" }, problem),
    h(
      "ul",
      { class: "counts" },
      shown.slice(0, MOST_BARS).map((row) => bar(row, most)),
    ),
    h(
      "form",
      { class: "line", on: { submit: drawMore } },
      h("label", { class: "pick" }, T.drawSize, size),
      h("button", { type: "submit", class: "button", id: "draw-survey" }, h("span", { class: "words" }, T.draw)),
      n > 0 && h("span", { class: "quiet" }, T.progress(answered, n)),
      n > answered && button(T.goOn, { on: () => answer(id) }),
    ),
  );
}

function pick(choice) {
  by = choice.by ?? by;
  label = choice.label ?? label;
  fetchCounts(answer).catch((error) => emit("failed", error, "read"));
}

function bar(row, most) {
  const share = (value) => `${(100 * value) / most}%`;
  const colour = colourOf(row.label);
  const group = by ? String(row[by] === "" ? T.countsUnknown : row[by]) : nameOf(row.label);
  const words = T.countSays(row.count, row.low, row.high, row.n_reviewed, row.more);
  return h(
    "li",
    { title: words },
    h("span", { class: "line" }, !by && square(row.label), group),
    h(
      "span",
      { class: "interval" },
      h("span", { class: "span", style: { left: share(row.low), width: share(row.high - row.low), background: colour } }),
      h("span", { class: "dot", style: { left: share(row.count), background: colour } }),
    ),
    h("span", { class: "quiet" }, `${number(Math.round(row.count))} (${T.range(row.low, row.high)})`),
  );
}
