import assert from "node:assert/strict";
import test from "node:test";
import "./browser.mjs";

const { ticks } = await import("./static/timeline.js");

test("ticks are round, inside, evenly spaced and about as many as asked for", () => {
  for (const [from, to] of [[0, 1], [0, 11.025], [3.217, 3.331], [-5, 1e6], [59.9, 60.1]])
    for (const n of [1, 3, 6, 20]) {
      const found = ticks(from, to, n);
      assert.ok(found.length <= n + 1, `${found}`);
      assert.ok(found.every((tick) => tick >= from && tick <= to + 1e-9 * (to - from)), `${found}`);
      const steps = found.slice(1).map((tick, i) => tick - found[i]);
      assert.ok(steps.every((step) => Math.abs(step - steps[0]) < 1e-6 * steps[0]), `${found}`);
      if (steps.length) assert.match((steps[0] / 10 ** Math.floor(Math.log10(steps[0] * 1.0000001))).toFixed(3), /^(1|2|5)\.000$/);
    }
  assert.deepEqual(ticks(0, 1, 4), [0, 0.5, 1]);
});
