// A stretch of a recording: spectrogram, boxes of all instances in it, zoom and pan, and what one hears.
import { get, media } from "./api.js";
import { add, boxButtons, boxKey, canDraw, change, handles, middleOf, penOn } from "./boxes.js";
import { button, h, replace, s, say, toast } from "./dom.js";
import { askLook, drawFilter, shownBand } from "./look.js";
import { colourOf, goTo, keyOf, nameOf, rowOf } from "./store.js";
import { T } from "./texts.js";
import { ticks, timeline } from "./timeline.js";

const LEFT = 44; // px for the frequencies
const BELOW = 24; // px for the seconds
const SLOW = [1, 2, 5, 10];

const hearing = { loop: false, band: false, slow: 1 }; // stays from instance to instance

export function soundStage() {
  let shown = null; // what the server said
  let row = null;
  let drawnView = null; // what the picture holds
  let asked = 0;
  let playing = null; // {from, slow} of what is heard
  const image = h("img", { alt: "", draggable: "false" });
  const pane = h("div", { class: "pane" }, image);
  const overlay = s("svg", { class: "overlay", role: "img" });
  const head = h("div", { class: "playhead", hidden: true });
  const filter = s("svg", { class: "filter", "aria-hidden": "true" });
  const stage = h("div", { class: "stage sound" }, filter, pane, overlay, head);
  const audio = h("audio", { preload: "none", "aria-label": T.play });
  const bar = h("div", { class: "bar-of-tools", role: "toolbar", "aria-label": T.play });
  const boxBar = h("div", { class: "bar-of-tools", role: "toolbar", "aria-label": T.boxes });
  const element = h("div", { class: "shown" }, stage, bar, boxBar, audio);

  const line = timeline(stage, {
    left: LEFT,
    below: BELOW,
    draw,
    more: fetchMore,
    bounds: () => shown && [0, shown.seconds],
    home: () => [shown.from, shown.to],
    middle: () => (row.start >= line.view.from && row.end <= line.view.to ? (row.start + row.end) / 2 : null),
  });
  const { x, width, height } = line;
  const band = () => shownBand(shown);
  const y = (hertz) => height() * (1 - (hertz - band()[0]) / (band()[1] - band()[0]));

  // -- boxes --
  const room = () => ({ time: [0, shown.seconds], hertz: band() });
  const pen = penOn(stage, {
    // what is under the pointer; outside of the picture nothing, or (`held`) the nearest place in it
    spot(event, held = false) {
      const at = stage.getBoundingClientRect();
      const [across, down] = [event.clientX - at.left, event.clientY - at.top];
      if (!shown || (!held && (across < LEFT || down > height()))) return null;
      const { time, hertz } = room();
      const put = (value, [first, last]) => Math.max(first, Math.min(last, value));
      return {
        time: put(line.timeAt(Math.max(LEFT, Math.min(LEFT + width(), across))), time),
        hertz: put(hertz[1] - (down / height()) * (hertz[1] - hertz[0]), hertz),
      };
    },
    room,
    box: () => row && { start: row.start, end: row.end, low: row.low, high: row.high },
    redraw: draw,
    done: (place, side) => (side ? change(row, place) : add(shown.file, place)),
  });
  const about = () => ({
    file: shown.file,
    marks: shown.boxes,
    cursor: pen.cursor ?? (playing ? playing.from + audio.currentTime / playing.slow : null),
fresh: middleOf(line.view, ...band()),
  });

  function draw() {
    if (!shown) return;
    const [w, tall] = [width(), height()];
    overlay.setAttribute("aria-label", T.spectrogram(shown.file, line.view.from.toFixed(2), line.view.to.toFixed(2)));
    if (drawnView) {
      image.style.left = `${((drawnView.from - line.view.from) / (line.view.to - line.view.from)) * w}px`;
      image.style.width = `${((drawnView.to - drawnView.from) / (line.view.to - line.view.from)) * w}px`;
    }
    const axes = [
      ticks(band()[0] / 1000, band()[1] / 1000, tall / 55).map((k) => [
        s("line", { class: "grid", x1: LEFT, x2: LEFT + w, y1: y(1000 * k), y2: y(1000 * k) }),
        s("text", { x: LEFT - 6, y: Math.max(10, y(1000 * k) + 4), "text-anchor": "end" }, String(k)),
      ]),
      s("text", { class: "unit", x: 2, y: tall + 16 }, T.kilohertz),
      ticks(line.view.from, line.view.to, w / 90).map((t) => [
        s("line", { class: "tickmark", x1: x(t), x2: x(t), y1: tall, y2: tall + 4 }),
        s(
          "text",
          { x: x(t), y: tall + 16, "text-anchor": x(t) > LEFT + w - 20 ? "end" : "middle" },
          `${t} ${T.seconds}`,
        ),
      ]),
    ];
    const mine = row && keyOf(row);
    const [low, high] = band();
    const inBand = (box) => (box.high ?? high) > low && (box.low ?? low) < high;
    const boxes = shown.boxes.filter((box) => box.end >= line.view.from && box.start <= line.view.to && inBand(box));
    boxes.sort((a, b) => (keyOf(a) === mine) - (keyOf(b) === mine)); // the one in question on top
    const edges = boxes.map((box) => edgesOf(box));
    replace(
      overlay,
      axes,
      boxes.map((box, i) => boxElement(box, edges[i], keyOf(box) === mine)),
      nameElements(boxes, edges, mine),
      mine && boxes.length > 0 && keyOf(boxes.at(-1)) === mine && handles(edges.at(-1), true),
      pen.ghost && s("rect", { class: "ghost", ...shapeOf(edgesOf(pen.ghost)) }),
    );
  }
  const shapeOf = ({ left, top, wide, tall }) => ({ x: left, y: top, width: wide, height: tall, rx: 2 });

  function edgesOf(box) {
    const left = Math.max(LEFT, x(box.start));
    const top = Math.max(0, y(box.high ?? band()[1]));
    const wide = Math.max(3, Math.min(LEFT + width(), x(box.end)) - left);
    return { left, top, wide, tall: Math.max(4, Math.min(height(), y(box.low ?? band()[0])) - top) };
  }

  const wordsOf = (now) => `${nameOf(now.label)}${now.checked ? " ✓" : ""}`;

  function boxElement(box, { left, top, wide, tall }, isMine) {
    const now = rowOf(keyOf(box)) ?? box;
    const colour = now.label ? colourOf(now.label) : "var(--noise)";
    return s(
      "g",
      { class: `box${isMine ? " mine" : ""}`, "data-key": keyOf(box), on: { click: () => goTo(keyOf(box)) } },
      s("title", {}, wordsOf(now)),
      isMine && s("rect", { class: "halo", x: left - 1, y: top - 1, width: wide + 2, height: tall + 2, rx: 3 }),
      s("rect", {
        class: "edge",
        x: left,
        y: top,
        width: wide,
        height: tall,
        rx: 2,
        style: { stroke: colour, fill: colour },
      }),
    );
  }

  // The name of the one in question, then of those whose name fits and covers no other.
  function nameElements(boxes, edges, mine) {
    const taken = [];
    const order = boxes.map((_, i) => i).sort((a, b) => (keyOf(boxes[b]) === mine) - (keyOf(boxes[a]) === mine));
    return order.map((i) => {
      const isMine = keyOf(boxes[i]) === mine;
      const { left, top, wide, tall } = edges[i];
      const words = wordsOf(rowOf(keyOf(boxes[i])) ?? boxes[i]);
      const long = (isMine ? 8 : 7) * words.length;
      if (!isMine && wide < 0.85 * long) return null;
      const at = Math.max(LEFT, Math.min(left, LEFT + width() - long));
      const line = top > 16 ? top - 5 : Math.min(top + tall + 13, height() - 3);
      if (taken.some((other) => Math.abs(other.line - line) < 14 && at < other.at + other.long && other.at < at + long))
        return null;
      taken.push({ at, line, long });
      return s("text", { class: `name${isMine ? " mine" : ""}`, x: at, y: line }, words);
    });
  }

  // The picture of what is seen now; the one before stays, stretched, until it is there.
  function fetchPicture() {
    const mine = ++asked;
    const wanted = line.view;
    const wide = Math.min(2400, Math.ceil((width() * Math.min(2, devicePixelRatio)) / 200) * 200);
    const source = media(shown.picture, {
      from: wanted.from,
      to: wanted.to,
      width: wide,
      height: 2 * Math.ceil(height() / 100) * 50,
      low: band()[0],
      high: band()[1],
    });
    const next = new Image();
    next.onload = () => {
      if (mine !== asked) return;
      image.src = source;
      image.hidden = false;
      drawnView = wanted;
      stage.classList.remove("broken");
      draw();
    };
    next.onerror = () => mine === asked && stage.classList.add("broken");
    next.src = source;
  }

  async function fetchMore() {
    fetchPicture();
    const about = row;
    try {
      const more = await get("/api/show", { bag: row.bag, instance: row.instance, ...line.view });
      if (about === row && more.boxes) shown = { ...shown, boxes: more.boxes };
      draw();
    } catch {
      // boxes beyond the first stretch are missing; those at hand stay
    }
  }

  function seenOtherwise() {
    drawFilter(filter, image);
    draw();
    fetchPicture();
  }
  drawFilter(filter, image);

  // -- hearing --
  function play(only) {
    const from = only ? Math.max(0, row.start - 0.02) : line.view.from;
    const to = only ? row.end + 0.02 : line.view.to;
    const query = {
      from: from.toFixed(4),
      to: Math.min(to, shown.seconds).toFixed(4),
      slow: hearing.slow > 1 ? hearing.slow : null,
    };
    query.low = hearing.band ? row.low : null;
    query.high = hearing.band ? row.high : null;
    audio.src = media(shown.clip ?? "/media/clip", { file: shown.file, ...query });
    audio.loop = hearing.loop;
    const own = { from, slow: hearing.slow, only };
    playing = own;
    audio.play().catch((error) => {
      if (playing !== own) return; // what was cut off must not stop what plays since
      if (error.name !== "AbortError") toast(T.cannotPlay, { kind: "bad" });
      stop();
    });
    drawBar();
    requestAnimationFrame(follow);
  }
  function stop() {
    audio.pause();
    playing = null;
    head.hidden = true;
    drawBar();
  }
  function follow() {
    if (!playing) return;
    const at = x(playing.from + audio.currentTime / playing.slow);
    head.hidden = at < LEFT || at > LEFT + width();
    head.style.transform = `translateX(${at}px)`;
    requestAnimationFrame(follow);
  }
  audio.addEventListener("ended", () => audio.ended && stop()); // not the end of a sound before
  const again = () => playing && play(playing.only);

  function set(change, words) {
    Object.assign(hearing, change);
    drawBar();
    again();
    say(words);
  }
  const slower = () => {
    const slow = SLOW[(SLOW.indexOf(hearing.slow) + 1) % SLOW.length];
    set({ slow }, T.speedSays[slow]);
  };

  function drawBar() {
    replace(
      bar,
      button(playing ? T.stop : T.play, {
        icon: playing ? "stop" : "play",
        key: "Space",
        id: "play",
        on: () => (playing ? stop() : play(false)),
      }),
      button(T.loop, {
        icon: "loop",
        key: "R",
        "aria-pressed": String(hearing.loop),
        on: () => set({ loop: !hearing.loop }, T.loop),
      }),
      button(T.band, {
        icon: "band",
        key: "B",
        hint: T.bandHint,
        "aria-pressed": String(hearing.band),
        on: () => set({ band: !hearing.band }, T.band),
      }),
      h(
        "span",
        { class: "group", role: "group", "aria-label": T.speed },
        SLOW.map((slow) =>
          button(T.speeds[slow], {
            hint: T.speedSays[slow],
            "aria-label": T.speedSays[slow],
            "aria-pressed": String(hearing.slow === slow),
            on: () => set({ slow }, T.speedSays[slow]),
          }),
        ),
        h("kbd", { "aria-hidden": "true" }, "T"),
      ),
      button(T.lookShort, { icon: "sun", hint: T.look, id: "look-open", on: () => askLook(shown, seenOtherwise) }),
      line.tools(),
    );
    replace(boxBar, boxButtons(about));
    stage.classList.toggle("drawable", canDraw());
  }

  // -- the mouse --
  stage.addEventListener("pointerdown", (down) => {
    if (down.button !== 0 || !shown || (canDraw() && !down.shiftKey)) return;
    const held = line.view;
    const dragged = (event) => {
      const moved = ((down.clientX - event.clientX) / width()) * (held.to - held.from);
      if (Math.abs(event.clientX - down.clientX) > 3) line.look(held.from + moved, held.to + moved);
    };
    const up = () => window.removeEventListener("pointermove", dragged);
    window.addEventListener("pointermove", dragged);
    window.addEventListener("pointerup", up, { once: true });
  });
  return {
    element,
    update(show, of) {
      const sameFile = shown && show.file === shown.file;
      const isSame = sameFile && keyOf(row) === keyOf(of); // labels around it changed: what one hears and sees goes on
      if (!isSame) stop();
      shown = show;
      row = of;
      if (!isSame) line.view = { from: show.from, to: show.to };
      if (!sameFile) {
        drawnView = null;
        image.hidden = true;
      }
      drawBar();
      draw();
      if (!drawnView || drawnView.from !== line.view.from || drawnView.to !== line.view.to) fetchPicture();
    },
    redraw: draw,
    key(event) {
      const { key } = event;
      if (key === " ") playing ? stop() : play(event.shiftKey);
      else if (key === "r" || key === "R") set({ loop: !hearing.loop }, T.loop);
      else if (key === "b" || key === "B") set({ band: !hearing.band }, T.band);
      else if (key === "t" || key === "T") slower();
      else if (boxKey(event, about)) return true;
      else return line.key(event);
      return true;
    },
    close() {
      stop();
      line.close();
    },
  };
}
