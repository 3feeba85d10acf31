// The server: JSON in and out, errors as words.
import { T } from "./texts.js";

// What lets this page in, besides the cookie, which goes to every port of the machine. It came in the address, behind the
// "#", and is kept for this origin alone. Read again each time: another window may have been let in since.
const PLACE = "bagwise-key";
let kept = "";

function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!given) return;
  kept = given;
  history.replaceState(null, "", location.pathname);
  try {
    localStorage.setItem(PLACE, given);
  } catch {
    // storage is switched off: this window alone is let in
  }
}
takeKey();

function key() {
  try {
    return localStorage.getItem(PLACE) ?? kept;
  } catch {
    return kept;
  }
}

export class Refused extends Error {
  constructor(words, status) {
    super(words);
    this.status = status;
  }
}

async function ask(path, options) {
  let reply;
  try {
    const headers = { "X-Bagwise-Key": key(), ...options?.headers };
    reply = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options, headers });
  } catch {
    throw new Refused(T.noReply, 0);
  }
  let said = null;
  try {
    said = await reply.json();
  } catch {
    said = null;
  }
  if (!reply.ok) {
    const words =
      said?.error ??
      (reply.status === 401 || reply.status === 403 ? T.notAllowed : `${reply.status} ${reply.statusText}`);
    throw new Refused(words, reply.status);
  }
  return said;
}

function address(path, query = {}) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parts.set(name, value);
  }
  const text = parts.toString();
  return text ? `${path}?${text}` : path;
}

// An address of media, which the server may have given, with parameters changed (null: left out) and with the key: pictures
// and sounds are asked for without headers.
export function media(given, query = {}) {
  const url = new URL(given, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  url.searchParams.set("key", key());
  return url.pathname + url.search;
}

export const get = (path, query) => ask(address(path, query));

export const post = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Bagwise": "1" },
    body: JSON.stringify(body),
  });
