// A whole recording on one line, behind the boxes of its strip: spectrogram, seconds, and what one hears.
import { media } from "./api.js";
import { button, h, icon, replace, s, toast } from "./dom.js";
import { drawFilter } from "./look.js";
import { T } from "./texts.js";
import { ticks } from "./timeline.js";

const PIECE = 60; // seconds of one picture and of one sound, the longest that the server cuts
const HEIGHT = 88; // px of the picture
const SECOND = 14; // px that a second takes at least; longer recordings are scrolled sideways
const TICK = 90; // px from one to the next

const audio = h("audio", { preload: "none", "aria-label": T.play });
const filter = s("svg", { class: "filter", "aria-hidden": "true" });
export const sounding = h("div", {}, filter, audio);

let playing = null; // {strip, at: second at which this piece of sound begins}

// Pictures are fetched when they come into view, and only then.
const inView = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    target.src = target.dataset.src;
  }
});

// boxes: the drawing of the instances, as wide as what is shown; span: first and last second of it.
export function soundStrip(file, boxes, span) {
  const [first, last] = span;
  const long = last - first;
  const share = (time) => `${(100 * (time - first)) / long}%`;
  const images = [];
  for (let from = first; from < last - 1e-3; from += PIECE) images.push(picture(from, Math.min(from + PIECE, last)));
  const head = h("div", { class: "playhead", hidden: true });
  const pane = h("div", { class: "strip-pane", on: { click: clicked } }, images, boxes, head);
  const axis = h("div", { class: "strip-axis", "aria-hidden": "true" });
  const inner = h("div", { class: "strip-wide", style: { "min-width": `${SECOND * long}px` } }, pane, axis);
  const isAtEnd = (time) => (inner.clientWidth * (last - time)) / long < TICK / 2; // its words stand before it
  const tick = (time) =>
    h(
      "span",
      { class: isAtEnd(time) && "end", style: isAtEnd(time) ? { right: `${(100 * (last - time)) / long}%` } : { left: share(time) } },
      `${time} ${T.seconds}`,
    );
  const player = button("", { class: "strip-play", on: () => (playing?.strip === strip ? stop() : play(strip, first)) });
  const strip = { file, first, last, head, share, drawPlayer };
  if (playing?.strip.file.file === file.file && playing.strip.first === first) playing.strip = strip; // it was drawn again
  new ResizeObserver(() =>
    replace(axis, ticks(first, last, inner.clientWidth / TICK).map(tick)),
  ).observe(inner);
  drawPlayer();
  return { element: h("div", { class: "strip-sound sound" }, inner), player };

  function picture(from, to) {
    const [low, high] = file.band;
    const wide = Math.min(1600, Math.ceil((1400 * Math.max(0.1, (to - from) / Math.min(long, PIECE))) / 10) * 10);
    const size = { width: wide, height: 2 * HEIGHT, low, high };
    const image = h("img", {
      alt: "",
      draggable: "false",
      style: { left: share(from), width: `${(100 * (to - from)) / long}%` },
      "data-src": media("/media/spectrogram", { file: file.file, from, to, ...size }),
      on: { error: () => image.remove() }, // the boxes stay
    });
    drawFilter(filter, image);
    inView.observe(image);
    return image;
  }
  function clicked(event) {
    if (event.target.tagName === "rect") return;
    const at = pane.getBoundingClientRect();
    play(strip, first + (long * (event.clientX - at.left)) / at.width);
  }
  function drawPlayer() {
    const on = playing?.strip === strip;
    replace(player, icon(on ? "stop" : "play"), h("span", { class: "words" }, on ? T.stop : T.play));
  }
}

function play(strip, at) {
  stop();
  const own = { strip, at };
  playing = own;
  const [from, to] = [at.toFixed(3), Math.min(at + PIECE, strip.last).toFixed(3)];
  audio.src = media("/media/clip", { file: strip.file.file, from, to });
  audio.play().catch((error) => {
    if (playing !== own) return; // cut off by another
    if (error.name !== "AbortError") toast(T.cannotPlay, { kind: "bad" });
    stop();
  });
  strip.drawPlayer();
  requestAnimationFrame(follow);
}

export function stop() {
  if (!playing) return false;
  const { strip } = playing;
  playing = null;
  audio.pause();
  strip.head.hidden = true;
  strip.drawPlayer();
  return true;
}

function follow() {
  if (!playing) return;
  const { strip, at } = playing;
  if (!strip.head.isConnected) return stop(); // another view, or another search
  strip.head.hidden = false;
  strip.head.style.left = strip.share(Math.min(at + audio.currentTime, strip.last));
  requestAnimationFrame(follow);
}

audio.addEventListener("ended", () => {
  if (!playing || !audio.ended) return;
  const { strip, at } = playing;
  if (at + PIECE < strip.last) play(strip, at + PIECE);
  else stop();
});
