// The ranked answers, each with a score bar and a mark.
import { element } from "./element.js";
import { entityLink } from "./links.js";
import { shown } from "./words.js";

export function answerRow(answer, toggle) {
  const mark = answer.known ? "known" : "predicted";
  const fill = element("i");
  fill.style.width = `${Math.max(0, Math.min(1, answer.score)) * 100}%`;
  const button = element(
    "button",
    { type: "button", class: "answer", "aria-expanded": "false", onclick: () => toggle(answer.entity) },
    element("span", { class: "rank" }, String(answer.rank)),
    element("span", { class: "name", title: answer.entity }, answer.name || answer.entity),
    element("span", { class: `mark ${mark}`, title: answer.known ? "The facts of the graph imply it" : "Not among the facts: predicted" }, mark),
    element("span", { class: `score-bar ${mark}`, "aria-hidden": "true" }, fill),
    element("span", { class: "score" }, shown(answer.score)),
    element("span", { class: "turn", "aria-hidden": "true" }),
  );
  const name = answer.name || answer.entity;
  const visit = entityLink(answer.entity, "→", { class: "visit", title: `Open the page of ${name}`, "aria-label": `Open the page of ${name}` });
  return element("li", { "data-entity": answer.entity }, button, answer.entity === undefined ? null : visit);
}

export function summary(reply, milliseconds, share) {
  const count = reply.answers.length;
  const known = reply.answers.filter((answer) => answer.known).length;
  return element(
    "div",
    { class: "summary" },
    element("h2", {}, `${count} ${count === 1 ? "answer" : "answers"}`),
    element("span", {}, told(reply, known), element("span", { class: "time" }, ` · ${Math.round(milliseconds)} ms`)),
    element("button", { type: "button", class: "quiet", onclick: share }, "Copy link"),
  );
}

const told = ({ answers, left_out: leftOut }, known) =>
  leftOut === undefined ? `${known} known, ${answers.length - known} predicted` : `${answers.length} predicted, ${leftOut} known left out`;

export const waiting = () =>
  element("ol", { class: "answers card waiting", "aria-label": "Asking" }, ...[62, 45, 53, 38].map((width) => {
    const line = element("i");
    line.style.width = `${width}%`;
    return element("li", {}, line);
  }));

export const nothing = (title, advice) => element("div", { class: "card nothing" }, element("b", {}, title), advice);
