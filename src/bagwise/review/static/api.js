// The server: JSON in and out, errors as words.
import { T } from "./texts.js";

export class Refused extends Error {
  constructor(words, status) {
    super(words);
    this.status = status;
  }
}

async function ask(path, options) {
  let reply;
  try {
    reply = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
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

export function address(path, query = {}) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parts.set(name, value);
  }
  const text = parts.toString();
  return text ? `${path}?${text}` : path;
}

// Another reading of an address that the server gave, with some of its parameters changed.
export function changed(given, query) {
  const url = new URL(given, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  return url.pathname + url.search;
}

export const get = (path, query) => ask(address(path, query));

export const post = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Bagwise": "1" },
    body: JSON.stringify(body),
  });
