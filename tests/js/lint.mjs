// Lint of the review page's modules without any package: node lint.mjs FOLDER prints what is wrong, one line each.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const modules = new Map(
  readdirSync(folder)
    .filter((name) => name.endsWith(".js"))
    .map((name) => [name, readFileSync(join(folder, name), "utf8")]),
);
const problems = [];

// What must not stand in the page: markup from strings, code from strings, addresses elsewhere, what was left from a search.
const FORBIDDEN = [
  [/\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b/, "sets markup; use h() or textContent"],
  [/\beval\s*\(|\bnew Function\b|set(Timeout|Interval)\(\s*["'`]/, "runs a string as code"],
  [/["'`]https?:\/\/(?!www\.w3\.org\/2000\/svg)/, "names another host"],
  [/\b(console\.\w+\s*\(|debugger\b|alert\s*\()/, "is left from a search for a mistake"],
  [/(^|[^=!<>])(==|!=)([^=]|$)/, "compares loosely; use === or !=="],
  [/^\s*var\s/, "declares with var; use const or let"],
];

// The code without comments; strings stay, since templates hold code.
const bare = (text) => text.replace(/\/\*[^]*?\*\//g, "").replace(/(^|[\s;{}])\/\/.*$/gm, "$1");
const count = (text, name) => text.match(new RegExp(`(?<![\\w$.])${name.replace("$", "\\$")}(?![\\w$])`, "g"))?.length ?? 0;

const exported = new Map();
const imported = new Map(); // module to the names that others take from it
for (const [name, text] of modules) {
  const code = bare(text);
  exported.set(name, new Set([...code.matchAll(/^export (?:async )?(?:const|let|function|class) (\w+)/gm)].map((m) => m[1])));
  code.split("\n").forEach((line, i) => {
    for (const [pattern, words] of FORBIDDEN) if (pattern.test(line)) problems.push(`${name}:${i + 1}: ${words}`);
  });
  for (const [, names, from] of code.matchAll(/^import \{([^}]*)\} from "\.\/([\w-]+\.js)";/gm)) {
    if (!imported.has(from)) imported.set(from, new Set());
    for (const part of names.split(",").map((each) => each.trim()).filter(Boolean)) {
      const [theirs, mine = theirs] = part.split(/\s+as\s+/);
      imported.get(from).add(theirs);
      if (count(code, mine) < 2) problems.push(`${name}: ${mine} is imported and not used`);
    }
  }
  for (const [, own] of code.matchAll(/^(?:const|let|function|async function|class) (\w+)/gm))
    if (count(code, own) < 2) problems.push(`${name}: ${own} is defined and not used`);
}
for (const [name, names] of imported)
  for (const each of names)
    if (!exported.get(name)?.has(each)) problems.push(`${each} is imported from ${name}, which does not export it`);
for (const [name, names] of exported)
  for (const each of names)
    if (!imported.get(name)?.has(each) && count(bare(modules.get(name)), each) < 2)
      problems.push(`${name}: ${each} is exported and not used`);

// A function of another module that is called here without being imported.
const everywhere = new Set([...exported.values()].flatMap((names) => [...names]));
for (const [name, text] of modules) {
  const code = bare(text);
  for (const each of everywhere) {
    const isCalled = new RegExp(`(?<![\\w$.])${each}\\(`).test(code);
    const isKnown = new RegExp(`(import \\{[^}]*|(const|let|function|class) )\\b${each}\\b|[({,]\\s*${each}\\s*[,})=]`).test(code);
    if (isCalled && !isKnown) problems.push(`${name}: ${each} is called and neither imported nor defined`);
  }
}

// The texts: each that is asked for is there, and each that is there is asked for.
const { T } = await import(pathToFileURL(join(folder, "texts.js")));
const used = new Set();
for (const [name, text] of modules)
  for (const [, key] of bare(text).matchAll(/\bT\.(\w+)/g)) {
    used.add(key);
    if (!(key in T)) problems.push(`${name}: there is no text T.${key}`);
  }
for (const key of Object.keys(T)) if (!used.has(key)) problems.push(`texts.js: T.${key} is not used`);

console.log(problems.join("\n"));
process.exitCode = problems.length ? 1 : 0;
