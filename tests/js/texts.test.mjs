import assert from "node:assert/strict";
import test from "node:test";
import { T, number, percent } from "./static/texts.js";

test("numbers are grouped, probabilities are percent, and what is unknown is nothing", () => {
  assert.equal(number(12345), "12,345");
  assert.equal(percent(0.954), "95 %");
  assert.equal(percent(0), "0 %");
  assert.equal(percent(null), "");
  assert.equal(percent(undefined), "");
});

test("one is singular", () => {
  assert.equal(T.undone(1), "Undone: 1 answer");
  assert.equal(T.undone(2), "Undone: 2 answers");
  assert.equal(T.rows(3, 3), "3 instances");
  assert.equal(T.rows(3, 5000), "The first 3 of 5,000");
});

test("a sample is reported with its interval and its size", () => {
  assert.equal(
    T.quote("wren", 0.93, 0.861, 0.971, 100),
    "wren: 93 % right (95 % interval 86 to 97 %), from a random sample of 100.",
  );
  assert.match(T.quote(null, 1, 0.5, 1, 3), /^All labels: 100 % right/);
});

test("texts are whole sentences or names: no gaps, no double spaces", () => {
  const walk = (value) => {
    if (typeof value === "string") assert.ok(value.trim() === value && !value.includes("  "), value);
    else if (Array.isArray(value)) value.forEach(walk);
    else if (value && typeof value === "object") Object.values(value).forEach(walk);
  };
  walk(T);
});
