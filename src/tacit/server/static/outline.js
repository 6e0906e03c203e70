// A question as nested conditions, and the text that says the same; variables need no quantifier there.
import { quoted } from "./syntax.js";

export const newStep = () => ({ relation: "", words: "", inverse: false, not: false, entity: "", name: "" });
export const newGroup = (join = "and", ...parts) => ({ join, not: false, parts });
export const isGroup = (part) => part.parts !== undefined;
/** A comparison of the value of an attribute, as the service describes one. */
export const newLimit = ({ label = "", words = "", kind = "number", unit = "", range = "" } = {}) => ({ attribute: label, words, kind, unit, range, operator: ">", literals: [""], not: false });
export const isLimit = (part) => part.attribute !== undefined;

const LETTERS = "xyzwuvabcdefgh";
const variable = (number) => `?${LETTERS[number] ?? `x${number}`}`;
const LITERALS = {
  number: /^[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?$/i,
  date: /^-?\d{1,9}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?)?)?$/,
  duration: /^-?P(?=.)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?$/,
};

/** A typed literal as a question writes it: without commas in a number; null where it is none of its kind. */
export function literal(kind, typed) {
  const text = kind === "number" ? typed.replace(/[\s,_’]/g, "").replace("−", "-") : typed.trim().toUpperCase();
  return (LITERALS[kind] ?? LITERALS.number).test(text) ? text.replace(/^([+-]?)\./, "$10.") : null;
}

/** The text of a question; what is not filled in yet is left out, and nothing is said of nothing. */
export function written(group) {
  const used = { count: 1 };
  const thing = variable(0);
  const conditions = joined(group, thing, used, null);
  const filled = (list) => (list ?? []).filter((each) => each.attribute);
  const columns = named(filled(group.columns));
  const order = filled(group.order).map(({ attribute, descending }) => `${quoted(attribute)}(${thing})${descending ? " desc" : ""}`);
  const shown = columns.map(({ name, attribute }) => `${name} = ${quoted(attribute)}(${thing})`);
  const asked = conditions && (conditions.join === "or" && shown.length ? `(${conditions.formula})` : conditions.formula);
  const parts = [...(asked ? [asked] : []), ...shown];
  if (!parts.length && !order.length) return "";
  const formula = parts.length ? parts.join(" & ") : `${quoted(group.order.find((each) => each.attribute).attribute)}(${thing})`;
  return `${[thing, ...columns.map(({ name }) => name)].join(", ")} : ${formula}${order.length ? ` order by ${order.join(", ")}` : ""}`;
}

/** Columns with variables of their own, as a text had them or after their attributes. */
function named(columns) {
  const taken = new Set([...LETTERS].map((letter) => `?${letter}`));
  return columns.map(({ attribute, variable: own, words }) => {
    const plain = own ? `?${own}` : `?${(words || attribute).replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_|_$/g, "") || "value"}`;
    let name = plain;
    for (let number = 2; taken.has(name) || /^\?x\d+$/.test(name); number += 1) name = `${plain}_${number}`;
    taken.add(name);
    return { name, attribute };
  });
}

/** A formula with the word that joins its parts, or "value" of a comparison; null where nothing is filled in. */
function joined(group, thing, used, outer) {
  const parts = group.parts.map((part) => said(part, thing, used, outer)).filter((part) => part !== null);
  if (parts.length < 2) return parts[0] ?? null;
  const inside = (part) => (part.join === "or" || (part.join === "and" && group.join === "or") ? `(${part.formula})` : part.formula);
  return { formula: parts.map(inside).join(group.join === "or" ? " | " : " & "), join: group.join };
}

function said(part, thing, used, outer) {
  const whole = isGroup(part) ? joined(part, thing, used, outer) : isLimit(part) ? limit(part, thing, outer) : step(part, thing, used);
  if (whole === null || !part.not) return whole;
  return { formula: `!${whole.join || whole.formula.startsWith("!") ? `(${whole.formula})` : whole.formula}`, join: null };
}

function step(part, thing, used) {
  if (!part.relation || (!part.of && !part.entity)) return null;
  const other = part.of ? variable(used.count++) : quoted(part.entity);
  const atom = { formula: `${quoted(part.relation)}(${(part.inverse ? [other, thing] : [thing, other]).join(", ")})`, join: null };
  const more = part.of ? joined(part.of, other, used, thing) : null;
  if (more === null) return atom;
  return { formula: `${atom.formula} & ${more.join === "or" ? `(${more.formula})` : more.formula}`, join: "and" };
}

/** A comparison of a thing's value; `outer` is the thing that it is a condition of. */
function limit(part, thing, outer) {
  if (!part.attribute) return null;
  const value = `${quoted(part.attribute)}(${thing})`;
  const told = (formula) => ({ formula, join: "value" });
  if (!part.operator) return told(value);
  if (part.than && part.operator !== "between") {
    const owner = part.than.outer ? outer : part.than.entity === undefined ? thing : part.than.entity && quoted(part.than.entity);
    const other = owner && part.than.attribute && `${quoted(part.than.attribute)}(${owner})`;
    return other && other !== value ? told(`${value} ${part.operator} ${other}`) : null;
  }
  const [low, high] = part.literals.map((each) => literal(part.kind, each));
  if (part.operator === "between") return low && high ? told(`${low} <= ${value} <= ${high}`) : null;
  return low ? told(`${value} ${part.operator} ${low}`) : null;
}
