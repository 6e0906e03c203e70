// Why an answer came: its reason as a small graph, and as text.
import { drawing, keyLines, kindOf } from "./drawing.js";
import { button, element } from "./element.js";
import { evidence, factCode } from "./evidence.js";
import { numberLine } from "./number_line.js";
import { shown } from "./words.js";

/** What the lines mean, as far as they occur. */
function legend(atoms) {
  const own = atoms.filter((atom) => !atom.other);
  const negated = own.filter((atom) => atom.negated);
  const denial = negated.some((atom) => atom.denied) ? "must not be found: this comes nearest" : "must not hold: a low score is a good one";
  const kinds = [
    ["known fact", "observed", own.some((atom) => atom.observed && !atom.negated)],
    ["predicted", "observed predicted", own.some((atom) => !atom.observed && !atom.negated)],
    [denial, kindOf({ negated: true, observed: negated.every((atom) => atom.observed) }), negated.length],
    ["or: another way, worth less", "observed other", own.length < atoms.length],
  ];
  return element("p", { class: "key-lines" }, ...keyLines(kinds));
}

/** The entities chosen in a part, by variable. */
const chosen = (part) => Object.assign({}, part.variables, ...(part.parts ?? []).map(chosen));

/** Whether a part is a `not exists`: what it holds is then the candidate that comes nearest to what is denied. */
const denies = (part) => part.kind === "not" && Object.keys(chosen(part.parts[0])).length > 0;

/** The atoms of a reason, each with whether it is of another branch of an `or`, and whether of what is denied to exist. */
function atomsOf(part, denied = false, other = false) {
  if (part.atom) return [{ ...part.atom, denied, other }];
  const parts = (part.parts ?? []).toSorted((a, b) => (a.carried === false) - (b.carried === false));
  return parts.flatMap((each) => atomsOf(each, denied || denies(part), other || each.carried === false));
}

/** The comparisons of values in a part, with their texts. */
const comparisonsOf = (part) => (part.comparison ? [part] : (part.parts ?? []).flatMap(comparisonsOf));

/** A comparison as a line: its text, whether its values are known, and how far it holds. */
function compared({ text, comparison: { observed }, score }) {
  return element("li", {}, element("code", {}, text.replace(/ {2}known$/, "")),
    element("span", { class: `mark ${observed ? "known" : "predicted"}` }, observed ? "known" : "predicted"), element("span", { class: "score" }, shown(score)));
}

function fact(atom, denied) {
  return element(
    "li",
    {},
    factCode(atom, atom.negated !== denied ? element("span", { class: "not" }, "not ") : null),
    element("span", { class: `mark ${atom.observed ? "known" : "predicted"}` }, atom.observed ? "known" : "predicted"),
    atom.statements ? element("span", { class: "mark" }, atom.statements.map((each) => each.text).join("; ")) : null,
    typeof atom.follows_by === "number" ? element("span", { class: "mark" }, `follows by rule ${atom.follows_by}`) : null,
    element("span", { class: "score" }, shown(atom.score)),
    evidence(atom, { denied: atom.negated }),
  );
}

const group = (kind, title, score, lines) =>
  element("li", { class: kind }, element("span", { class: "head" }, title), element("span", { class: "score" }, shown(score)), element("ul", { class: "facts" }, ...lines));

/** A part of a reason as lines; under a `not exists`, `denied`, the atoms are those of the nearest candidate. */
function lines(part, denied = false) {
  const parts = part.parts ?? [];
  if (part.atom) return [fact(part.atom, denied)];
  if (part.comparison) return [compared(part)];
  if (part.text) return [element("li", {}, element("code", {}, part.text))];
  if (part.kind === "or") {
    const [carried, others] = [true, false].map((wanted) => parts.filter((each) => (each.carried !== false) === wanted));
    return [...carried.flatMap((each) => lines(each, denied)), ...others.map((each) => group("other", "or", each.score, lines(each, denied)))];
  }
  if (denies(part)) {
    const nearest = Object.entries(chosen(parts[0])).map(([name, entity]) => `?${name} = ${entity}`).join(", ");
    return [group("nearest", `nothing found; nearest: ${nearest}`, parts[0].score, lines(parts[0], !denied))];
  }
  return parts.flatMap((each) => lines(each, denied));
}

/** Whether the search may have missed better answers, which of the `total` are proven all the same, and the way to find others. */
export function verdict({ certified, proven, total }, exactly) {
  if (certified === null) return null;
  if (certified) return element("p", { class: "verdict" }, "The search provably missed nothing: these are the exact best answers.");
  const part = proven ? `The first ${proven > 1 ? `${proven} of ${total} are` : "is"} proven. ` : "";
  return element("p", { class: "verdict" }, `${part}The beam dropped candidates that may lead to better answers.`,
    button({ class: "quiet", onclick: exactly }, "Search exactly"));
}

/** One way to an answer: its graph, what the lines mean, and its atoms as text; nothing where it has none. */
function way(witness, values, name, width) {
  const tree = witness.tree ?? { kind: "and", parts: (witness.atoms ?? []).map((atom) => ({ kind: "atom", atom })) };
  const atoms = atomsOf(tree);
  const comparisons = comparisonsOf(tree);
  if (!atoms.length && !comparisons.length) return [];
  const flipped = (entities) => new Map(Object.values(entities).map((entity) =>
    [entity, Object.keys(entities).filter((variable) => entities[variable] === entity).join(", ?")]));
  const title = `The reason for ${name} as a graph; its facts are listed below`;
  const total = atoms.length + comparisons.length;
  const { facts = total, predicted = atoms.filter((atom) => !atom.observed).length } = witness;
  return [
    atoms.length ? element("figure", { "aria-label": `Why ${name}` }, drawing(flipped(values), atoms, flipped(witness.labels), title, Math.max(240, width))) : null,
    atoms.length ? legend(atoms) : null,
    ...comparisons.map((part) => numberLine(part, Math.max(240, width))),
    element("ul", { class: "facts" }, ...lines(tree)),
    facts > 1 && !(witness.known && predicted) ? element("p", { class: "share" }, `${predicted} of ${facts} ${comparisons.length ? "conditions" : "atoms"} predicted`) : null,
  ].filter(Boolean);
}

/** The reasons for an answer, one below the other. */
export function reason(answer, width, search, exactly) {
  const { values } = answer;
  const name = answer.name || Object.values(answer.names ?? values).join(", ") || "this";
  const ways = (answer.witnesses ?? []).map((witness) => way(witness, values, name, width)).filter((each) => each.length);
  if (!ways.length) return element("div", { class: "why" }, element("p", {}, "This search gives no reasons; beam and exact search do."));
  const told = ways.flatMap((each, i) => (i ? [element("p", { class: "second" }, `Or ${shown(answer.witnesses[i].score)}, because`), ...each] : each));
  return element("div", { class: "why" }, ...told, verdict(search, exactly));
}
