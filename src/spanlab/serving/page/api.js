// Requests to the server this page is from, and the curl commands that do the same.

const KEY = "spanlab-key";

export class ApiError extends Error {
  constructor(status, code, message, where) {
    super(message);
    Object.assign(this, { status, code, where });
  }
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** The answer to a GET, or to a POST of `body`; whatever goes wrong is an `ApiError` in words. */
export async function request(path, body) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new ApiError(0, "unreachable", "The server does not answer. Is it still running?", null);
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    if (response.ok) throw new ApiError(response.status, "unreadable", "The server's answer is not JSON.", null);
  }
  if (response.ok) return answer;
  const error = answer?.error ?? {};
  throw new ApiError(response.status, error.code ?? "error", error.message ?? `The server answered with status ${response.status}.`, error.where);
}

/** The command for a POSIX shell that sends the same request. */
export function curl(path, body) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const key = sessionStorage.getItem(KEY) ? " \\\n  -H \"Authorization: Bearer $SPANLAB_KEY\"" : "";
  return `curl -s ${quote(new URL(path, document.baseURI).href)}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(body))}`;
}

/** The path of a route, asked of one model by name. */
export const ofModel = (path, model) => `${path}?model=${encodeURIComponent(model)}`;
