// An entity's page: the graph around it, and its facts by relation in both directions; known ones at once, predicted ones after.
import { around } from "./around.js";
import { button, byId, element } from "./element.js";
import { evidence } from "./evidence.js";
import { addressOf, attributeLink, entityLink, inside } from "./links.js";
import { refusal } from "./refusal.js";
import * as service from "./service.js";
import { quoted } from "./syntax.js";
import { predictedInterval, words } from "./words.js";

const SHOWN = 20; // facts of a relation, until more are wanted
const PARTS = 3; // times that predictions are fetched without being asked for, where each has relations left
const EXPLAINED = { explain: true };
const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
const empty = () => ({ count: 0, facts: [] });

/** What carried a predicted value, to be opened. */
const reasons = ({ evidence = [] }) => (evidence.length ? element("details", { class: "evidence" }, element("summary", {}, "why"), element("ul", { class: "grounding" }, ...evidence.map(({ text }) => element("li", {}, text)))) : null);

export class Page {
  constructor(section) {
    Object.assign(this, { section, running: null, groups: new Map() });
    addEventListener("resize", () => { clearTimeout(this.resized); this.resized = setTimeout(() => this.draw(), 80); });
  }

  /** Stop what is under way for the entity that was shown. */
  leave() {
    this.running?.abort();
  }

  async open(label) {
    this.leave();
    this.running = new AbortController();
    const { signal } = this.running;
    this.groups = new Map();
    this.entity = null;
    this.section.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => this.section.replaceChildren(element("p", { class: "looking" }, `Looking up ${label} …`)), 200);
    try {
      const found = await service.entity(label, { limit: SHOWN }, signal);
      clearTimeout(slow);
      byId("key").hidden = true;
      this.show(found);
      await Promise.all([this.measure(signal), this.predict(signal)]);
    } catch (error) {
      clearTimeout(slow);
      if (error.name !== "AbortError") refusal(this.section, label, error, entityLink);
    } finally {
      if (!signal.aborted) this.section.setAttribute("aria-busy", "false");
    }
  }

  show(found) {
    this.entity = found;
    document.title = `${found.name} · Tacit`;
    const title = element("h1", { tabindex: "-1" }, found.name);
    this.status = element("p", { class: "told", role: "status" });
    this.figure = element("div", { class: "card around-card" });
    this.lists = [false, true].map((inverse) =>
      element("section", { class: "direction", "aria-label": inverse ? `Facts that lead to ${found.name}` : `Facts that start at ${found.name}` }));
    this.further = element("p", { class: "further" });
    this.values = element("section", { class: "card values", "aria-label": "Numbers and dates", hidden: true });
    this.section.replaceChildren(
      element("header", {}, title, found.name === found.entity ? null : element("code", {}, found.entity), this.status),
      this.values, this.figure, element("div", { class: "directions" }, ...this.lists), this.further,
    );
    this.add(found);
    if (document.documentElement.dataset.ready) title.focus({ preventScroll: true });
  }

  /** Take facts of some relations in. */
  add({ known, relations }) {
    for (const { relation, name, inverse, count, facts } of relations) {
      const group = this.groups.get(relation) ?? this.start({ relation, name, inverse, known: empty(), predicted: empty() });
      const kind = known ? "known" : "predicted";
      group[kind] = { count, facts: [...group[kind].facts, ...facts] };
      this.list(group, kind, facts);
    }
    this.draw();
  }

  /** The heading and the empty lists of a relation. */
  start(group) {
    const stored = group.relation.replace(group.inverse ? /\^-1$/ : /$^/, "");
    const ends = [quoted(this.entity.entity), "?x"];
    const question = `?x : ${quoted(stored)}(${(group.inverse ? ends.reverse() : ends).join(", ")})`;
    const relation = element("b", { title: stored }, words(group.name));
    const here = element("span", { class: "here" }, this.entity.name);
    group.total = element("span", { class: "total" });
    group.heading = element("h2", { tabindex: "-1" }, ...(group.inverse ? ["… ", relation, " ", here] : [here, " ", relation, " …"]));
    Object.assign(group, Object.fromEntries(["known", "predicted"].map((kind) => [`${kind}List`, element("ul", { class: `ends ${kind}`, hidden: true })])));
    group.more = element("p", { class: "more-facts" });
    this.lists[Number(group.inverse)].append(element("section", { class: "card relatives" },
      element("div", { class: "heading" }, group.heading, group.total, inside(addressOf({ q: question }), { class: "quiet ask-this", "aria-label": `Ask: ${question}`, title: question }, "Ask")),
      group.knownList, group.predictedList, group.more));
    this.groups.set(group.relation, group);
    return group;
  }

  list(group, kind, facts) {
    const list = group[`${kind}List`];
    list.hidden = false;
    list.append(...facts.map(({ entity, name, score, ...why }) => element("li", {}, entityLink(entity, name),
      kind === "known" ? null : element("span", { class: "odds" }, element("span", { class: "unseen" }, "predicted, "), score.toFixed(2)), evidence(why, { short: true }))));
    group.total.textContent = ["known", "predicted"].filter((each) => group[each].count).map((each) => `${group[each].count.toLocaleString("en")} ${each}`).join(", ");
    const hidden = ["known", "predicted"].filter((each) => group[each].facts.length < group[each].count);
    group.more.replaceChildren(...hidden.map((each) => {
      const left = group[each].count - group[each].facts.length;
      return button({ class: "quiet", onclick: () => this.page(group, each) }, `${Math.min(left, 5 * SHOWN)} more ${each}${left > 5 * SHOWN ? ` of ${left.toLocaleString("en")}` : ""}`);
    }));
  }

  /** Fetch further facts of a relation, and go to the first of them. */
  async page(group, kind) {
    const { signal } = this.running;
    const before = group[`${kind}List`].children.length;
    const ask = kind === "known" ? service.entity : service.predictions;
    try {
      this.add(await ask(this.entity.entity, { ...(kind === "known" ? {} : EXPLAINED), relation: group.relation, limit: 5 * SHOWN, offset: group[kind].facts.length }, signal));
      group[`${kind}List`].children[before]?.querySelector("a").focus();
    } catch (error) {
      if (error.name !== "AbortError") group.more.append(` ${error.message}`);
    }
  }

  /** Fetch the numbers and dates of the entity, known ones and predicted ones. */
  async measure(signal) {
    if (!service.hasAttributes()) return;
    try {
      const { values, whole } = await service.values(this.entity.entity, signal);
      this.values.hidden = !values.length && whole;
      this.values.replaceChildren(element("dl", {}, ...values.map((value) => element("div", { class: value.known ? null : "guessed" },
        element("dt", {}, attributeLink(value.attribute, words(value.attribute))), element("dd", {}, value.text, ...(value.known ? [] : [element("span", { class: "mark" }, predictedInterval(value))])), reasons(value)))),
      ...(whole ? [] : [element("p", { class: "told" }, "There was no time to predict the others.")]));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.values.hidden = false;
      this.values.replaceChildren(element("p", { class: "told" }, error.message));
    }
  }

  /** Fetch predictions, relation after relation; where they take long, the rest is left to be asked for. */
  async predict(signal, start = null) {
    this.further.replaceChildren();
    let next = start;
    try {
      for (let part = 0; part < PARTS && (part === 0 || next); part += 1) {
        this.tell("looking for what is missing …");
        const found = await service.predictions(this.entity.entity, { ...EXPLAINED, limit: SHOWN, ...(next ? { start: next } : {}) }, signal);
        this.add(found);
        next = found.next;
      }
      const count = [...this.groups.values()].reduce((sum, group) => sum + group.predicted.count, 0);
      this.tell(count ? `${count.toLocaleString("en")} predicted` : "none predicted");
      if (next) this.further.replaceChildren(button({ class: "quiet", onclick: () => this.predict(signal, next) }, "Predict facts of further relations"));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.tell(`no predictions: ${error.message}`);
    }
  }

  tell(news) {
    const known = [...this.groups.values()].reduce((sum, group) => sum + group.known.count, 0);
    this.status.textContent = `${counted(known, "known fact")}, ${news}`;
  }

  draw() {
    if (!this.entity || this.section.hidden || !this.figure.isConnected) return;
    const held = this.figure.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const groups = [...this.groups.values()];
    this.figure.hidden = !groups.length;
    if (!groups.length) return;
    const style = getComputedStyle(this.figure);
    const width = this.figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    this.figure.replaceChildren(around(this.entity, groups, width, (group) => {
      group.heading.scrollIntoView({ block: "center" });
      group.heading.focus({ preventScroll: true });
    }));
    if (held) [...this.figure.querySelectorAll("a")].find((link) => link.getAttribute("href") === held)?.focus();
  }
}
