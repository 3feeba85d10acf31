// What pictures along time share, whatever is drawn in them: the stretch that is seen, zoom, pan, wheel and keys.
import { h, iconButton } from "./dom.js";
import { T } from "./texts.js";

const SHORTEST = 0.05; // seconds that can fill the width
const STEP = 1.6; // of a zoom by button or key
const SETTLE = 140; // ms without a move before more is asked for

// Round steps for an axis with about n ticks.
export function ticks(from, to, n) {
  const raw = (to - from) / Math.max(1, n);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * size).find((k) => k >= raw) ?? raw;
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to + 1e-9 * step; i++)
    found.push(Number((i * step).toPrecision(10)));
  return found;
}

// left, below: px for the axes. draw() draws the view, more() asks for what is not at hand; bounds() and home() give the
// first and last second of all and of what is shown first; middle() the second around which to zoom, if any.
export function timeline(stage, { left, below, draw, more, bounds, home, middle = () => null }) {
  let later = 0;
  const line = {
    view: { from: 0, to: 1 },
    width: () => Math.max(60, stage.clientWidth - left),
    height: () => Math.max(60, stage.clientHeight - below),
    x: (time) => left + ((time - line.view.from) / length()) * line.width(),
    timeAt: (px) => line.view.from + ((px - left) / line.width()) * length(),
    look(from, to) {
      const [first, last] = bounds();
      const long = Math.min(Math.max(to - from, SHORTEST), last - first);
      const start = Math.max(first, Math.min(from, last - long));
      line.view = { from: start, to: start + long };
      draw();
      clearTimeout(later);
      later = setTimeout(more, SETTLE);
    },
    tools: () => [
      h("span", { class: "spring" }),
      iconButton("minus", T.zoomOut, () => zoom(STEP)),
      iconButton("plus", T.zoomIn, () => zoom(1 / STEP)),
      iconButton("fit", T.zoomFit, fit),
    ],
    key({ key, shiftKey }) {
      if (key === "+") zoom(1 / STEP);
      else if (key === "-") zoom(STEP);
      else if (key === "=") fit();
      else if (key === "ArrowRight" && shiftKey) pan(0.25);
      else if (key === "ArrowLeft" && shiftKey) pan(-0.25);
      else return false;
      return true;
    },
    close: () => sized.disconnect(),
  };
  const length = () => line.view.to - line.view.from;
  const fit = () => line.look(...home());
  const pan = (share) => line.look(line.view.from + share * length(), line.view.to + share * length());
  function zoom(factor, at = middle() ?? (line.view.from + line.view.to) / 2) {
    line.look(at - (at - line.view.from) * factor, at + (line.view.to - at) * factor);
  }
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!bounds()) return; // nothing is shown yet
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 800);
      else zoom(Math.exp(event.deltaY / 500), line.timeAt(event.offsetX));
    },
    { passive: false },
  );
  const sized = new ResizeObserver(() => draw());
  sized.observe(stage);
  return line;
}
