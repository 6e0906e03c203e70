// Rows of the builder about numbers and dates: comparisons, and what answers show and are ordered by.
import { button, element } from "./element.js";
import { NameField } from "./name_field.js";
import { literal } from "./outline.js";
import { names } from "./service.js";

const OPERATORS = [["<", "<"], ["<=", "≤"], ["=", "="], [">=", "≥"], [">", ">"], ["between", "from … to"], ["", "is known"]];
const EXAMPLES = { number: "1000", date: "1950-06", duration: "PT2H" };
const FIRST = { number: ["smallest first", "largest first"], date: ["earliest first", "latest first"], duration: ["shortest first", "longest first"] };

function choice(label, key, options, value, chosen) {
  const select = element("select", { class: "sized", "aria-label": label, "data-key": key, onchange: () => chosen(select.value) },
    ...options.map(([name, shown]) => element("option", { value: name }, shown)));
  select.value = value;
  return select;
}

/** A field for an attribute; `chosen` is told of one as the service describes it. */
function attributeField(value, key, chosen) {
  return new NameField({
    label: "Attribute", value, key,
    find: async (typed, signal) => (await names("attributes", typed, signal)).map((match) => ({ ...match, shown: match.words, name: match.words, note: match.unit || match.kind })),
    choose: ({ label, words = label, kind = "number", unit = "", range = "" }, taken) => chosen({ attribute: label, words, kind, unit, range }, taken),
  }).node;
}

/** The fields of a comparison; where it is nested, its value may be compared with that of the thing around it. */
export function limitLine(builder, part, at, { thing, nested }) {
  const told = () => builder.tell();
  const attribute = attributeField(part.words || part.attribute, `${at}-attribute`, (found, taken) => {
    Object.assign(part, found);
    if (taken) builder.update(`${at}-operator`);
    else told();
  });
  const operator = choice("How it compares", `${at}-operator`, OPERATORS, part.operator, (value) => {
    part.operator = value;
    if (value === "between" || !value) delete part.than;
    part.literals = value === "between" ? [part.literals[0] ?? "", part.literals[1] ?? ""] : part.literals.slice(0, 1);
    if (!part.literals.length) part.literals = [""];
    builder.update(`${at}-operator`);
  });
  const it = [element("span", { class: "it" }, thing), element("span", {}, "has"), attribute, operator];
  if (!part.operator) return it;
  if (part.than) return [...it, against(builder, part, at, nested), ...other(builder, part, at)];
  const fields = part.literals.map((_, place) => literalField(part, place, at, told));
  return [...it, part.operator === "between" ? null : against(builder, part, at, nested),
    ...fields.flatMap((field, place) => (place ? [element("span", {}, "to"), field] : [field])), part.unit ? element("span", { class: "unit" }, part.unit) : null].filter(Boolean);
}

/** Between which values those of the graph lie, where a literal is wanted. */
export const rangeHint = (part) => (part.range && part.operator && !part.than ? [element("small", { class: "hint" }, `in the graph: ${part.range}`)] : []);

/** What the value is compared with: a literal, or another value. */
function against(builder, part, at, nested) {
  const { than } = part;
  const mode = !than ? "literal" : than.outer ? "outer" : than.entity === undefined ? "own" : "entity";
  const same = { attribute: part.attribute, words: part.words };
  const made = { literal: undefined, entity: { ...same, entity: "", name: "" }, outer: { ...same, outer: true }, own: { attribute: "", words: "" } };
  const options = [["literal", "a value"], ["entity", "that of …"], ...(nested ? [["outer", "that of it"]] : []), ["own", "its own …"]];
  return choice("What it is compared with", `${at}-against`, options, mode, (value) => {
    part.than = made[value];
    if (!part.than) {
      delete part.than;
      if (!part.literals.length) part.literals = [""];
    }
    builder.update(value === "literal" ? `${at}-literal0` : value === "outer" ? `${at}-against` : `${at}-than`);
  });
}

/** The fields of another value that a value is compared with. */
function other(builder, part, at) {
  const { than } = part;
  if (than.outer) return than.attribute === part.attribute ? [] : [element("span", {}, `(${than.words || than.attribute})`)];
  if (than.entity === undefined) {
    return [attributeField(than.words || than.attribute, `${at}-than`, (found) => { Object.assign(than, found); builder.tell(); })];
  }
  return [than.attribute === part.attribute ? null : element("span", {}, `${than.words || than.attribute} of`), new NameField({
    label: "Entity", value: than.name || than.entity, key: `${at}-than`, find: (typed, signal) => names("entities", typed, signal, { relation: than.attribute }),
    choose: ({ label, name }) => { Object.assign(than, { entity: label, name }); builder.tell(); },
  }).node].filter(Boolean);
}

/** A literal as people write it: with commas in a long whole number. */
const readable = (kind, text) => (kind === "number" && /^[+-]?\d{5,15}$/.test(text) ? Number(text).toLocaleString("en") : text);

function literalField(part, place, at, told) {
  const wrong = () => part.literals[place] !== "" && literal(part.kind, part.literals[place]) === null;
  const what = ["Value", "Highest value"][place];
  const field = element("input", {
    type: "text", class: "literal", size: "9", maxlength: "40", inputmode: part.kind === "number" ? "decimal" : null, autocomplete: "off", spellcheck: "false",
    "aria-label": `${what}${part.unit ? ` in ${part.unit}` : ""}, such as ${EXAMPLES[part.kind] ?? EXAMPLES.number}`, placeholder: part.unit || EXAMPLES[part.kind], "data-key": `${at}-literal${place}`,
    oninput: () => { part.literals[place] = field.value; field.toggleAttribute("aria-invalid", wrong()); told(); },
  });
  field.value = readable(part.kind, part.literals[place]);
  field.toggleAttribute("aria-invalid", wrong());
  return field;
}

/** The values that answers show, and those that they are ordered by, with the ways to have more of them. */
export function shownValues(builder, group, tool) {
  const lists = [["columns", "Show", "+ column"], ["order", "Order by", "+ order"]];
  const row = (kind, title, each, place) => {
    const at = `${kind}${place}`;
    const field = attributeField(each.words || each.attribute, at, (found, taken) => {
      Object.assign(each, found, { variable: undefined });
      if (taken) builder.update(kind === "order" ? `${at}-way` : `${kind}+`);
      else builder.tell();
    });
    const way = kind === "order" ? choice("Which come first", `${at}-way`, (FIRST[each.kind] ?? FIRST.number).map((text, down) => [String(down), text]), String(Number(Boolean(each.descending))), (value) => { each.descending = value === "1"; builder.update(`${at}-way`); }) : null;
    const remove = tool(`Remove: ${title.toLowerCase()} ${each.words}`, `${at}-remove`, () => { group[kind].splice(place, 1); builder.update(`${kind}+`); }, "×");
    return element("li", { class: "line" }, element("span", { class: "which-value" }, title), field, way, element("span", { class: "tools" }, remove));
  };
  const rows = lists.flatMap(([kind, title]) => (group[kind] ?? []).map((each, place) => row(kind, title, each, place)));
  const add = (kind) => { group[kind] = [...(group[kind] ?? []), { attribute: "", words: "", kind: "number", descending: kind === "order" }]; builder.update(`${kind}${group[kind].length - 1}`); };
  return element("div", { class: "shown-values" }, rows.length ? element("ul", { "aria-label": "What answers show and are ordered by" }, ...rows) : null,
    element("div", { class: "add" }, ...lists.map(([kind, , label]) => button({ class: "quiet", "data-key": `${kind}+`, onclick: () => add(kind) }, label))));
}
