// The ranked answers, each with a score bar and a mark, and the reason below the one that is open.
import { element } from "./element.js";
import { drawing, legend } from "./reason.js";

export const shown = (score) => (score > 0 && score < 0.0005 ? "<0.001" : score.toFixed(3));

export function answerRow(answer, toggle) {
  const mark = answer.known ? "known" : "predicted";
  const fill = element("i");
  fill.style.width = `${Math.max(0, Math.min(1, answer.score)) * 100}%`;
  const button = element(
    "button",
    { type: "button", class: "answer", "aria-expanded": "false", onclick: () => toggle(answer.entity) },
    element("span", { class: "rank" }, String(answer.rank)),
    element("span", { class: "name" }, answer.entity),
    element("span", { class: `mark ${mark}`, title: answer.known ? "The facts of the graph imply it" : "Not among the facts: predicted" }, mark),
    element("span", { class: `score-bar ${mark}`, "aria-hidden": "true" }, fill),
    element("span", { class: "score" }, shown(answer.score)),
    element("span", { class: "turn", "aria-hidden": "true" }),
  );
  return element("li", { "data-entity": answer.entity }, button);
}

/** Whether the search may have missed better answers, and the way to find them. */
function verdict(certified, exactly) {
  if (certified === null) return null;
  if (certified) return element("p", { class: "verdict" }, "The search provably missed nothing: these are the exact best answers.");
  return element("p", { class: "verdict" }, "The beam dropped candidates that may lead to better answers.",
    element("button", { type: "button", class: "quiet", onclick: exactly }, "Search exactly"));
}

/** The reason for an answer: its graph, and its atoms as text. */
export function reason(answer, target, width, certified, exactly) {
  const witness = answer.witnesses?.[0];
  if (!witness || !witness.atoms.length) {
    return element("div", { class: "why" }, element("p", {}, "This search gives no reasons; beam and exact search do."));
  }
  const facts = witness.atoms.map((atom) =>
    element(
      "li",
      {},
      element("code", {}, atom.negated ? element("span", { class: "not" }, "not ") : null, `${atom.relation}(${atom.subject}, ${atom.object})`),
      element("span", { class: `mark ${atom.observed ? "known" : "predicted"}` }, atom.observed ? "known" : "predicted"),
      element("span", { class: "score" }, shown(atom.score)),
    ),
  );
  return element(
    "div",
    { class: "why" },
    element("figure", { "aria-label": `Why ${answer.entity}` }, drawing(answer.entity, target, witness, width)),
    legend(witness.atoms),
    element("ul", { class: "facts" }, ...facts),
    verdict(certified, exactly),
  );
}

export function summary(reply, milliseconds, share) {
  const count = reply.answers.length;
  const known = reply.answers.filter((answer) => answer.known).length;
  return element(
    "div",
    { class: "summary" },
    element("h2", {}, `${count} ${count === 1 ? "answer" : "answers"}`),
    element("span", {}, `${known} known, ${count - known} predicted`, element("span", { class: "time" }, ` · ${Math.round(milliseconds)} ms`)),
    element("button", { type: "button", class: "quiet", onclick: share }, "Copy link"),
  );
}

export const waiting = () =>
  element("ol", { class: "answers card waiting", "aria-label": "Asking" }, ...[62, 45, 53, 38].map((width) => {
    const line = element("i");
    line.style.width = `${width}%`;
    return element("li", {}, line);
  }));

export const nothing = (title, advice) => element("div", { class: "card nothing" }, element("b", {}, title), advice);
