// Every request to the service, and its errors as objects with a message and perhaps a place.
export class Refused extends Error {
  constructor(status, detail) {
    super(detail.message);
    Object.assign(this, { status, line: detail.line, column: detail.column, suggestions: detail.suggestions ?? [], name: "Refused" });
  }
}

const KEY = "tacit-key";
export const useKey = (key) => sessionStorage.setItem(KEY, key);
let run = null; // by its name, where several are served
export const keyed = () => sessionStorage.getItem(KEY) !== null;
export const useRun = (name) => { run = name; };
export const usedRun = () => run;
export const address = (path) => (run === null ? path : `${path}${path.includes("?") ? "&" : "?"}run=${encodeURIComponent(run)}`);

function refuse(key) {
  if (sessionStorage.getItem(KEY) === key) sessionStorage.removeItem(KEY); // another may have been typed since
  throw new Refused(401, { message: "this is not the key of the service; look for a letter too many, or one too few" });
}

async function request(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  if (key && /[^ -~]/.test(key)) refuse(key); // no header can hold it
  const headers = { ...(options.headers ?? {}), ...(key ? { "X-API-Key": key } : {}) };
  let response;
  try {
    response = await fetch(address(path), { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "the service cannot be reached; is it still running?" });
  }
  const data = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error; // another question came while the reply was on its way
    throw new Refused(response.status, { message: `the service answered ${response.status} and nothing to read` });
  });
  if (response.status === 401 && key) refuse(key);
  if (!response.ok) throw new Refused(response.status, data.error);
  return data;
}

const post = (path, body, signal) =>
  request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });

let most = Infinity; // answers that the service lists
let attributes = 0; // of the graph
export const hasAttributes = () => attributes > 0;
const allowed = (count) => Math.min(count, most);
export const ask = (question, signal) => post("/ask", { ...question, top: allowed(question.top) }, signal);
export const explain = (question, signal) => post("/explain", question, signal);
export const plan = ({ top, ...question }, signal) => post("/plan", question, signal);
export const read = (query, signal) => post("/read", { query }, signal);
export async function health() {
  const about = await request("/health");
  most = about.limits.top;
  attributes = about.graph.attributes ?? 0;
  return about;
}
export const examples = () => request("/examples");
export const rules = (filters) => request(`/rules?${new URLSearchParams(filters)}`);
const about = (path) => (label, { limit, ...more }, signal) =>
  request(`${path}?${new URLSearchParams({ label, limit: allowed(limit), ...more })}`, { signal });
export const entity = about("/entity");
export const predictions = about("/entity/predictions");
export const attribute = about("/attribute");
export const values = (label, signal) => request(`/entity/values?${new URLSearchParams({ label })}`, { signal });
/** Names that complete what was typed, each with a note where it is not the label; those first that are `near`, at an end of a relation's facts. */
export async function names(kind, typed, signal, near = null) {
  const { matches } = await request(`/${kind}?${new URLSearchParams({ limit: 8, q: typed.slice(0, 200), ...near })}`, { signal });
  return matches.map((match) => ({ ...match, note: match.name === match.label ? "" : match.label }));
}
