// The question, its settings and the open answer live in the address, so that it can be shared and gone back to.
const SETTINGS = ["run", "search", "k", "logic", "observed", "new"];

export function read() {
  const given = new URLSearchParams(location.search);
  const settings = Object.fromEntries(SETTINGS.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
  const top = Number.parseInt(given.get("top") ?? "10", 10);
  return { query: given.get("q") ?? "", settings, top: top > 0 ? top : 10, open: given.get("open") };
}

export function write({ query, settings, top, open }, replace = false) {
  const parts = new URLSearchParams();
  if (query) parts.set("q", query);
  for (const name of SETTINGS) if (settings[name] !== undefined) parts.set(name, settings[name]);
  if (top !== 10) parts.set("top", String(top));
  if (open) parts.set("open", open);
  const address = parts.size ? `?${parts}` : "/";
  if (replace || address === location.search) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
}
