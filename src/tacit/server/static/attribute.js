// An attribute's page: how many values there are and how they are spread, and its entities by value, known ones first.
import { button, byId, element } from "./element.js";
import { histogram } from "./histogram.js";
import { addressOf, attributeLink, entityLink, inside } from "./links.js";
import { refusal } from "./refusal.js";
import * as service from "./service.js";
import { predictedInterval } from "./words.js";

const SHOWN = 20;
const FIRST = { number: ["Smallest first", "Largest first"], date: ["Earliest first", "Latest first"], duration: ["Shortest first", "Longest first"] };
const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export class Page {
  constructor(section) {
    Object.assign(this, { section, running: null, found: null });
    addEventListener("resize", () => { clearTimeout(this.resized); this.resized = setTimeout(() => this.draw(), 80); });
  }

  leave() {
    this.running?.abort();
    this.found = null;
  }

  async open(label, descending = true) {
    this.leave();
    this.running = new AbortController();
    const { signal } = this.running;
    this.section.setAttribute("aria-busy", "true");
    try {
      const found = await service.attribute(label, { limit: SHOWN, descending }, signal);
      byId("key").hidden = true;
      this.show(found, descending);
    } catch (error) {
      if (error.name !== "AbortError") refusal(this.section, label, error, attributeLink);
    } finally {
      if (!signal.aborted) this.section.setAttribute("aria-busy", "false");
    }
  }

  show(found, descending) {
    Object.assign(this, { found, shown: 0 });
    document.title = `${found.words} · Tacit`;
    const title = element("h1", { tabindex: "-1" }, found.words);
    const question = `?x : ${found.text}(?x) order by ${found.text}(?x)${descending ? " desc" : ""}`;
    const order = element("select", { "aria-label": "Which come first", onchange: () => this.reorder(order.value === "1") },
      ...(FIRST[found.kind] ?? FIRST.number).map((text, down) => element("option", { value: String(down) }, text)));
    order.value = String(Number(descending));
    this.order = order;
    this.figure = element("div");
    this.list = element("ol", { class: "ranked" });
    this.more = element("p", { class: "further" });
    this.section.replaceChildren(
      element("header", {}, title, found.words === found.label ? null : element("code", {}, found.label), element("p", { class: "told", role: "status" }, this.summary())),
      element("div", { class: "card spread" }, this.facts(), this.figure),
      element("section", { class: "card", "aria-label": "Entities by value" },
        element("div", { class: "heading" }, element("h2", {}, "Entities"), order, inside(addressOf({ q: question }), { class: "quiet ask-this", "aria-label": `Ask: ${question}`, title: question }, "Ask")), this.list, this.more));
    this.add(found.rows);
    this.draw();
    if (document.documentElement.dataset.ready) title.focus({ preventScroll: true });
  }

  summary() {
    const { kind, unit, values, entities } = this.found;
    const what = unit ? `${kind} in ${unit}` : kind;
    return `A ${what}; ${counted(values, "value")} of ${counted(entities, "entity", "entities")}`;
  }

  /** The range of the values, and how many are missing. */
  facts() {
    const { lowest, median, highest, missing, among, among_words: relation } = this.found;
    const whom = !among ? "of all entities" : `of those with “${relation}”${among.endsWith("^-1") ? " leading to them" : ""}`;
    const rows = [["Lowest", lowest], ["Median", median], ["Highest", highest], ["Missing", `${(100 * missing).toFixed(missing && missing < 0.1 ? 1 : 0)} % ${whom}`]];
    return element("dl", {}, ...rows.filter(([, text]) => text).map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
  }

  draw() {
    if (!this.found || this.section.hidden || !this.figure.isConnected) return;
    const drawn = histogram(this.found.histogram, this.found.unit, this.figure.clientWidth);
    this.figure.replaceChildren(...(drawn ? [drawn] : []));
  }

  async reorder(descending) {
    await this.open(this.found.label, descending);
    this.order?.focus();
  }

  add(rows) {
    this.shown += rows.length;
    this.list.append(...rows.map(({ entity, name, value }) => element("li", { class: value?.known ? null : "guessed" }, entityLink(entity, name), element("span", { class: "amount" }, value?.text ?? "unknown"),
      value?.known ? null : element("span", { class: "mark" }, predictedInterval(value ?? {})))));
    const left = this.found.known + this.found.predicted - this.shown;
    this.more.replaceChildren(...(left > 0 ? [button({ class: "quiet", onclick: () => this.page() }, `${Math.min(left, 5 * SHOWN).toLocaleString("en")} more${left > 5 * SHOWN ? ` of ${left.toLocaleString("en")}` : ""}`)] : []));
  }

  /** Fetch the entities that follow, and go to the first of them. */
  async page() {
    const { signal } = this.running;
    const before = this.list.children.length;
    try {
      const { rows } = await service.attribute(this.found.label, { limit: 5 * SHOWN, offset: this.shown, descending: this.order.value === "1" }, signal);
      this.add(rows);
      this.list.children[before]?.querySelector("a").focus();
    } catch (error) {
      if (error.name !== "AbortError") this.more.append(` ${error.message}`);
    }
  }
}
