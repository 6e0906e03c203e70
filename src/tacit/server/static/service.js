// Every request to the service, and its errors as objects with a message and perhaps a place.
export class Refused extends Error {
  constructor(status, detail) {
    super(detail.message);
    Object.assign(this, { status, line: detail.line, column: detail.column, suggestions: detail.suggestions ?? [] });
  }
}

const KEY = "tacit-key";
export const useKey = (key) => sessionStorage.setItem(KEY, key);

async function request(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(options.headers ?? {}), ...(key ? { "X-API-Key": key } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "the service cannot be reached; is it still running?" });
  }
  const data = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error; // another question came while the reply was on its way
    throw new Refused(response.status, { message: `the service answered ${response.status} and nothing to read` });
  });
  if (!response.ok) throw new Refused(response.status, data.error);
  return data;
}

const post = (path, body, signal) =>
  request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });

export const ask = (question, signal) => post("/ask", question, signal);
export const explain = (question, signal) => post("/explain", question, signal);
export const plan = ({ top, ...question }, signal) => post("/plan", question, signal);
export const health = () => request("/health");
export const examples = () => request("/examples");
export const names = (kind, typed, signal) =>
  request(`/${kind}?limit=8&q=${encodeURIComponent(typed.slice(0, 200))}`, { signal });
const about = (path) => (label, more, signal) => request(`${path}?${new URLSearchParams({ label, ...more })}`, { signal });
export const entity = about("/entity");
export const predictions = about("/entity/predictions");
