// Elements without markup: what comes from the run is only ever set as text.
import { T } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// Patterns over colours that more than one label bears, as large as `scale` points of the screen make them.
export function patterns(scale) {
  const tile = (id, size, child, turn = 0) =>
    s(
      "pattern",
      {
        id,
        width: size,
        height: size,
        patternUnits: "userSpaceOnUse",
        patternTransform: `scale(${1 / scale}) rotate(${turn})`,
      },
      child,
    );
  return s(
    "defs",
    {},
    tile("stripes", 7, s("path", { d: "M0 0H3V7H0Z" }), 45),
    tile("dots", 8, s("circle", { cx: 4, cy: 4, r: 2 })),
    tile("checks", 9, s("path", { d: "M0 0H9V2H2V9H0Z" })),
  );
}

const PATHS = {
  undo: "M5 3 2 6l3 3M2 6h6.5a4 4 0 0 1 0 8H6",
  play: "M4 2.5v11l9-5.5z",
  stop: "M4 4h8v8H4z",
  loop: "M11 2l2.5 2.5L11 7M13 4.5H5A2.5 2.5 0 0 0 2.5 7v.5M5 14l-2.5-2.5L5 9M3 11.5h8A2.5 2.5 0 0 0 13.500 9v-.5",
  band: "M2 5h12M2 11h12M4 8h1m2-1.500v3M9.500 6.500v3M12 8h.5",
  check: "M3 8.500l3.200 3.200L13 4.800",
  cross: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2 5.500V2h3.500M10.500 2H14v3.500M14 10.500V14h-3.500M5.500 14H2v-3.500",
  back: "M10 3 5 8l5 5",
  on: "M6 3l5 5-5 5",
  cut: "M8 1.500v13M5 5 2 8l3 3M11 5l3 3-3 3",
  join: "M8 1.500v13M1.500 8H6M4 5.500 6.500 8 4 10.500M14.500 8H10M12 5.500 9.500 8l2.500 2.500",
  bin: "M2.500 4.500h11M6 4.500V2.500h4v2M4 4.500l.7 9h6.600l.7-9M6.700 7v4M9.300 7v4",
  pen: "M3 13l.7-3L11 2.700 13.300 5 6 12.300z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  out: "M8 10V2M5 4.500 8 1.500l3 3M2.500 9v5h11V9",
  person:
    "M8 2a2.800 2.800 0 1 0 0 5.600A2.800 2.800 0 0 0 8 2M2.500 14c.5-3 2.700-4.500 5.500-4.500s5 1.500 5.500 4.500",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9M10.500 10.500 14 14",
  learn: "M13.500 8a5.500 5.500 0 1 1-1.600-3.900M13.500 1.500v3h-3",
  dice: "M3 3h10v10H3zM5.800 5.800h.01M10.200 10.200h.01M8 8h.01M10.200 5.800h.01M5.800 10.200h.01",
};

export const icon = (name) =>
  s(
    "svg",
    { class: `icon ${name}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    s("path", { d: PATHS[name] }),
  );

export function button(text, { icon: name, key, hint, on, ...rest } = {}) {
  const { class: kind = "", ...others } = rest;
  return h(
    "button",
    { type: "button", class: `button ${kind}`, title: hint, on: { click: on }, ...others },
    name && icon(name),
    text && h("span", { class: "words" }, text),
    key && h("kbd", { "aria-hidden": "true" }, key),
  );
}

// A button of which only the picture is seen.
export const iconButton = (name, label, on, rest = {}) =>
  h(
    "button",
    { type: "button", class: "button bare", title: label, "aria-label": label, on: { click: on }, ...rest },
    icon(name),
  );

// Choices as pairs of value and text, or as an object where no value can look like a number (objects sort these first).
export function select(choices, value, on, rest = {}) {
  const pairs = Array.isArray(choices) ? choices : Object.entries(choices);
  const box = h(
    "select",
    { ...rest, on: { change: () => on(box.value) } },
    pairs.map(([name, text]) => h("option", { value: name }, text)),
  );
  box.value = value;
  return box;
}

export function replace(host, ...children) {
  host.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return host;
}

export function dialog(title, close, content, { on } = {}) {
  const box = h(
    "dialog",
    { class: "dialog", "aria-label": title },
    h(
      "header",
      {},
      h("h2", {}, title),
      iconButton("cross", close, () => box.close()),
    ),
    content,
  );
  box.addEventListener("close", () => {
    box.remove();
    on?.();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

let announced = 0;
export function say(words) {
  const place = document.getElementById("say");
  clearTimeout(announced);
  announced = setTimeout(() => {
    place.textContent = words;
  }, 60);
}

export function toast(words, { kind = "", action, label, seconds = 6 } = {}) {
  const box = h(
    "div",
    { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" },
    h("span", {}, words),
    action && button(label, { class: "link", on: () => (box.remove(), action()) }),
    iconButton("cross", T.dismiss, () => box.remove()),
  );
  document.getElementById("toasts").append(box);
  if (seconds) setTimeout(() => box.remove(), 1000 * seconds);
  return box;
}
