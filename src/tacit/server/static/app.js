// The page: a question goes to the service, its answers come back, and the address keeps up.
import * as address from "./address.js";
import { answerRow, nothing, summary, waiting } from "./answers.js";
import { Completion } from "./completion.js";
import { Controls, forRequest } from "./controls.js";
import { Editor, coloured } from "./editor.js";
import { byId, element } from "./element.js";
import { Explore } from "./explore.js";
import * as service from "./service.js";
import { learn, quoted, variables } from "./syntax.js";

const results = byId("results");
const problem = byId("problem");
const editor = new Editor(byId("question"), byId("mirror"));
const controls = new Controls(byId("settings"), () => (state.query ? submit() : undefined));
const completion = new Completion(editor, byId("options"), () => submit());
const explore = new Explore(byId("entity"), byId("find"), () => restore());
let state = { query: "", settings: {}, top: 10, open: null };
let running = null;
let limits = { top: 1000 };
let reasons = null;

const body = () => ({ query: state.query, top: state.top, ...forRequest(state.settings) });
const phone = () => matchMedia("(max-width: 40rem)").matches;

function submit(change = {}) {
  const query = editor.text.trim();
  if (!query) return editor.area.focus();
  state = { query, settings: controls.get(), top: 10, open: null, ...change };
  address.write(state);
  return run();
}

async function run() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  reasons = null;
  completion.close();
  complain(null);
  document.title = state.query ? `${state.query} · Tacit` : "Tacit";
  byId("examples").classList.toggle("compact", Boolean(state.query));
  if (!state.query) return results.replaceChildren();
  results.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => results.replaceChildren(waiting()), 120);
  const start = performance.now();
  try {
    const reply = await service.ask(body(), signal);
    clearTimeout(slow);
    show(reply, performance.now() - start);
  } catch (error) {
    clearTimeout(slow);
    if (error.name === "AbortError") return undefined;
    results.replaceChildren();
    complain(error);
  } finally {
    if (!signal.aborted) results.setAttribute("aria-busy", "false");
  }
  return undefined;
}

function show(reply, milliseconds) {
  if (!reply.answers.length) {
    const known = reply.left_out;
    results.replaceChildren(known
      ? nothing("All answers are known.", `There ${known === 1 ? "is 1" : `are ${known}`}; nothing else fits.`)
      : nothing("No entity fits.", "Loosen the question, or let the search predict: beam and exact do."));
    return;
  }
  const list = element("ol", { class: "answers card" }, ...reply.answers.map((answer) => answerRow(answer, toggle)));
  list.addEventListener("keydown", walk);
  const more = reply.answers.length === state.top && state.top < limits.top;
  results.replaceChildren(
    summary(reply, milliseconds, share),
    list,
    ...(more ? [element("button", { type: "button", class: "quiet more", onclick: () => submit({ top: Math.min(limits.top, state.top * 3) }) }, "More answers")] : []),
    planBox(),
  );
  if (state.open) unfold(state.open);
}

function planBox() {
  const text = element("pre", { tabindex: "0" }, "…");
  return element("details", { class: "plan", ontoggle: async () => {
    try {
      text.textContent = (await service.plan(body())).plan;
    } catch (error) {
      text.textContent = error.message;
    }
  } }, element("summary", {}, "How it is answered"), text);
}

function toggle(entity) {
  const same = state.open === entity;
  state.open = same ? null : entity;
  address.write(state, true);
  results.querySelectorAll(".why").forEach((box) => box.remove());
  results.querySelectorAll(".answer").forEach((button) => button.setAttribute("aria-expanded", "false"));
  if (!same) unfold(entity);
}

async function unfold(entity) {
  const row = [...results.querySelectorAll(".answers > li")].find((item) => item.dataset.entity === entity);
  if (!row) return;
  row.querySelector(".answer").setAttribute("aria-expanded", "true");
  const box = element("div", { class: "why", "aria-busy": "true" }, "Looking for the reason …");
  row.append(box);
  reasons ??= service.explain(body());
  try {
    const [{ reason }, { answers, certified }] = await Promise.all([import("./reason.js"), reasons]);
    const answer = answers.find((each) => each.entity === entity);
    const target = variables(state.query)[0]?.slice(1) ?? "";
    box.replaceWith(reason(answer, target, row.clientWidth - (phone() ? 24 : 36), certified, exactly));
  } catch (error) {
    reasons = null;
    box.textContent = error.message;
  }
}

function exactly() {
  controls.set({ ...state.settings, search: "exact" });
  submit();
}

function walk(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...results.querySelectorAll(".answer")];
  const next = buttons[buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

async function share(event) {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy it from the address bar";
  }
  setTimeout(() => { button.textContent = "Copy link"; }, 2000);
}

function complain(error) {
  problem.hidden = !error;
  editor.area.toggleAttribute("aria-invalid", Boolean(error));
  byId("key").hidden = error?.status !== 401;
  if (!error) return;
  const mend = error.suggestions.map((name) => element("button", { type: "button", onclick: () => correct(name) }, name));
  const said = mend.length ? error.message.replace(/(; did you mean) '.*$/s, "$1") : error.message; // the buttons name them
  problem.replaceChildren(said, ...mend);
  if (error.column) editor.mark(error.line ?? 1, error.column);
}

function correct(name) {
  const { start, end } = editor.marked;
  editor.replace(start, end, quoted(name));
  submit();
}

function restore() {
  if (explore.restore(() => JSON.stringify(address.read()) === JSON.stringify(state))) return undefined;
  state = address.read();
  editor.text = state.query;
  controls.set(state.settings);
  return run();
}

async function offer() {
  const { examples } = await service.examples();
  const chips = examples.map(({ query, title }) =>
    element("li", {}, element("button", { type: "button", class: "chip", onclick: () => { editor.text = query; submit(); } },
      element("small", {}, title), element("code", {}, ...coloured(query)))));
  byId("examples").replaceChildren(element("h2", {}, "Questions to start with"), element("ul", { class: "chips" }, ...chips));
  byId("examples").hidden = !chips.length;
}

async function start() {
  try {
    const about = await service.health();
    limits = about.limits;
    learn(about.syntax);
    editor.draw();
    const count = (name) => `${about.graph[name].toLocaleString("en")} ${name}`;
    byId("graph").replaceChildren(about.graph.name, element("span", {}, ` · ${count("entities")} · ${count("relations")} · ${count("facts")}`));
    controls.learn(about);
    await offer();
    await restore();
  } catch (error) {
    complain(error);
  }
  document.documentElement.dataset.ready = "true";
}

byId("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
byId("key").addEventListener("submit", (event) => { event.preventDefault(); service.useKey(byId("secret").value); start(); });
byId("home").addEventListener("click", (event) => { event.preventDefault(); history.pushState(null, "", "/"); restore(); editor.area.focus(); });
addEventListener("popstate", restore);
start();
