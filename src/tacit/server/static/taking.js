// What leaves the page: the answers as files, and this very question for other programs.
import { button, element } from "./element.js";
import { address, keyed } from "./service.js";

const cell = (value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

/** Answers as CSV, a row each below a line that names the columns. */
export function csv({ answers, variables = [], quantities = [] }) {
  const several = variables.length > 1 || !answers.every((answer) => answer.entity !== undefined);
  const columns = several ? variables : ["entity", "name"]; // a variable may be called what another column is
  const row = (answer) => [answer.rank, ...columns.map((name) => (several ? answer.values : answer)[name] ?? ""), ...quantities.map((name) => answer.quantities?.[name]?.value ?? ""), answer.score, answer.known];
  return [["rank", ...columns, ...quantities, "score", "known"], ...answers.map(row)].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export const curl = (body, origin) => `curl ${shell(origin + address("/ask"))} \\
  -H 'Content-Type: application/json' \\
${keyed() ? "  -H \"X-API-Key: $TACIT_API_KEY\" \\\n" : ""}  -d ${shell(JSON.stringify(body))}
`;

/** A value as Python writes it: JSON but for its names of truth and nothing. */
const literal = (value) =>
  typeof value === "boolean" ? (value ? "True" : "False") : value === null ? "None" : JSON.stringify(value);

export const python = (body, origin, kind = "entities") => `import json
${keyed() ? "import os\n" : ""}from urllib.request import Request, urlopen

question = {
${Object.entries(body).map(([name, value]) => `    ${literal(name)}: ${literal(value)},`).join("\n")}
}
headers = {"Content-Type": "application/json"${keyed() ? ', "X-API-Key": os.environ["TACIT_API_KEY"]' : ""}}
reply = json.load(urlopen(Request(${literal(origin + address("/ask"))}, json.dumps(question).encode(), headers)))
${kind === "count" ? 'print(reply["count"])' : `for answer in reply["answers"]:
    print(f'{answer["score"]:.3f}', *answer["values"].values(), sep="\\t")`}
`;

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function copy(text, button, otherwise) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = otherwise;
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

/** The buttons below the answers; `reply()` are those shown, `sparql()` is this question if SPARQL can say it. */
export function taking(body, reply, sparql) {
  const text = element("pre", { tabindex: "0" });
  const copier = button({ class: "quiet", onclick: (event) => copy(text.textContent, event.currentTarget, "Copy it from here") }, "Copy");
  const shown = element("div", { class: "snippet", hidden: true }, text, copier);
  const buttons = [];
  const asked = () => ({ ...body, top: Math.max(body.top, reply().answers.length) }); // more may have been fetched
  const snippet = (name, made) => {
    const opener = button({ class: "quiet", "aria-expanded": "false", onclick: async () => {
      const open = opener.getAttribute("aria-expanded") === "true";
      buttons.forEach((each) => each.setAttribute("aria-expanded", "false"));
      shown.hidden = open;
      if (open) return;
      opener.setAttribute("aria-expanded", "true");
      text.textContent = await made();
    } }, name);
    buttons.push(opener);
    return opener;
  };
  const file = (name, type, made) => button({ class: "quiet", onclick: () => save(name, type, made()) }, name.split(".")[1].toUpperCase());
  return element("div", { class: "taking" }, element("p", {}, element("span", {}, "Take along"),
    reply().kind === "count" ? null : file("answers.csv", "text/csv", () => csv(reply())), file("answers.json", "application/json", () => JSON.stringify(reply(), null, 2)),
    snippet("SPARQL", async () => (await sparql()) ?? "SPARQL cannot say this question."), snippet("curl", () => curl(asked(), location.origin)), snippet("Python", () => python(asked(), location.origin, reply().kind))), shown);
}
