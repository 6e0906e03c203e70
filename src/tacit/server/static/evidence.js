// What speaks for a predicted fact: rules with the known facts that they rest on, or else similar known facts.
import { element } from "./element.js";
import { entityLink } from "./links.js";

/** A fact as a formula, its ends linked; `before` stands in front of it. */
export function factCode(fact, before = null) {
  const end = (which) => entityLink(fact[`${which}_label`] || fact[which], fact[which]);
  return element("code", {}, before, `${fact.relation}(`, end("subject"), ", ", end("object"), ")");
}

const list = (facts) => element("ul", { class: "grounding" }, ...facts.map((fact) => element("li", {}, factCode(fact))));
const percent = (share) => `${Math.round(100 * share)} %`;

/** A rule: how often it held, its formula, and its groundings. */
function ruleItem({ rule, paths, more, more_at_least: least }) {
  const confidence = `confidence ${percent(rule.confidence)}`;
  const held = rule.statistic ? `${rule.statistic} (${confidence})` : confidence;
  const further = `and in ${least ? "at least " : ""}${more.toLocaleString("en")} more way${more === 1 ? "" : "s"}`;
  return element("li", {},
    element("p", {}, `Rule ${rule.id}: ${held}`, rule.written ? element("span", { class: "mark" }, "written by a person") : null),
    element("p", {}, element("code", {}, rule.formula)),
    ...(paths.length ? paths.map((path) => list(path.facts)) : [element("p", {}, "by the same facts")]),
    more ? element("p", {}, further) : null);
}

/** The evidence of a fact, to be opened; nothing where there is none. What is `denied` is spoken for by what speaks against the answer. A `short` title leaves the words to be opened, too. */
export function evidence({ evidence: rules, rule_share: share, analogies }, { denied = false, short = false } = {}) {
  const opened = (title, ...content) =>
    element("details", { class: "evidence" }, element("summary", {}, short ? "why" : title), short ? element("p", {}, title) : null, ...content);
  if (rules?.length) {
    const carried = typeof share === "number" && share < 0.995 ? element("p", {}, `Rules carry ${share ? percent(share) : "none"} of the score.`) : null;
    const title = denied ? `against it: ${rules[0].text.replace(/^because /, "")}` : rules[0].text;
    return opened(title, element("ol", {}, ...rules.map(ruleItem)), carried);
  }
  const none = typeof share === "number" ? "no rule speaks for it" : "";
  if (!analogies?.length) return none ? element("p", { class: "evidence" }, none) : null;
  return opened(none ? `${none}; nearest analogies` : "nearest analogies", list(analogies));
}
