// Enough of the grammar to colour a question and to know what is being typed; the service has the last word, and the patterns.
let patterns = null; // until the service has told them
let keywords = new Set();
let opening = ""; // what a quoted name, or an IRI, starts with

/** Take the words of the text syntax as the service spells them. */
export function learn(words) {
  const open = words.variable.replace(/\+$/, "*"); // a variable whose name is still to be typed
  patterns = {
    token: new RegExp(`${words.string}|${open}|${words.inverse}|${words.name}|\\s+|.`, "gsu"),
    variable: new RegExp(`^(?:${words.variable})$`, "su"),
    inverse: new RegExp(`^(?:${words.inverse})$`, "u"),
    name: new RegExp(`^(?:${words.name})$`, "u"),
    partial: new RegExp(`[${words.opening}]?${words.letter}${words.inside}*$`, "u"),
    rest: new RegExp(`^${words.inside}*["'“”‘’»]?`, "u"),
  };
  opening = `${words.opening}<`;
  keywords = new Set(words.keywords);
}

/** A name as a question writes it. */
export const quoted = (name) => (patterns.name.test(name) && !keywords.has(name.toLowerCase()) ? name : JSON.stringify(name));

/** The tokens of a text, each with its kind: relation, entity, variable, word, inverse, sign or space. */
export function tokens(text) {
  if (!patterns) return [{ text, start: 0, kind: "sign" }];
  const list = [...text.matchAll(patterns.token)].map((match) => ({ text: match[0], start: match.index, kind: kindOf(match[0]) }));
  let after = null; // the token that follows, spaces apart
  for (const token of list.reverse()) {
    if (token.kind === "name") token.kind = after && (after.text === "(" || after.kind === "inverse") ? "relation" : "entity";
    if (token.kind !== "space") after = token;
  }
  return ordered(list.reverse());
}

/** The tokens with the words of `order by … desc`, which names may be called elsewhere. */
function ordered(list) {
  const words = list.filter((token) => token.kind !== "space");
  const start = words.findIndex((token, at) => token.kind === "entity" && /^order$/i.test(token.text) && /^by$/i.test(words[at + 1]?.text));
  if (start >= 0) words.slice(start).forEach((token, at) => { if (at < 2 || /^(?:asc|desc)(?:ending)?$/i.test(token.text)) token.kind = "word"; });
  return list;
}

function kindOf(text) {
  if (/^\s/.test(text)) return "space";
  if (text[0] === "?") return "variable";
  if (patterns.inverse.test(text)) return "inverse";
  if (keywords.has(text.toLowerCase())) return "word";
  return patterns.name.test(text) || (text.length > 1 && opening.includes(text[0])) ? "name" : "sign";
}

/** The variables a text uses, in order. */
export const variables = (text) => [...new Set(tokens(text).map((token) => token.text).filter((word) => patterns.variable.test(word)))];

/** What is typed at a caret: which kind of name, the part typed so far, and the range a completion replaces. */
export function context(text, caret) {
  if (!patterns) return null;
  const before = text.slice(0, caret);
  const words = tokens(before).filter((token) => token.kind !== "space");
  const colon = words.find((token) => token.text === ":");
  if (!colon) return null;
  const open = [];
  words.forEach((token, at) => {
    if (token.text === "(") open.push(at);
    else if (token.text === ")") open.pop();
  });
  const bracket = open.at(-1);
  if (["relation", "inverse"].includes(words[bracket - 1]?.kind)) {
    const commas = words.slice(bracket).filter((token) => token.text === ",");
    const start = skipSpace(text, (commas.at(-1) ?? words[bracket]).start + 1, caret);
    const typed = before.slice(start);
    if (/^(".*"|'.*'|[“„”].*[“”]|[‘‚’].*[‘’]|«.*»|<.*>)\s*$/s.test(typed) || commas.length > 1) return null;
    const inverse = words[bracket - 1].kind === "inverse";
    const near = { relation: named(words[bracket - (inverse ? 2 : 1)]), end: (commas.length > 0) === inverse ? "subject" : "object" };
    return { kind: typed.startsWith("?") ? "variables" : "entities", typed: unopened(typed), start, end: wordEnd(text, caret), near };
  }
  const word = patterns.partial.exec(before);
  const start = word ? word.index : caret;
  const last = words.findLast((token) => token.start < start);
  const typed = unopened(word?.[0] ?? "");
  const place = { typed, start, end: wordEnd(text, caret) };
  if (last === colon || /^(?:[&|!~∧∨¬(.]|and|or|not)$/i.test(last?.text ?? "")) return { kind: "relations", ...place };
  const value = /^[<>=≤≥≠]$/.test(last?.text ?? "") ? /^\p{L}/u.test(typed) : last?.kind === "word" && /^by$/i.test(last.text);
  return value ? { kind: "attributes", ...place } : null;
}

/** A name without its quotes. */
const named = (token) => (token && token.text[0] !== "<" && opening.includes(token.text[0]) ? token.text.slice(1, -1).replace(/\\(.)/gs, "$1") : token?.text ?? "");

/** What is typed of a name, without the quote that it starts with. */
const unopened = (typed) => (typed && opening.includes(typed[0]) ? typed.slice(1) : typed);

function skipSpace(text, at, most) {
  while (at < most && /\s/.test(text[at])) at += 1;
  return at;
}

const wordEnd = (text, caret) => caret + patterns.rest.exec(text.slice(caret))[0].length;
