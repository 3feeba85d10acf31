import assert from "node:assert/strict";
import test from "node:test";
import "./browser.mjs";

const S = await import("./static/store.js");
const { describe, fileOf, placeOf } = await import("./static/chip.js");
const { store } = S;

const labels = (...names) => names.map((name) => ({ name, colour: `#${name}`, pattern: "dots", instances: 1, checked: 0 }));
const row = (instance, label = "ant", more = {}) => ({
  bag: "a", instance, label, probability: 0.5, noise: 0.1, checked: false, file: "a.wav", place: `${instance} s`, ...more,
});

// The server: what was asked, and what it answers by path.
const asked = [];
const answers = {};
globalThis.fetch = async (path, options) => {
  asked.push([path.split("?")[0], options.body && JSON.parse(options.body), path]);
  const body = await answers[path.split("?")[0]](path, options);
  return { ok: !body.error, status: body.error ? 500 : 200, json: async () => body };
};

function reset(...rows) {
  store.run = { labels: labels("ant", "bee"), medium: "audio", by: "me", revision: 1, version: 0 };
  answers["/api/instances"] = async () => ({ total: rows.length, instances: rows.map((each) => ({ ...each })) });
  store.at = null;
  asked.length = 0;
  return S.load({ keep: false });
}

test("keys of labels are their places, or their names where all are digits", () => {
  store.run = { labels: labels(..."abcdefghijk") };
  assert.equal(S.keyOfLabel("a"), "1");
  assert.equal(S.keyOfLabel("j"), "0");
  assert.equal(S.keyOfLabel("k"), "");
  assert.equal(S.keyOfLabel("none"), "");
  assert.equal(S.labelOfKey("0"), "j");
  store.run = { labels: labels("0", "3", "7") };
  assert.equal(S.keyOfLabel("3"), "3");
  assert.equal(S.labelOfKey("7"), "7");
  assert.equal(S.labelOfKey("1"), undefined);
});

test("an instance without a label is background, and unknown labels have the color of background", () => {
  store.run = { labels: labels("ant") };
  assert.equal(S.nameOf(""), "background");
  assert.equal(S.nameOf("ant"), "ant");
  assert.equal(S.colourOf("ant"), "#ant");
  assert.equal(S.patternOf("ant"), "dots");
  assert.match(S.colourOf("new"), /var/);
  assert.equal(S.patternOf("new"), "");
});

test("rows are described by file and place; bags of a table by bag and instance", () => {
  store.run = { labels: [], medium: "audio" };
  assert.equal(fileOf(row(2)), "a.wav");
  assert.equal(describe(row(2)), "ant, 50 %, a.wav, 2 s");
  assert.equal(describe(row(2, "", { checked: true, noise: 1 })), "background, 100 %, a.wav, 2 s, checked");
  store.run.medium = "table";
  assert.equal(fileOf(row(2)), "bag a");
  assert.equal(placeOf(row(2)), "instance 2");
});

test("the address holds the view, the filters and where one is, and gives them back", () => {
  const query = { order: "label", label: "a&b=c", file: "ü/ x.wav", bag: "", least: "0.25", most: "", checked: "no", sample: "" };
  Object.assign(store.query, query);
  store.at = "a~3";
  store.gallery = { label: "bee", order: "sure", all: "yes" };
  store.search = "x?y#z";
  const address = S.addressOf("gallery");
  Object.assign(store.query, { order: "useful", label: "", file: "", least: "", checked: "" });
  Object.assign(store, { at: null, search: "", gallery: { label: "", order: "unsure", all: "" } });
  location.hash = address;
  S.readAddress();
  assert.equal(store.view, "gallery");
  assert.deepEqual(store.query, query);
  assert.deepEqual([store.at, store.search], ["a~3", "x?y#z"]);
  assert.deepEqual(store.gallery, { label: "bee", order: "sure", all: "yes" });
  location.hash = "#nonsense?order=none";
  S.readAddress();
  assert.deepEqual([store.view, store.query.order], ["queue", "useful"]);
});

test("views follow each other in a circle", () => {
  store.view = "history";
  assert.equal(S.viewAfter(1), "queue");
  store.view = "queue";
  assert.equal(S.viewAfter(-1), "history");
});

test("an answer is on the page at once, and sent with its reviewer", async () => {
  await reset(row(0), row(1));
  answers["/api/corrections"] = async () => ({ revision: 2, corrections: 1 });
  const [first] = store.rows;
  const sent = S.answer([first], "bee");
  assert.deepEqual([first.label, first.checked, first.probability, first.noise], ["bee", true, 1, 0]);
  await sent;
  assert.deepEqual(asked.at(-1)[1], { corrections: [{ bag: "a", instance: 0, label: "bee" }], by: "me" });
});

test("an answer that cannot be saved is put back, and it is said", async () => {
  await reset(row(10), row(11));
  answers["/api/corrections"] = async () => ({ error: "disk full" });
  const said = [];
  S.on("failed", (error) => said.push(error.message));
  const [first] = store.rows;
  await S.answer([first], "");
  assert.deepEqual([first.label, first.checked, first.noise], ["ant", false, 0.1]);
  assert.deepEqual(said, ["disk full"]);
  assert.equal(store.at, "a~10");
});

test("answers are sent one after the other", async () => {
  await reset(row(20), row(21));
  const order = [];
  let release;
  answers["/api/corrections"] = async (_, { body }) => {
    const { instance } = JSON.parse(body).corrections[0];
    order.push(instance);
    if (instance === 20) await new Promise((over) => (release = over));
    return { revision: 5 };
  };
  const [first, second] = store.rows;
  const all = [S.answer([first], "bee"), S.answer([second], "bee")];
  await new Promise((over) => setTimeout(over, 20));
  assert.deepEqual(order, [20]);
  release();
  await Promise.all(all);
  assert.deepEqual(order, [20, 21]);
});

test("what the server says does not overwrite an answer under way", async () => {
  await reset(row(30));
  const [only] = store.rows;
  only.sending = 1;
  only.label = "bee";
  S.intern(row(30, "ant"));
  assert.equal(only.label, "bee");
  only.sending = 0;
  assert.equal(S.intern(row(30, "ant")), only);
  assert.equal(only.label, "ant");
});

test("moving stops at the ends", async () => {
  await reset(row(40), row(41), row(42));
  assert.equal(store.at, "a~40");
  assert.equal(S.move(-1), false);
  assert.equal(S.move(5), true);
  assert.equal(store.at, "a~42");
  assert.equal(S.move(1), false);
});
