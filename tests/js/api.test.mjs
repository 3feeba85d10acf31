import assert from "node:assert/strict";
import test from "node:test";
import "./browser.mjs";

location.hash = "#key=secret";
const { get, media, post, Refused } = await import("./static/api.js");

const asked = [];
let reply = { status: 200, body: {} };
globalThis.fetch = async (path, options) => {
  asked.push([path, options]);
  if (reply === null) throw new TypeError("no network");
  return {
    ok: reply.status < 400,
    status: reply.status,
    statusText: "words",
    json: async () => {
      if (reply.body === undefined) throw new SyntaxError("no JSON");
      return reply.body;
    },
  };
};

test("the key of the address goes with each request, and empty parameters stay out", async () => {
  await get("/api/files", { search: "a b", limit: 0, label: "", bag: null, file: undefined });
  const [path, options] = asked.at(-1);
  assert.equal(path, "/api/files?search=a+b&limit=0");
  assert.equal(options.headers["X-Bagwise-Key"], "secret");
});

test("posts are JSON with the header of the page", async () => {
  await post("/api/undo");
  const [, { method, body, headers }] = asked.at(-1);
  assert.deepEqual([method, body], ["POST", "{}"]);
  assert.equal(headers["X-Bagwise"], "1");
  assert.equal(headers["X-Bagwise-Key"], "secret");
});

test("addresses of media take other parameters, lose some, and have the key", () => {
  assert.equal(media("/media/clip?file=a%20b.wav&low=3", { low: null, slow: 2 }), "/media/clip?file=a+b.wav&slow=2&key=secret");
});

test("errors are the server's words, or ours where it has none", async () => {
  reply = { status: 409, body: { error: "The model is being retrained." } };
  await assert.rejects(get("/api/run"), (error) => error instanceof Refused && error.status === 409 && /retrained/.test(error.message));
  reply = { status: 403, body: undefined };
  await assert.rejects(get("/api/run"), /no access/);
  reply = { status: 500, body: undefined };
  await assert.rejects(get("/api/run"), /500 words/);
  reply = null;
  await assert.rejects(get("/api/run"), (error) => error.status === 0 && /does not respond/.test(error.message));
});
