// Enough of the grammar to colour a question and to know what is being typed; the service has the last word.
const TOKEN = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\?[\p{L}\p{N}_]*|\^-1|⁻¹|[+/-]*[\p{L}\p{N}_](?:[\p{L}\p{N}_.:/+'-]*[\p{L}\p{N}_])?|\s+|./gsu;
const WORDS = new Set(["and", "or", "not", "exists"]);

/** The tokens of a text, each with its kind: relation, entity, variable, word, sign or space. */
export function tokens(text) {
  const found = [...text.matchAll(TOKEN)].map((match) => ({ text: match[0], start: match.index, kind: "sign" }));
  found.forEach((token, at) => {
    const first = token.text[0];
    if (/^\s/.test(first)) token.kind = "space";
    else if (first === "?") token.kind = "variable";
    else if (WORDS.has(token.text.toLowerCase())) token.kind = "word";
    else if (/["'+/\-\p{L}\p{N}_]/u.test(first) && token.text !== "-") {
      const next = found.slice(at + 1).find((other) => other.kind !== "space" && !/^\s/.test(other.text));
      token.kind = next && ["(", "^-1", "⁻¹"].includes(next.text) ? "relation" : "entity";
    }
  });
  return found;
}

/** The variables a text uses, in order. */
export const variables = (text) => [...new Set(tokens(text).filter((t) => t.kind === "variable" && t.text.length > 1).map((t) => t.text))];

/** What is typed at a caret: which kind of name, the part typed so far, and the range a completion replaces. */
export function context(text, caret) {
  const before = text.slice(0, caret);
  const colon = tokens(before).find((token) => token.text === ":");
  if (!colon) return null;
  const open = [];
  for (const token of tokens(before)) {
    if (token.text === "(") open.push(token.start);
    else if (token.text === ")") open.pop();
  }
  const bracket = open.length ? open[open.length - 1] : -1;
  const inAtom = bracket >= 0 && /(?:[\p{L}\p{N}_"']|\^-1|⁻¹)\s*$/u.test(before.slice(0, bracket)) && !/\b(?:and|or|not)\s*$/i.test(before.slice(0, bracket));
  if (inAtom) {
    const inside = tokens(before).filter((token) => token.start > bracket);
    const comma = inside.filter((token) => token.text === ",").at(-1);
    const start = skipSpace(text, (comma ? comma.start : bracket) + 1, caret);
    const typed = before.slice(start);
    if (/^(".*"|'.*')\s*$/s.test(typed) || (comma && inside.filter((t) => t.text === ",").length > 1)) return null;
    return { kind: typed.startsWith("?") ? "variables" : "entities", typed: typed.replace(/^["']/, ""), start, end: wordEnd(text, caret) };
  }
  const word = /["']?[\p{L}\p{N}_][\p{L}\p{N}_.:/+'-]*$/u.exec(before);
  const start = word ? word.index : caret;
  const left = before.slice(colon.start + 1, start).trimEnd();
  const ready = left === "" || /(?:[&|!~∧∨¬(.]|\b(?:and|or|not))$/i.test(left);
  return ready ? { kind: "relations", typed: (word?.[0] ?? "").replace(/^["']/, ""), start, end: wordEnd(text, caret) } : null;
}

function skipSpace(text, at, most) {
  while (at < most && /\s/.test(text[at])) at += 1;
  return at;
}

function wordEnd(text, caret) {
  return caret + /^[\p{L}\p{N}_.:/+-]*["']?/u.exec(text.slice(caret))[0].length;
}
