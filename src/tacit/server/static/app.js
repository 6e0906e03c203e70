// The page: a question goes to the service, its answers come back, and the address keeps up.
import * as address from "./address.js";
import { AskedBefore } from "./asked_before.js";
import { Builder } from "./builder.js";
import { Completion } from "./completion.js";
import { Controls, forRequest } from "./controls.js";
import { Editor, coloured } from "./editor.js";
import { button, byId, element } from "./element.js";
import { Explore } from "./explore.js";
import { addressOf, attributeLink } from "./links.js";
import * as service from "./service.js";
import { learn, quoted, tokens } from "./syntax.js";

const PAUSE = 250; // milliseconds without a letter after which a text is read
const problem = byId("problem");
const editor = new Editor(byId("question"), byId("mirror"));
const controls = new Controls(byId("form"), () => (state.query ? submit() : undefined));
const completion = new Completion(editor, byId("options"), () => submit());
const explore = new Explore(byId("entity"), byId("find"), () => restore());
const builder = new Builder(byId("builder"), (text) => { editor.text = text; complain(null); understand(false, 0); });
const before = new AskedBefore(byId("before"), (query) => { write(query); submit(); });
let state = { query: "", settings: {}, top: 10, open: null };
let running = null;
let starts = 0;
let reading = null;
let unread = null; // the timer of a text that is not read yet
let understood = Promise.resolve(); // once the text is read, or another is
let results = null; // loaded with the first question, since the first sight of the page needs no answers
const limits = { top: 1000, paths: 1 };

async function resultsShown() {
  const { Results } = await import("./results.js");
  results ??= new Results(byId("results"), byId("status"), limits, {
    opened: (open) => { state.open = open; address.write(state, true); },
    grown: (top) => { state.top = top; address.write(state, true); },
    exactly: () => { controls.set({ ...state.settings, search: "exact" }); submit(); },
    sparql: async () => (await service.read(state.query)).sparql,
  });
  return results;
}

const body = () => ({ query: state.query, top: state.top, ...forRequest(state.settings) });

/** Put a text into the box, and the builder in step with it. */
function write(text) {
  editor.text = text;
  understand(true, 0);
}

/** Read the text in the box: the sentence follows it, and the builder where the text was not its own. */
function understand(draw, pause = PAUSE) {
  reading?.abort();
  reading = new AbortController();
  const { signal } = reading;
  const text = editor.text.trim();
  byId("sentence").setAttribute("aria-busy", "true");
  clearTimeout(unread);
  understood = new Promise((done) => {
    signal.addEventListener("abort", done);
    unread = setTimeout(() => { unread = null; follow(text, draw, signal).finally(done); }, pause);
  });
}

async function follow(text, draw, signal) {
  const { outline, undrawable, sentence = null, failed } = text ? await service.read(text, signal).catch(() => ({ failed: true })) : {};
  if (signal.aborted) return;
  say(sentence); // what is being typed is seldom whole
  if (draw && !failed) builder.show(outline ?? null, undrawable);
  if (state.query === text && sentence) before.add(text, sentence);
}

/** Say the question in words, or what is wanted where there is none. */
function say(sentence) {
  byId("sentence").textContent = sentence ?? "What are you looking for?";
  byId("sentence").classList.toggle("none", sentence === null);
  byId("sentence").setAttribute("aria-busy", "false");
}

function submit(change = {}) {
  const query = editor.text.trim();
  if (!query) return editor.area.focus();
  if (unread) understand(true, 0); // the builder grows before the answers below it are there
  state = { query, settings: { ...controls.get(), ...(state.settings.run ? { run: state.settings.run } : {}) }, top: 10, open: null, ...change };
  address.write(state);
  return run();
}

async function run() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  completion.close();
  complain(null);
  document.title = state.query ? `${state.query} · Tacit` : "Tacit";
  byId("examples").classList.toggle("compact", Boolean(state.query));
  if (!state.query) return results?.clear();
  const [asked, start, open] = [body(), performance.now(), state.open];
  await resultsShown();
  if (signal.aborted) return undefined;
  results.busy(start, () => { running.abort(); editor.area.focus(); });
  try {
    const reply = await service.ask(asked, signal);
    const taken = performance.now() - start;
    await understood; // the builder stands above the answers, and would move them as it grows
    if (signal.aborted) return undefined;
    results.show(reply, asked, taken, open);
    before.add(asked.query);
  } catch (error) {
    if (signal.aborted) return undefined;
    results.clear();
    complain(error, asked.query);
  }
  return undefined;
}

/** Say what is wrong; `query` is what it is wrong with, which may have been changed meanwhile. */
function complain(error, query = null) {
  const current = query === editor.text.trim();
  problem.hidden = !error;
  if (error && current) editor.area.setAttribute("aria-invalid", "true");
  else editor.area.removeAttribute("aria-invalid");
  askForKey(error);
  if (!error) return;
  const alone = current && !tokens(query).some(({ text }) => text === "{"); // in SPARQL a name is but a part of what is underlined
  const mend = alone ? error.suggestions.map((name) => button({ onclick: () => correct(name) }, name)) : [];
  const said = mend.length ? error.message.replace(/(; did you mean) '.*$/s, "$1") : error.message; // the buttons name them
  problem.replaceChildren(said, ...mend);
  if (current && error.column) editor.mark(error.line ?? 1, error.column);
}

function askForKey(error) {
  const needed = error?.status === 401;
  const wrong = needed && error.message.startsWith("this is not the key");
  byId("key").hidden = !needed;
  byId("wrong-key").textContent = wrong ? "This is not the key of the service." : "";
  if (wrong) byId("secret").setAttribute("aria-invalid", "true");
  else byId("secret").removeAttribute("aria-invalid");
  if (needed) byId("secret").focus();
}

function correct(name) {
  if (!editor.marked) return;
  const { start, end } = editor.marked;
  editor.replace(start, end, quoted(name));
  submit();
}

/** Show what the address says, of the run that it names. */
function restore() {
  if (service.usedRun() !== (address.read().settings.run ?? null)) return start();
  if (explore.restore(() => JSON.stringify(address.read()) === JSON.stringify(state))) return undefined;
  state = address.read();
  write(state.query);
  controls.set(state.settings);
  return run();
}

async function offer() {
  const { examples } = await service.examples();
  const chips = examples.map(({ query, title }) =>
    element("li", {}, button({ class: "chip", onclick: () => { write(query); submit(); } },
      element("span", {}, title), element("code", {}, ...coloured(query)))));
  byId("examples").replaceChildren(element("h2", {}, "Questions to start with"), element("ul", { class: "chips" }, ...chips));
  byId("examples").hidden = !chips.length;
  const { hasAttributes, names } = service;
  const attributes = hasAttributes() ? await names("attributes", "") : [];
  byId("attributes").replaceChildren("Numbers and dates: ", ...attributes.flatMap(({ label, words }, place) => [place ? ", " : null, attributeLink(label, words)].filter(Boolean)));
  byId("attributes").hidden = !attributes.length;
}

/** Let people choose among the runs that are served, where there are several. */
function offerRuns({ run, runs = [] }) {
  const select = byId("run");
  select.replaceChildren(...runs.map((name) => element("option", { value: name }, name)));
  select.hidden = runs.length < 2;
  select.value = run ?? "";
}

async function start() {
  document.documentElement.removeAttribute("data-ready");
  service.useRun(address.read().settings.run ?? null);
  byId("home").href = addressOf({});
  byId("rules").href = addressOf({}).replace("/", "/static/rules.html");
  const mine = (starts += 1);
  try {
    const about = await service.health();
    if (mine !== starts) return; // another run was chosen meanwhile
    before.use(about.run);
    offerRuns(about);
    Object.assign(limits, about.limits);
    learn(about.syntax);
    editor.draw();
    if (service.hasAttributes()) await builder.learn();
    else builder.draw();
    const count = (name) => `${about.graph[name].toLocaleString("en")} ${name}`;
    byId("graph").replaceChildren(about.graph.name, element("span", {}, ` · ${count("entities")} · ${count("relations")} · ${count("facts")}${about.model && about.model === about.encoder ? ` · ${about.model}` : ""}`));
    controls.learn(about);
    await offer();
    await restore();
  } catch (error) {
    complain(error);
  }
  document.documentElement.dataset.ready = "true";
}

editor.area.addEventListener("input", () => {
  editor.area.removeAttribute("aria-invalid");
  problem.hidden = true;
  understand(true);
});
byId("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
byId("run").addEventListener("change", (event) => { address.write({ ...state, settings: { ...state.settings, run: event.target.value }, open: null }); start(); });
byId("key").addEventListener("submit", (event) => { event.preventDefault(); service.useKey(byId("secret").value); start(); });
byId("home").addEventListener("click", (event) => { event.preventDefault(); history.pushState(null, "", addressOf({})); restore(); editor.area.focus(); });
addEventListener("popstate", restore);
start();
