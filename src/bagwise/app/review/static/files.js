// Each file as a strip with its instances, and the labels that were said of it.
import { get } from "./api.js";
import { square } from "./chip.js";
import { button, h, iconButton, replace, s, say, select, toast } from "./dom.js";
import { goToAny } from "./one.js";
import { answerBag, emit, on, setQuery, show, store, writeAddress } from "./store.js";
import { sounding, soundStrip, stop } from "./strip-sound.js";
import { T } from "./texts.js";

const AT_ONCE = 40;

const box = h("input", { type: "search", id: "search", placeholder: T.search, "aria-label": T.search });
const found = h("span", { class: "quiet", role: "status" });
const strips = h("div", { class: "strips" });
const more = h("div", { class: "more" });
export const files = h(
  "section",
  { class: "files-view", "aria-label": T.views.files },
  h("div", { class: "files-head" }, box, found),
  strips,
  more,
  sounding,
);

let total = 0;
let held = 0;
let asked = 0;
let waiting = []; // pairs of file and bag that are not drawn yet

async function fetchFiles(fresh) {
  const mine = ++asked;
  const limit = fresh ? Math.max(AT_ONCE, held) : AT_ONCE;
  try {
    const reply = await get("/api/files", {
      search: store.search,
      offset: fresh ? 0 : held,
      limit: Math.min(limit, 500),
    });
    if (mine !== asked) return;
    total = reply.total;
    held = (fresh ? 0 : held) + reply.files.length;
    const many = fresh ? Math.max(AT_ONCE, strips.childElementCount) : AT_ONCE;
    if (fresh) strips.replaceChildren();
    waiting = (fresh ? [] : waiting).concat(reply.files.flatMap((file) => file.bags.map((bag) => [file, bag])));
    drawSome(many);
  } catch (error) {
    emit("failed", error, "read");
  }
  found.textContent = store.run.medium === "table" ? T.bagsFound(store.run.counts.bags) : T.filesFound(total);
  if (!total) replace(strips, h("p", { class: "empty" }, T.noFiles));
}

// A table is one file of very many bags.
function drawSome(n = AT_ONCE) {
  strips.append(...waiting.splice(0, n).map(([file, bag]) => bagElement(file, bag)));
  replace(more, (waiting.length > 0 || held < total) && button(T.moreFiles, { on: showMore }));
}

const showMore = () => (waiting.length ? drawSome() : fetchFiles(false));

function bagElement(file, bag) {
  const labels = h("div", { class: "labels", role: "group", "aria-label": T.bagLabels(bag.bag) });
  drawLabels(labels, bag);
  const name = store.run.medium === "table" ? T.bag(bag.bag) : bag.bag;
  const { element, player } = strip(file, bag);
  const words = T.instancesOf(bag.instances.length);
  const opens = player && bag.instances.length > 0;
  const counted = opens ? button(words, { class: "link", on: () => openFirst(file, bag) }) : h("span", { class: "quiet" }, words);
  return h(
    "article",
    { class: "strip" },
    h("header", {}, h("h3", { title: name }, name), counted, player),
    element,
    labels,
  );
}

function strip(file, bag) {
  const timed =
    bag.instances.length > 0 && typeof bag.instances[0][1] === "number" && typeof bag.instances[0][2] === "number";
  const starts = bag.instances.map((cells) => cells[1] ?? 0);
  const ends = bag.instances.map((cells) => cells[2] ?? 0);
  const n = Math.max(14, bag.instances.length); // few of them need not fill the line
  const first = file.seconds && file.bags.length === 1 ? 0 : Math.min(...starts, Infinity);
  const last = file.seconds && file.bags.length === 1 ? file.seconds : Math.max(...ends, -Infinity);
  const highs = bag.instances.map((cells) => cells[4]).filter((value) => typeof value === "number");
  const [lowest, highest] = file.band ?? [0, Math.max(...highs, 1)];
  const [top, tall] = file.band ? [0, 100] : [6, 88];
  const height = (hertz) => top + (tall * (highest - hertz)) / (highest - lowest);
  const box = s("svg", {
    class: "instances",
    viewBox: "0 0 1000 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  bag.instances.forEach(([number, start, end, low, high, label, probability, checked], i) => {
    const name = store.run.labels[label]?.name ?? "";
    const [left, right] =
      timed && last > first
        ? [(1000 * (start - first)) / (last - first), (1000 * (end - first)) / (last - first)]
        : [(1000 * i) / n, (1000 * (i + 0.92)) / n];
    const banded = typeof low === "number" && typeof high === "number";
    const [up, down] = banded ? [height(high), height(low)] : [10, 90];
    box.append(
      s(
        "rect",
        {
          class: checked ? "checked" : "",
          x: left,
          y: up,
          width: Math.max(2.5, right - left),
          height: Math.max(8, down - up),
          style: {
            "--colour": store.run.labels[label]?.colour ?? "var(--noise)",
            opacity: String(0.35 + 0.65 * (probability ?? 1)),
          },
          on: { click: () => openInstance({ bag: bag.bag, instance: number, file: file.file }) },
        },
        s("title", {}, name || T.background),
      ),
    );
  });
  if (file.band && last > first) return soundStrip(file, box, [first, last]);
  const element = h(
    "button",
    {
      type: "button",
      class: highs.length ? "strip-room" : "strip-room thin",
      "aria-label": `${bag.bag}, ${T.instancesOf(bag.instances.length)}`,
      on: {
        click: (event) =>
          event.target.tagName !== "rect" && bag.instances.length && openFirst(file, bag),
      },
    },
    box,
  );
  return { element, player: null };
}

const openFirst = (file, bag) => openInstance({ bag: bag.bag, instance: bag.instances[0][0], file: file.file });

async function openInstance({ bag, instance, file }) {
  await goToAny({ bag, instance });
  const isTable = store.run.medium === "table";
  setQuery({
    label: "",
    checked: "",
    least: "",
    most: "",
    sample: "",
    order: "file",
    file: isTable ? "" : file,
    bag: isTable ? String(bag) : "",
  });
  show("queue");
}

function drawLabels(host, bag) {
  const listed = bag.labels ?? [];
  const others = store.run.labels.map(({ name }) => name).filter((name) => !listed.includes(name));
  replace(
    host,
    bag.labels === null && h("span", { class: "quiet" }, T.unlabelled),
    listed.map((name) =>
      h(
        "span",
        { class: "chip removable" },
        square(name),
        h("span", { class: "name" }, name),
        iconButton("cross", T.takeAway(name), () => change(host, bag, name, "absent")),
      ),
    ),
    others.length > 0 &&
      select(
        [["", `+ ${T.addLabel}`], ...others.map((name) => [`=${name}`, name])],
        "",
        (value) => value && change(host, bag, value.slice(1), "present"),
        { class: "add", "aria-label": T.addLabel },
      ),
  );
}

// On the page at once, then on disk; put back if that fails.
async function change(host, bag, label, action) {
  const before = bag.labels;
  bag.labels = action === "present" ? [...(before ?? []), label] : before.filter((name) => name !== label);
  drawLabels(host, bag);
  (host.querySelector("select") ?? host.querySelector("button"))?.focus();
  const words = action === "present" ? T.added(label, bag.bag) : T.taken(label, bag.bag);
  try {
    await answerBag(bag.bag, label, action);
    toast(words, { seconds: 3 });
    say(words);
  } catch (error) {
    bag.labels = before;
    drawLabels(host, bag);
    emit("failed", error);
  }
}

let typing = 0;
box.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    store.search = box.value.trim();
    held = 0;
    writeAddress();
    fetchFiles(true);
  }, 180);
});
new IntersectionObserver(
  (seen) => seen.some(({ isIntersecting }) => isIntersecting) && more.childElementCount > 0 && showMore(),
).observe(more);

export function openFiles() {
  box.value = store.search;
  held = 0;
  fetchFiles(true);
}
export function filesKey(event) {
  if (event.key === "/") box.focus();
  else if (event.key !== " " || !stop()) return false;
  return true;
}
on("revised", () => files.isConnected && !strips.contains(document.activeElement) && fetchFiles(true));
on("undone", () => files.isConnected && fetchFiles(true));
