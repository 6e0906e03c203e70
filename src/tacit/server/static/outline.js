// A question as nested conditions, and the text that says the same; variables need no quantifier there.
import { quoted } from "./syntax.js";

export const newStep = () => ({ relation: "", words: "", inverse: false, not: false, entity: "", name: "" });
export const newGroup = (join = "and", ...parts) => ({ join, not: false, parts });
export const isGroup = (part) => part.parts !== undefined;

const LETTERS = "xyzwuvabcdefgh";
const variable = (number) => `?${LETTERS[number] ?? `x${number}`}`;

/** The text of a question; what is not filled in yet is left out, and nothing is said of nothing. */
export function written(group) {
  const used = { count: 1 };
  const text = joined(group, variable(0), used);
  return text ? `${variable(0)} : ${text.formula}` : "";
}

/** A formula with the word that joins its parts; null where nothing is filled in. */
function joined(group, thing, used) {
  const parts = group.parts.map((part) => said(part, thing, used)).filter((part) => part !== null);
  if (parts.length < 2) return parts[0] ?? null;
  const inside = (part) => (part.join === "or" || (part.join && group.join === "or") ? `(${part.formula})` : part.formula);
  return { formula: parts.map(inside).join(group.join === "or" ? " | " : " & "), join: group.join };
}

function said(part, thing, used) {
  const whole = isGroup(part) ? joined(part, thing, used) : step(part, thing, used);
  if (whole === null || !part.not) return whole;
  return { formula: `!${whole.join || whole.formula.startsWith("!") ? `(${whole.formula})` : whole.formula}`, join: null };
}

function step(part, thing, used) {
  if (!part.relation || (!part.of && !part.entity)) return null;
  const other = part.of ? variable(used.count++) : quoted(part.entity);
  const atom = { formula: `${quoted(part.relation)}(${(part.inverse ? [other, thing] : [thing, other]).join(", ")})`, join: null };
  const more = part.of ? joined(part.of, other, used) : null;
  if (more === null) return atom;
  return { formula: `${atom.formula} & ${more.join === "or" ? `(${more.formula})` : more.formula}`, join: "and" };
}
