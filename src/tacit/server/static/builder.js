// The builder: a question as rows of choices, each a condition on what is asked for.
import { button, element } from "./element.js";
import { NameField } from "./name_field.js";
import { isGroup, isLimit, newGroup, newLimit, newStep, written } from "./outline.js";
import { hasAttributes, names } from "./service.js";

const tool = (label, key, onclick, sign) => button({ class: "tool", "aria-label": label, title: label, "data-key": key, onclick }, sign);

export class Builder {
  /** `changed(text)` is told of the question whenever a choice changes it. */
  constructor(place, changed) {
    Object.assign(this, { place, changed, group: newGroup("and", newStep()), reason: null, values: null });
    this.draw();
  }

  /** Load what draws numbers and dates, and draw once it is there. */
  async learn() {
    this.values = await import("./value_rows.js");
    this.draw();
  }

  /** Show a question as the service understands it; `reason` says why it has no conditions. */
  show(outline, reason = null) {
    const group = outline ?? newGroup("and", newStep());
    if (!reason && this.reason === reason && written(group) === written(this.group)) return;
    const focus = this.place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    if (!group.parts.length) group.parts = [newStep()];
    Object.assign(this, { group, reason });
    this.draw();
    this.go(focus);
  }

  /** Draw what was changed, tell of it, and go to a field. */
  update(focus = null) {
    this.draw();
    this.tell();
    this.go(focus);
  }

  tell() {
    this.changed(written(this.group));
  }

  go(key) {
    if (key) this.place.querySelector(`[data-key="${key}"]`)?.focus();
  }

  draw() {
    if (this.reason) {
      this.place.replaceChildren(element("p", { class: "stays" }, `This question stays in the text: ${this.reason}.`),
        button({ class: "quiet", onclick: () => { this.reason = null; this.group = newGroup("and", newStep()); this.update("0-relation"); } }, "Build another"));
      return;
    }
    const shown = this.values && hasAttributes() ? [this.values.shownValues(this, this.group, tool)] : [];
    this.place.replaceChildren(this.drawn(this.group, "", "it"), ...shown);
  }

  /** A group with its rows; `path` tells its fields apart, and `thing` is what it speaks of. */
  drawn(group, path, thing) {
    const rows = group.parts.map((part, index) => {
      const at = `${path}${index}`;
      const kind = isGroup(part) ? "nested" : isLimit(part) ? "limit" : "step";
      return element("li", { class: kind }, ...this[kind](group, part, at, thing));
    });
    const add = (part, at) => { group.parts.push(part); this.update(`${path}${group.parts.length - 1}${at}`); };
    return element("div", { class: "group", role: "group", "aria-label": path ? `Conditions on ${thing}` : "Conditions on what is asked for" },
      group.parts.length > 1 ? this.join(group, path) : null,
      element("ul", {}, ...rows),
      element("div", { class: "add" },
        button({ class: "quiet", onclick: () => add(newStep(), "-relation"), "data-key": `${path}+` }, "+ condition"),
        hasAttributes() ? button({ class: "quiet", onclick: () => add(newLimit(), "-attribute"), "data-key": `${path}+value` }, "+ number or date") : null,
        button({ class: "quiet", "data-key": `${path}++`, onclick: () => add(newGroup(group.join === "and" ? "or" : "and", newStep(), newStep()), "-0-relation") }, group.join === "and" ? "+ alternatives" : "+ conditions together")));
  }

  join(group, path) {
    const select = element("select", { "aria-label": "How the conditions are joined", "data-key": `${path}join`, onchange: () => { group.join = select.value; this.update(`${path}join`); } },
      element("option", { value: "and" }, "all of these hold"), element("option", { value: "or" }, "any of these holds"));
    select.value = group.join;
    return element("p", { class: "join" }, select);
  }

  step(group, step, at, thing) {
    const relation = new NameField({
      label: "Relation", value: step.words || step.relation, key: `${at}-relation`, find: (typed, signal) => this.relations(typed, signal, thing),
      choose: ({ label, words = label, inverse = step.inverse, limit }, chosen) => {
        if (limit) {
          group.parts.splice(group.parts.indexOf(step), 1, limit);
          return this.update(`${at}-operator`);
        }
        Object.assign(step, { relation: label, words, inverse });
        if (chosen) this.update(step.entity || step.of ? `${at}-turn` : `${at}-entity`);
        else this.tell(); // the focus is on its way elsewhere
        return undefined;
      },
    });
    const it = element("span", { class: "it" }, thing);
    const other = step.of ? element("span", { class: "something" }, "something") : this.entity(step, at);
    const ends = step.inverse ? [other, relation.node, it] : [it, relation.node, other];
    return [
      element("div", { class: "line" }, this.not(step, at), ...ends, element("span", { class: "tools" },
        tool("Read the relation the other way", `${at}-turn`, () => { step.inverse = !step.inverse; this.update(`${at}-turn`); }, "⇄"),
        step.of
          ? button({ class: "quiet", "data-key": `${at}-of`, onclick: () => { delete step.of; this.update(`${at}-entity`); } }, "one entity")
          : button({ class: "quiet", "data-key": `${at}-of`, onclick: () => this.open(step, at) }, "of which …"),
        this.remove(group, step, at))),
      ...(step.of ? [element("p", { class: "which" }, "of which"), this.drawn(step.of, `${at}-`, "that")] : []),
    ];
  }

  open(step, at) {
    Object.assign(step, { entity: "", name: "", of: newGroup("and", newStep()) });
    this.update(`${at}-0-relation`);
  }

  limit(group, part, at, thing) {
    if (!this.values) this.learn(); // of a graph without attributes
    const [fields, hint] = this.values ? [this.values.limitLine(this, part, at, { thing, nested: thing === "that" }), this.values.rangeHint(part)] : [[], []];
    return [element("div", { class: "line" }, this.not(part, at), ...fields, element("span", { class: "tools" }, this.remove(group, part, at))), ...hint];
  }

  nested(group, part, at, thing) {
    return [element("div", { class: "line" }, this.not(part, at), element("span", { class: "it" }, `${thing} is one of which`), element("span", { class: "tools" }, this.remove(group, part, at))),
      this.drawn(part, `${at}-`, thing)];
  }

  not(part, at) {
    return button({ class: "not", "aria-pressed": String(part.not), "data-key": `${at}-not`, onclick: () => { part.not = !part.not; this.update(`${at}-not`); } }, "not");
  }

  remove(group, part, at) {
    return tool("Remove the condition", `${at}-remove`, () => {
      group.parts.splice(group.parts.indexOf(part), 1);
      if (!this.group.parts.length) this.group.parts.push(newStep());
      const path = at.replace(/\d+$/, "");
      this.update(group.parts.length ? `${path}0-${isLimit(group.parts[0]) ? "attribute" : "relation"}` : `${path}+`);
    }, "×");
  }

  entity(step, at) {
    return new NameField({
      label: "Entity", value: step.name || step.entity, key: `${at}-entity`,
      find: (typed, signal) => names("entities", typed, signal, step.relation ? { relation: step.relation, end: step.inverse ? "subject" : "object" } : null),
      choose: ({ label, name }) => { Object.assign(step, { entity: label, name }); this.tell(); },
    }).node;
  }

  /** Relations in both directions, each as the condition would read, and attributes. */
  async relations(typed, signal, thing) {
    const [relations, attributes] = await Promise.all([names("relations", typed, signal), hasAttributes() ? names("attributes", typed, signal) : []]);
    const limits = attributes.map((match) => ({ ...match, name: match.words, shown: match.words, note: match.unit || match.kind, before: `${thing} has `, after: " …", limit: newLimit(match) }));
    return [...relations.flatMap((match) => {
      const option = { ...match, name: match.words, shown: match.words, note: match.words === match.label ? "" : match.label };
      return [{ ...option, inverse: false, before: `${thing} `, after: " …" }, { ...option, inverse: true, before: "… ", after: ` ${thing}` }];
    }), ...limits];
  }
}

