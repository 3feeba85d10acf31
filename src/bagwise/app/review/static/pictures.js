// A picture with its regions; zoom and pan move the part of it that is seen.
import { media } from "./api.js";
import { boxButtons, boxKey } from "./boxes.js";
import { h, iconButton, patterns, replace, s } from "./dom.js";
import { colourOf, goTo, keyOf, nameOf, patternOf, rowOf } from "./store.js";
import { T } from "./texts.js";

// The middle of the widest stretch inside of the rings of a region, on one of some lines across it.
function roomIn(rings) {
  const ys = rings.flatMap((ring) => ring.map(([, y]) => y));
  const [top, below] = [ys.reduce((a, b) => Math.min(a, b)), ys.reduce((a, b) => Math.max(a, b))];
  let best = { x: rings[0][0][0], y: rings[0][0][1], wide: 0 };
  for (let k = 1; k < 12; k++) {
    const y = top + ((below - top) * (k + 0.013)) / 12; // hardly ever on a corner
    const crossings = [];
    for (const ring of rings) {
      ring.forEach(([x1, y1], i) => {
        const [x2, y2] = ring[(i + 1) % ring.length];
        if (y1 > y !== y2 > y) crossings.push(x1 + ((y - y1) / (y2 - y1)) * (x2 - x1));
      });
    }
    crossings.sort((a, b) => a - b);
    for (let i = 0; i + 1 < crossings.length; i += 2) {
      const wide = crossings[i + 1] - crossings[i];
      const central = 1 - (0.4 * Math.abs(k - 6)) / 6;
      if (wide * central > best.wide) best = { x: (crossings[i] + crossings[i + 1]) / 2, y, wide: wide * central };
    }
  }
  return best;
}

export function pictureStage() {
  let shown = null;
  let row = null;
  let view = { x: 0, y: 0, w: 1, h: 1 };
  const drawing = s("svg", { class: "drawing", role: "img", preserveAspectRatio: "xMidYMid meet" });
  const stage = h("div", { class: "stage picture" }, drawing);
  const bar = h(
    "div",
    { class: "bar-of-tools", role: "toolbar", "aria-label": T.zoomIn },
    boxButtons(() => ({})),
    h("span", { class: "spring" }),
    iconButton("minus", T.zoomOut, () => zoom(1.5)),
    iconButton("plus", T.zoomIn, () => zoom(1 / 1.5)),
    iconButton("fit", T.zoomAll, () => fit()),
  );
  const element = h("div", { class: "shown" }, stage, bar);

  function draw() {
    if (!shown) return;
    drawing.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    drawing.setAttribute("aria-label", T.picture(row.file ?? row.bag));
    const scale = Math.min(drawing.clientWidth / view.w, drawing.clientHeight / view.h) || 1;
    const mine = keyOf(row);
    const regions = [...shown.regions].sort((a, b) => (keyOf(a) === mine) - (keyOf(b) === mine));
    replace(
      drawing,
      patterns(scale),
      shown.picture &&
        s("image", {
          href: media(shown.picture),
          width: shown.width,
          height: shown.height,
          preserveAspectRatio: "none",
        }),
      regions.map((region) => regionElement(region, keyOf(region) === mine, scale)),
      regions.map((region) => nameElement(region, keyOf(region) === mine, scale)),
    );
  }

  function outline(rings) {
    return rings.map((ring) => `M${ring.map(([x, y]) => `${x},${y}`).join("L")}Z`).join("");
  }

  function regionElement(region, isMine, scale) {
    const now = rowOf(keyOf(region)) ?? region;
    const colour = now.label ? colourOf(now.label) : "var(--noise)";
    const d = outline(region.rings);
    const over = now.label ? patternOf(now.label) : "";
    return s(
      "g",
      { class: `region${isMine ? " mine" : ""}`, on: { click: () => goTo(keyOf(region)) } },
      s("title", {}, nameOf(now.label)),
      isMine && s("path", { class: "halo", d, "stroke-width": 6 / scale }),
      s("path", {
        class: "edge",
        d,
        "stroke-width": (isMine ? 3 : 1.5) / scale,
        style: { stroke: colour, fill: colour },
      }),
      over && s("path", { class: "over", d, fill: `url(#${over})` }),
    );
  }

  function nameElement(region, isMine, scale) {
    const now = rowOf(keyOf(region)) ?? region;
    const { x, y, wide } = roomIn(region.rings);
    const name = `${nameOf(now.label)}${now.checked ? " ✓" : ""}`;
    const size = 13 / scale;
    if (!isMine && wide < 0.5 * size * name.length) return null;
    return s(
      "text",
      {
        class: `name${isMine ? " mine" : ""}`,
        x,
        y: y + size / 3,
        "font-size": size,
        "stroke-width": 3.5 / scale,
        "text-anchor": "middle",
      },
      name,
    );
  }

  function fit() {
    view = { x: 0, y: 0, w: shown.width, h: shown.height };
    draw();
  }
  function zoom(factor, at = null) {
    const w = Math.min(shown.width, Math.max(shown.width / 20, view.w * factor));
    const k = w / view.w;
    const [cx, cy] = at ?? [view.x + view.w / 2, view.y + view.h / 2];
    view = { x: cx - (cx - view.x) * k, y: cy - (cy - view.y) * k, w, h: view.h * k };
    pan(0, 0);
  }
  function pan(dx, dy) {
    view.x = Math.max(0, Math.min(shown.width - view.w, view.x + dx));
    view.y = Math.max(0, Math.min(shown.height - view.h, view.y + dy));
    draw();
  }
  function spot(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    return [point.x, point.y];
  }
  stage.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 500), spot(event));
    },
    { passive: false },
  );
  stage.addEventListener("pointerdown", (down) => {
    let last = down;
    const dragged = (event) => {
      const scale = Math.min(drawing.clientWidth / view.w, drawing.clientHeight / view.h);
      pan((last.clientX - event.clientX) / scale, (last.clientY - event.clientY) / scale);
      last = event;
    };
    window.addEventListener("pointermove", dragged);
    window.addEventListener("pointerup", () => window.removeEventListener("pointermove", dragged), { once: true });
  });
  const sized = new ResizeObserver(() => draw());
  sized.observe(stage);

  return {
    element,
    update(show, of) {
      const same = shown && shown.picture === show.picture;
      shown = show;
      row = of;
      if (same) draw();
      else fit();
    },
    redraw: draw,
    key(event) {
      const step = view.w / 6;
      if (event.key === "+") zoom(1 / 1.5);
      else if (event.key === "-") zoom(1.5);
      else if (event.key === "=") fit();
      else if (event.shiftKey && event.key === "ArrowRight") pan(step, 0);
      else if (event.shiftKey && event.key === "ArrowLeft") pan(-step, 0);
      else if (event.shiftKey && event.key === "ArrowDown") pan(0, step);
      else if (event.shiftKey && event.key === "ArrowUp") pan(0, -step);
      else return boxKey(event, () => ({}));
      return true;
    },
    close: () => sized.disconnect(),
  };
}
