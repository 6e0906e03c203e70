// The builder: a question as rows of choices, each a condition on what is asked for.
import { button, element } from "./element.js";
import { NameField } from "./name_field.js";
import { isGroup, newGroup, newStep, written } from "./outline.js";
import { names } from "./service.js";

const tool = (label, key, onclick, sign) => button({ class: "tool", "aria-label": label, title: label, "data-key": key, onclick }, sign);

export class Builder {
  /** `changed(text)` is told of the question whenever a choice changes it. */
  constructor(place, changed) {
    Object.assign(this, { place, changed, group: newGroup("and", newStep()), reason: null });
    this.draw();
  }

  /** Show a question as the service understands it; `reason` says why it has no conditions. */
  show(outline, reason = null) {
    const group = outline ?? newGroup("and", newStep());
    if (!reason && this.reason === reason && written(group) === written(this.group)) return;
    const focus = this.place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    Object.assign(this, { group: group.parts.length ? group : newGroup("and", newStep()), reason });
    this.draw();
    this.go(focus);
  }

  /** Draw what was changed, tell of it, and go to a field. */
  update(focus = null) {
    this.draw();
    this.changed(written(this.group));
    this.go(focus);
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
    this.place.replaceChildren(this.drawn(this.group, "", "it"));
  }

  /** A group with its rows; `path` tells its fields apart, and `thing` is what it speaks of. */
  drawn(group, path, thing) {
    const rows = group.parts.map((part, index) => {
      const at = `${path}${index}`;
      return element("li", { class: isGroup(part) ? "nested" : "step" }, ...(isGroup(part) ? this.nested(group, part, at, thing) : this.step(group, part, at, thing)));
    });
    const add = (part, at) => { group.parts.push(part); this.update(`${path}${group.parts.length - 1}${at}`); };
    return element("div", { class: "group", role: "group", "aria-label": path ? `Conditions on ${thing}` : "Conditions on what is asked for" },
      group.parts.length > 1 ? this.join(group, path) : null,
      element("ul", {}, ...rows),
      element("div", { class: "add" },
        button({ class: "quiet", onclick: () => add(newStep(), "-relation"), "data-key": `${path}+` }, "+ condition"),
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
      choose: ({ label, words = label, inverse = step.inverse }, chosen) => {
        Object.assign(step, { relation: label, words, inverse });
        if (chosen) this.update(step.entity || step.of ? `${at}-turn` : `${at}-entity`);
        else this.changed(written(this.group)); // the focus is on its way elsewhere
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
      this.update(group.parts.length ? `${path}0-relation` : `${path}+`);
    }, "×");
  }

  entity(step, at) {
    return new NameField({
      label: "Entity", value: step.name || step.entity, key: `${at}-entity`,
      find: (typed, signal) => names("entities", typed, signal, step.relation ? { relation: step.relation, end: step.inverse ? "subject" : "object" } : null),
      choose: ({ label, name }) => { Object.assign(step, { entity: label, name }); this.changed(written(this.group)); },
    }).node;
  }

  /** Relations in both directions, each as the condition would read. */
  async relations(typed, signal, thing) {
    return (await names("relations", typed, signal)).flatMap((match) => {
      const option = { ...match, name: match.words, shown: match.words, note: match.words === match.label ? "" : match.label };
      return [{ ...option, inverse: false, before: `${thing} `, after: " …" }, { ...option, inverse: true, before: "… ", after: ` ${thing}` }];
    });
  }
}

