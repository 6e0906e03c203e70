// The answers, ranked, each with a score bar and a mark; a line says where the sensible ones end.
import { button, element } from "./element.js";
import { entityLink } from "./links.js";
import { shown, words } from "./words.js";

const LIKELY = 0.5; // where the service does not say
const NOTHING = 1e-6; // answers of lower scores, such as those of no rule, only fill a list

/** How the entities of answers are called: by name, with the label behind one that several of them share. */
function naming(answers) {
  const meant = new Map();
  for (const { values = {}, names = values } of answers) {
    for (const [variable, label] of Object.entries(values)) meant.set(names[variable], (meant.get(names[variable]) ?? new Set()).add(label));
  }
  return (label, name) => (meant.get(name)?.size > 1 ? `${name} (${label})` : name);
}

/** The values of attributes that an answer shows; predicted ones look like it. */
const quantities = ({ quantities: shown = {} }) => Object.entries(shown).flatMap(([name, value]) => [" ",
  element("span", { class: `quantity ${value && !value.known ? "guessed" : ""}`, title: value ? `${value.attribute}, ${value.known ? "known" : "predicted"}` : null }, element("small", {}, name.startsWith("?") || !value ? name : words(value.attribute)), " ", value?.text ?? "unknown")]);

/** What an answer says: an entity, a value for each of several variables, or yes and no. */
function said(answer, called) {
  const shown = quantities(answer);
  if (answer.entity !== undefined) return [element("span", { class: "name", title: answer.entity }, called(answer.entity, answer.name || answer.entity), ...shown)];
  const values = Object.entries(answer.values ?? {});
  if (!values.length && shown.length) return [element("span", { class: "name value-alone" }, ...shown)];
  if (!values.length) return [element("span", { class: "name" }, `${answer.known ? "" : "probably "}${answer.score < 0.5 ? "no" : "yes"}`)];
  return [element("span", { class: "name several" }, ...values.map(([name, value]) => element("span", { title: value }, element("small", {}, `?${name}`), called(value, answer.names?.[name] || value))), ...shown)];
}

/** The way to the page of each entity of an answer. */
function visits(answer, kind) {
  const named = kind === "relations" ? [] : answer.entity === undefined ? Object.entries(answer.values ?? {}).map(([name, label]) => [label, answer.names?.[name] || label]) : [[answer.entity, answer.name || answer.entity]];
  const links = named.map(([label, name]) => entityLink(label, "→", { class: "visit", title: `Open the page of ${name}`, "aria-label": `Open the page of ${name}` }));
  return links.length > 1 ? element("span", { class: "visits" }, ...links) : links[0] ?? null;
}

function answerRow(answer, kind, called, toggle) {
  const mark = answer.known ? "known" : "predicted";
  const fill = element("i");
  fill.style.width = `${Math.max(0, Math.min(1, answer.score)) * 100}%`;
  const row = button(
    { class: "answer", "aria-expanded": "false", onclick: () => toggle(answer.rank) },
    element("span", { class: "rank" }, String(answer.rank)),
    ...said(answer, called),
    element("span", { class: `mark ${mark}`, title: answer.known ? "The facts of the graph imply it" : "Not among the facts: predicted" }, mark),
    element("span", { class: `score-bar ${mark}`, "aria-hidden": "true" }, fill),
    element("span", { class: "score" }, shown(answer.score)),
    element("span", { class: "turn", "aria-hidden": "true" }),
  );
  return element("li", { "data-rank": answer.rank, "data-entity": answer.entity }, row, visits(answer, kind));
}

/** The rows of answers that follow others, with lines above the first that probably does not hold and the first that scores next to nothing. */
export function rows(answers, before, { kind, threshold = LIKELY, uncalibrated }, toggle) {
  const called = naming([...before, ...answers]);
  const drawn = answers.map((answer) => answerRow(answer, kind, called, toggle));
  if (kind === "truth" || uncalibrated) return drawn; // yes or no says it itself
  const cuts = new Map(); // the last line at a place is the only one there
  for (const [least, text] of [[threshold, "probably not, below here"], [NOTHING, "next to nothing, below here"]]) {
    const under = (answer) => answer.score < least;
    if (!before.some(under)) cuts.set(answers.findIndex(under), text);
  }
  for (const [place, text] of [...cuts].reverse()) if (place >= 0) drawn.splice(place, 0, element("li", { class: "cut" }, element("span", {}, text)));
  return drawn;
}

/** How many answers there are, in words. */
export function told({ answers, left_out: leftOut, known_total: total, known_at_least: least }) {
  const known = answers.filter((answer) => answer.known).length;
  if (leftOut !== undefined && leftOut !== null) return `${answers.length} predicted, ${least ? "at least " : ""}${leftOut} known left out`;
  const all = total > known ? ` of ${least ? "at least " : ""}${total}` : "";
  return `${known}${all} known, ${answers.length - known} predicted`;
}

export const counted = (count) => `${count} ${count === 1 ? "answer" : "answers"}`;

export function summary(reply, milliseconds, share) {
  const took = milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
  return element(
    "div",
    { class: "summary" },
    element("h2", {}, reply.kind === "truth" ? (reply.quantities?.length ? "Value" : "Yes or no") : counted(reply.answers.length)),
    element("span", {}, element("span", { class: "told" }, told(reply)), element("span", { class: "time" }, ` · ${took}`)),
    button({ class: "quiet", onclick: share }, "Copy link"),
  );
}

/** Word that scores are no probabilities, where they are none, or estimates, and of IRIs that the graph does not have. */
export const warned = ({ uncalibrated, estimated, unknown = [] }) =>
  [uncalibrated, estimated && "Scores are estimates: the sums that they are shares of were sampled.", ...unknown].filter(Boolean).map((word) => element("p", { class: "uncalibrated" }, word));

export const estimate = ({ expected }) => `About ${Number(expected.toFixed(1))}`;

/** The reply to a question for a number. */
export const countCard = ({ known, expected }) =>
  element("div", { class: "card nothing" }, element("b", {}, estimate({ expected })), `${known} known; the rest is what predictions add up to.`);

/** What is seen while a question is being answered, with the seconds it has taken, and the way to stop it. */
export function waiting(start, cancel) {
  const clock = element("span", { "aria-hidden": "true" }, "Asking …");
  const timer = setInterval(() => {
    if (clock.isConnected) clock.textContent = `Asking … ${((performance.now() - start) / 1000).toFixed(1)} s`;
  }, 100);
  const lines = [62, 45, 53, 38].map((width) => {
    const line = element("i");
    line.style.width = `${width}%`;
    return element("li", {}, line);
  });
  const nodes = [element("div", { class: "summary" }, clock, button({ class: "quiet", onclick: cancel }, "Cancel")), element("ol", { class: "answers card waiting", "aria-label": "Asking" }, ...lines)];
  return { nodes, stop: () => clearInterval(timer) };
}

export const nothing = (title, advice) => element("div", { class: "card nothing" }, element("b", {}, title), advice);
