// Relations and scores as people read them.
export const shown = (score) => (score > 0 && score < 0.0005 ? "<0.001" : score.toFixed(3));

/** What is said of a predicted value beside it. */
export const predictedInterval = ({ level }) => (level ? `predicted, ${Math.round(100 * level)} % interval` : "predicted");

const spaced = (text) => text.replace(/[_\s]+/g, " ").replace(/(\p{Ll}|\d)(\p{Lu})(?=\p{Ll})/gu, (_, end, start) => `${end} ${start.toLowerCase()}`).trim();

/** The name of a relation in words: `officialLanguage`, `ex:official_language` and `/country/official_language` are read alike. */
export function words(name) {
  if (/^<?[a-z][a-z0-9+.-]*:\/\//i.test(name)) return spaced(name.replace(/[>/#]+$/, "").split(/[/#]/).pop()) || name;
  if (name.startsWith("/")) return name.split(".").map((part) => spaced(part.split("/").slice(-2).join(" "))).join(" · ");
  return spaced(name.replace(/^[\w-]+:(?=\w)/, "")) || name;
}
