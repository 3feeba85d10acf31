// What modules ask of a browser when they are loaded: no document to draw in, since only their pure parts are tested here.
const stored = new Map();
globalThis.location = { hash: "", pathname: "/", origin: "http://127.0.0.1:1" };
globalThis.history = { replaceState() {}, pushState() {} };
globalThis.localStorage = { getItem: (name) => stored.get(name) ?? null, setItem: (name, value) => stored.set(name, value) };
globalThis.window = { addEventListener() {} };
globalThis.document = { addEventListener() {}, hidden: false };
