// Completion at the caret of the question box.
import { Listbox } from "./listbox.js";
import { hasAttributes, names } from "./service.js";
import { context, quoted, variables } from "./syntax.js";

const KINDS = { entities: "entity", relations: "relation", attributes: "number", variables: "variable" };

/** What is said of a name: the range of an attribute's values, which a comparison may follow. */
const noteOf = (match, kind) => match.note || (kind === "attributes" && [match.kind, match.range].filter(Boolean).join(", ")) || KINDS[kind];

export class Completion {
  constructor(editor, list, submit) {
    Object.assign(this, { editor, submit, at: null });
    this.box = new Listbox(editor.area, list, (option) => this.take(option));
    const area = editor.area;
    area.addEventListener("input", () => this.suggest());
    area.addEventListener("keydown", (event) => this.key(event));
    area.addEventListener("blur", () => this.close());
    area.addEventListener("click", () => this.close());
  }

  suggest() {
    const at = this.caretContext();
    if (!at) return this.close();
    // What is listed already and still fits can be taken at once, before the service has answered.
    const fits = ({ label, name }) => at.typed && ` ${label} ${name}`.toLowerCase().includes(` ${at.typed.toLowerCase()}`);
    if (this.box.options.length) this.open(at, this.box.options.filter((option) => option.kind === at.kind && fits(option)));
    return this.box.offer((signal) => this.find(at, signal), (options) => this.open(at, options));
  }

  caretContext() {
    const { selectionStart, selectionEnd } = this.editor.area;
    return selectionStart === selectionEnd ? context(this.editor.text, selectionStart) : null;
  }

  async find(at, signal) {
    const used = variables(this.editor.text.slice(0, at.start) + " " + this.editor.text.slice(at.end));
    const named = used.map((name) => ({ label: name, name, text: name, kind: "variables", note: KINDS.variables }));
    if (at.kind === "variables") return named.filter((option) => option.label.startsWith(at.typed) && option.label !== at.typed);
    const kinds = at.kind === "relations" && hasAttributes() ? ["relations", "attributes"] : [at.kind];
    const found = await Promise.all(kinds.map((kind) => names(kind, at.typed, signal, at.near)));
    const labels = kinds.flatMap((kind, place) => found[place].map((match) => ({ ...match, kind: at.kind, value: kind === "attributes", note: noteOf(match, kind) })));
    return at.kind === "entities" && !at.typed ? [...named, ...labels] : labels;
  }

  open(at, options) {
    const whole = options.length === 1 && options[0].text === quoted(at.typed) && at.kind === "entities";
    if (!options.length || whole) return this.close();
    this.at = at;
    this.box.open(options, at.typed);
    const { area } = this.editor;
    const place = this.editor.placeOf(at.start);
    const most = area.clientWidth - Math.min(this.box.list.offsetWidth, area.clientWidth);
    this.box.list.style.left = `${Math.max(0, Math.min(place.x - 14, most))}px`;
    this.box.list.style.top = `${place.y}px`;
    return undefined;
  }

  close() {
    this.at = null;
    this.box.close();
  }

  take(option) {
    const at = this.caretContext() ?? this.at; // more may have been typed since the list was made
    const opens = ["relations", "attributes"].includes(option.kind) && !/^\s*(?:\(|\^|⁻)/.test(this.editor.text.slice(at.end));
    this.close();
    this.editor.replace(at.start, at.end, option.text + (opens ? "(" : ""));
  }

  key(event) {
    if (this.box.key(event)) return;
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.suggest();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.close();
      this.submit();
    }
  }
}
