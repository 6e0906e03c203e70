// The rules of a run: in words, as formulas and with their counts; the address keeps the filters.
import { byId, element } from "./element.js";
import { factCode } from "./evidence.js";
import { addressOf } from "./links.js";
import * as service from "./service.js";

const SHOWN = 20;
const EXAMPLES = 3;
const form = byId("filter");
let shown = 0;

const chosen = () => new URLSearchParams(location.search);
const facts = (title, list) => (list.length ? element("p", {}, `${title}: `, ...list.flatMap((fact, place) => [place ? "; " : null, factCode(fact)])) : null);

function row(rule) {
  const marks = [rule.written ? "written by a person" : null, rule.off ? "off" : null].filter(Boolean);
  return element("li", { class: rule.off ? "card off" : "card" },
    element("p", {}, element("b", {}, `Rule ${rule.id}`), `: ${rule.words} `, ...marks.map((mark) => element("span", { class: "mark" }, mark))),
    element("p", {}, element("code", {}, rule.formula)),
    element("p", {}, `${rule.statistic ? `${rule.statistic}; ` : ""}confidence ${(100 * rule.confidence).toFixed(1)} %`),
    facts("Right", rule.examples), facts("Not known", rule.counter_examples));
}

/** Fetch the rules after those that are shown. */
async function more() {
  const given = chosen();
  const filters = { limit: SHOWN, offset: shown, examples: given.get("examples") ? EXAMPLES : 0 };
  if (given.get("relation")) filters.relation = given.get("relation");
  if (given.get("written")) filters.written = true;
  byId("problem").hidden = true;
  try {
    const { rules, count } = await service.rules(filters);
    byId("rules").append(...rules.map(row));
    shown += rules.length;
    byId("more").hidden = rules.length < SHOWN;
    byId("status").textContent = shown ? `The surest rules: ${shown.toLocaleString("en")} shown` : count ? "No rule is like that." : "This run has no rules.";
  } catch (error) {
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
  }
}

async function start() {
  document.documentElement.removeAttribute("data-ready");
  const given = chosen();
  service.useRun(given.get("run"));
  byId("home").href = addressOf({});
  form.elements.relation.value = given.get("relation") ?? "";
  for (const name of ["written", "examples"]) form.elements[name].checked = given.has(name);
  byId("rules").replaceChildren();
  shown = 0;
  await more();
  document.documentElement.dataset.ready = "true";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const filters = new URLSearchParams();
  if (chosen().get("run")) filters.set("run", chosen().get("run"));
  if (form.elements.relation.value.trim()) filters.set("relation", form.elements.relation.value.trim());
  for (const name of ["written", "examples"]) if (form.elements[name].checked) filters.set(name, "1");
  history.pushState(null, "", filters.size ? `?${filters}` : location.pathname);
  start();
});
byId("more").addEventListener("click", more);
addEventListener("popstate", start);
start();
