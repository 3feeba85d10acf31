// How spectrograms look: which frequencies, how strong faint sounds are, in which colors. It stays from instance to instance.
import { button, dialog, h, replace, s, select } from "./dom.js";
import { T } from "./texts.js";

// Red, green and blue from the loudest to silence.
const MAPS = {
  grey: [[0, 1], [0, 1], [0, 1]],
  dark: [[1, 0], [1, 0], [1, 0]],
  viridis: [[0.99, 0.37, 0.13, 0.23, 0.27], [0.91, 0.79, 0.57, 0.32, 0], [0.14, 0.38, 0.55, 0.55, 0.33]],
  heat: [[1, 1, 0.8, 0.4, 0], [1, 0.8, 0.3, 0.05, 0], [0.8, 0.2, 0.1, 0.15, 0.05]],
};
const STEPS = 3; // of the gain, up and down

const look = { low: null, high: null, gain: 0, colors: "grey" };

// Hertz from which and up to which a spectrogram is drawn that could show those from low to high.
export function shownBand({ low, high }) {
  const [first, last] = [Math.max(low, look.low ?? low), Math.min(high, look.high ?? high)];
  return last - first > 100 ? [first, last] : [low, high];
}

// Draws the filter through which the picture of greys is seen, and has it seen so; as they are, greys follow the theme.
export function drawFilter(host, image) {
  const theme = document.documentElement.dataset.theme;
  const isDark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const turned = look.colors === "grey" && isDark ? " invert(.88) hue-rotate(180deg)" : "";
  image.style.filter = look.colors === "grey" && look.gain === 0 ? "" : `url(#look)${turned}`;
  replace(
    host,
    s(
      "filter",
      { id: "look", "color-interpolation-filters": "sRGB" },
      s("feComponentTransfer", {}, ["R", "G", "B"].map((one) => s(`feFunc${one}`, { type: "gamma", exponent: 2 ** look.gain }))),
      s(
        "feComponentTransfer",
        {},
        ["R", "G", "B"].map((one, i) => s(`feFunc${one}`, { type: "table", tableValues: MAPS[look.colors][i].join(" ") })),
      ),
    ),
  );
}

export function askLook({ low, high }, changed) {
  const set = (change) => {
    Object.assign(look, change);
    changed();
  };
  const hertz = (name, usual) =>
    h("input", {
      type: "number",
      min: low / 1000,
      max: high / 1000,
      step: "any",
      id: `look-${name}`,
      value: String((look[name] ?? usual) / 1000),
      on: { change: (event) => set({ [name]: event.target.value === "" ? null : 1000 * Number(event.target.value) }) },
    });
  const gain = h("input", {
    type: "range",
    id: "look-gain",
    min: -STEPS,
    max: STEPS,
    step: 0.25,
    value: String(look.gain),
    on: { input: () => set({ gain: Number(gain.value) }) },
  });
  const box = dialog(
    T.look,
    T.close,
    h(
      "div",
      { class: "place-form" },
      h("label", { class: "pick" }, T.lookLow, hertz("low", low)),
      h("label", { class: "pick" }, T.lookHigh, hertz("high", high)),
      h("label", { class: "pick" }, T.lookGain, gain),
      h("label", { class: "pick" }, T.lookColors, select(T.lookMaps, look.colors, (colors) => set({ colors }), { id: "look-colors" })),
      h(
        "div",
        { class: "line" },
        button(T.lookReset, {
          id: "look-reset",
          on: () => {
            set({ low: null, high: null, gain: 0, colors: "grey" });
            box.close();
          },
        }),
      ),
    ),
  );
}
