// Texts with their passages, series with their curves, and what is left where nothing can be shown.
import { get } from "./api.js";
import { add, boxButtons, boxKey, canDraw, change, handles, middleOf, penOn } from "./boxes.js";
import { h, replace, s } from "./dom.js";
import { colourOf, goTo, keyOf, nameOf, rowOf } from "./store.js";
import { T } from "./texts.js";
import { ticks, timeline } from "./timeline.js";

const LEFT = 52; // px for the names of the channels
const BELOW = 24; // px for the seconds

const said = (mark) => (mark.instance === null || mark.instance === undefined ? null : (rowOf(keyOf(mark)) ?? mark));

export function textStage() {
  let shown = null;
  let row = null;
  const page = h("div", { class: "stage text", tabindex: 0, role: "document" });

  function draw({ scroll = false } = {}) {
    if (!shown) return;
    page.setAttribute("aria-label", T.text(row.file ?? row.bag));
    const mine = keyOf(row);
    replace(
      page,
      shown.passages.map((passage) => {
        const now = said(passage);
        const [, before, text] = /^(\s*)([^]*)$/.exec(passage.text);
        if (!now || !text) return h("span", { class: "between" }, passage.text);
        const isMine = keyOf(passage) === mine;
        const element = h(
          "span",
          {
            class: `passage${isMine ? " mine" : ""}${now.checked ? " checked" : ""}`,
            title: nameOf(now.label),
            style: { "--colour": now.label ? colourOf(now.label) : "var(--noise)" },
            "aria-current": isMine ? "true" : null,
            on: { click: () => goTo(keyOf(passage)) },
          },
          h("span", { class: "tag" }, nameOf(now.label), now.checked ? " ✓" : ""),
          text,
        );
        return [before, element]; // its name stands before its first word
      }),
    );
    if (scroll) page.querySelector(".mine")?.scrollIntoView({ block: "center" });
  }
  // Characters of the text before a place of the page: names of labels are none of them, and a character may be two units.
  function charactersTo(node, offset) {
    const range = document.createRange();
    range.setStart(page, 0);
    range.setEnd(node, offset);
    const part = range.cloneContents();
    part.querySelectorAll(".tag").forEach((tag) => tag.remove());
    return shown.from + [...part.textContent].length;
  }
  function selected() {
    const range = getSelection().rangeCount ? getSelection().getRangeAt(0) : null;
    if (!range || !page.contains(range.commonAncestorContainer)) return null;
    const [start, end] = [charactersTo(range.startContainer, range.startOffset), charactersTo(range.endContainer, range.endOffset)];
    return { start, end };
  }
  const about = () => {
    const at = selected();
    const now = at && at.end > at.start ? at : null;
    return { file: shown.file, marks: shown.spans, cursor: at?.start ?? null, fresh: { now, start: row.start, end: row.end } };
  };
  const bar = h("div", { class: "bar-of-tools", role: "toolbar", "aria-label": T.boxes });
  return {
    element: h("div", { class: "shown" }, page, bar),
    update(show, of) {
      shown = show;
      row = of;
      replace(bar, boxButtons(about));
      draw();
      requestAnimationFrame(() => page.querySelector(".mine")?.scrollIntoView({ block: "center" }));
    },
    redraw: () => draw(),
    key: (event) => boxKey(event, about),
    close() {},
  };
}

export function seriesStage() {
  let shown = null;
  let row = null;
  const drawing = s("svg", { class: "overlay", role: "img" });
  const stage = h("div", { class: "stage series" }, drawing);
  let home = [0, 1];
  const bounds = () => shown && [shown.start, shown.start + shown.seconds];
  const line = timeline(stage, { left: LEFT, below: BELOW, draw, more: fetchMore, bounds, home: () => home });
  const { x, width: wide, height: tall } = line;
  const bar = h("div", { class: "bar-of-tools", role: "toolbar", "aria-label": T.zoomIn });
  const put = (value, [first, last]) => Math.max(first, Math.min(last, value));
  const pen = penOn(stage, {
    spot(event, held = false) {
      const across = event.clientX - stage.getBoundingClientRect().left;
      if (!shown || (!held && across < LEFT)) return null;
      return { time: put(line.timeAt(put(across, [LEFT, LEFT + wide()])), bounds()) };
    },
    room: () => ({ time: bounds() }),
    box: () => row && { start: row.start, end: row.end },
    redraw: draw,
    done: (place, side) => (side ? change(row, place) : add(whereOf(row), place)),
  });
  const whereOf = (of) => of.bag; // of several recordings of one table the one that is shown
  const about = () => {
    return { file: whereOf(row), marks: shown.spans, cursor: pen.cursor, fresh: middleOf(line.view) };
  };

  function draw() {
    if (!shown) return;
    drawing.setAttribute("aria-label", T.curves(row.file ?? row.bag));
    const mine = keyOf(row);
    const spans = [...shown.spans].sort((a, b) => (keyOf(a) === mine) - (keyOf(b) === mine));
    const lane = tall() / shown.lines.length;
    replace(
      drawing,
      s("clipPath", { id: "series-room" }, s("rect", { x: LEFT, y: 0, width: wide(), height: tall() })),
      s(
        "g",
        { "clip-path": "url(#series-room)" },
        spans.map((span) => spanElement(span, keyOf(span) === mine)),
        shown.lines.map((values, i) => curve(values, i, lane)),
        spans.length > 0 && keyOf(spans.at(-1)) === mine && handles(edgesOf(spans.at(-1)), false),
        pen.ghost && s("rect", { class: "ghost", x: x(pen.ghost.start), y: 1, width: Math.max(1, x(pen.ghost.end) - x(pen.ghost.start)), height: tall() - 2 }),
      ),
      shown.lines.map((_, i) => [
        i > 0 && s("line", { class: "lane", x1: LEFT, x2: LEFT + wide(), y1: i * lane, y2: i * lane }),
        s("text", { class: "channel", x: 4, y: i * lane + 16 }, shown.channels[i] ?? ""),
      ]),
      ticks(line.view.from, line.view.to, wide() / 90).map((t) => [
        s("line", { class: "tickmark", x1: x(t), x2: x(t), y1: tall(), y2: tall() + 4 }),
        s("text", { x: x(t), y: tall() + 16, "text-anchor": "middle" }, `${t} ${T.seconds}`),
      ]),
    );
  }

  const edgesOf = (span) => ({ left: x(span.start), top: 0, wide: Math.max(2, x(span.end) - x(span.start)), tall: tall() });

  // Channels have units of their own, so each fills its lane.
  function curve(values, i, lane) {
    const [low, high] = shown.ranges[i];
    const top = i * lane;
    const pieces = [[]];
    values.forEach((value, k) => {
      // no line across a gap in time
      if (k > 0 && shown.times[k] - shown.times[k - 1] > shown.gap) pieces.push([]);
      if (value === null) return;
      pieces[pieces.length - 1].push(
        `${x(shown.times[k]).toFixed(1)},${(top + lane * (0.92 - (0.84 * (value - low)) / (high - low || 1))).toFixed(1)}`,
      );
    });
    return pieces.map((points) => s("polyline", { class: "curve", points: points.join(" ") }));
  }

  function spanElement(span, isMine) {
    const now = said(span);
    const colour = now.label ? colourOf(now.label) : "var(--noise)";
    const left = x(span.start);
    const width = Math.max(2, x(span.end) - left);
    const name = `${nameOf(now.label)}${now.checked ? " ✓" : ""}`;
    return s(
      "g",
      { class: `box${isMine ? " mine" : ""}`, "data-key": keyOf(span), on: { click: () => goTo(keyOf(span)) } },
      s("title", {}, name),
      s("rect", {
        class: "edge",
        x: left,
        y: isMine ? 1 : 3,
        width,
        height: tall() - (isMine ? 2 : 6),
        rx: 3,
        style: { stroke: colour, fill: colour },
      }),
      (isMine || width > 7 * name.length) &&
        s("text", { class: "name", x: Math.max(LEFT + 4, left + 5), y: tall() - 8 }, name),
    );
  }

  // More rows, or more of them, than are at hand.
  async function fetchMore() {
    const { from, to } = line.view;
    if (from === shown.from && to === shown.to) return;
    const about = row;
    try {
      const more = await get("/api/show", { bag: row.bag, instance: row.instance, from, to });
      if (about !== row || more.kind !== "series") return;
      shown = { ...shown, times: more.times, gap: more.gap, lines: more.lines, spans: more.spans };
      draw();
    } catch {
      // what is at hand stays
    }
  }
  return {
    element: h("div", { class: "shown" }, stage, bar),
    update(show, of) {
      shown = show;
      row = of;
      home = [show.from, show.to];
      line.view = { from: show.from, to: show.to };
      replace(bar, boxButtons(about), line.tools());
      stage.classList.toggle("drawable", canDraw());
      draw();
    },
    redraw: draw,
    key: (event) => line.key(event) || boxKey(event, about),
    close: line.close,
  };
}

// Tables, media that moved, files that cannot be read: words and the features.
export function featureStage() {
  const why = h("p", { class: "note why" });
  const body = h("tbody");
  const head = h(
    "thead",
    {},
    h("tr", {}, h("th", { scope: "col" }, T.feature), h("th", { scope: "col", class: "n" }, T.value), h("th")),
  );
  const stage = h(
    "div",
    { class: "stage features", tabindex: 0, role: "region", "aria-label": T.features },
    why,
    h("table", {}, head, body),
  );
  return {
    element: h("div", { class: "shown" }, stage),
    update(show) {
      const features = Object.entries(show.features ?? {});
      why.textContent = show.why ?? (features.length ? "" : T.nothingToShow);
      why.hidden = !why.textContent;
      head.hidden = !features.length;
      replace(body, featureRows(features));
      stage.scrollTop = 0;
    },
    redraw() {},
    key: () => false,
    close() {},
  };
}

export function featureRows(features, most = 400) {
  const sizes = features.map(([, value]) => Math.abs(Number(value)) || 0).sort((a, b) => a - b);
  const greatest = Math.max(sizes.at(-1) ?? 0, 1e-12);
  const isOneScale = greatest < 30 * (sizes[sizes.length >> 1] ?? 0); // hertz next to shares: bars would say nothing
  return features.slice(0, most).map(([name, value]) => {
    const share = (Number(value) || 0) / greatest;
    const bar =
      isOneScale && h("span", { class: share < 0 ? "below" : "above", style: { width: `${50 * Math.abs(share)}%` } });
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", { class: "n" }, shorten(value)),
      h("td", { class: isOneScale ? "both" : "" }, bar),
    );
  });
}

const shorten = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? ""));
