// Completion at the caret: a listbox that the question box controls, after the ARIA combobox pattern.
import { element } from "./element.js";
import { names } from "./service.js";
import { context, variables } from "./syntax.js";

const KINDS = { entities: "entity", relations: "relation", variables: "variable" };

/** Without case and accents, letter by letter, so that places in both texts are the same. */
const plain = (text) => text.replace(/./gsu, (letter) => letter.normalize("NFD").slice(0, letter.length)).toLowerCase();

export class Completion {
  constructor(editor, list, submit) {
    Object.assign(this, { editor, list, submit, options: [], active: -1, at: null, pending: null });
    const area = editor.area;
    area.addEventListener("input", () => this.suggest());
    area.addEventListener("keydown", (event) => this.key(event));
    area.addEventListener("blur", () => this.close());
    area.addEventListener("click", () => this.close());
  }

  async suggest() {
    this.pending?.abort();
    const at = this.caretContext();
    if (!at) return this.close();
    // What is listed already and still fits can be taken at once, before the service has answered.
    const fits = ({ label, name = label }) => at.typed && ` ${label} ${name}`.toLowerCase().includes(` ${at.typed.toLowerCase()}`);
    if (this.options.length) this.open(at, this.options.filter((option) => option.kind === at.kind && fits(option)));
    this.pending = new AbortController();
    const { signal } = this.pending;
    try {
      const options = await this.find(at, signal);
      if (!signal.aborted) this.open(at, options);
    } catch {
      if (!signal.aborted) this.close(); // one that was aborted has a successor, which decides
    }
    return undefined;
  }

  caretContext() {
    const { selectionStart, selectionEnd } = this.editor.area;
    return selectionStart === selectionEnd ? context(this.editor.text, selectionStart) : null;
  }

  async find(at, signal) {
    const used = variables(this.editor.text.slice(0, at.start) + " " + this.editor.text.slice(at.end));
    const named = used.map((name) => ({ label: name, text: name, kind: "variables" }));
    if (at.kind === "variables") return named.filter((option) => option.label.startsWith(at.typed) && option.label !== at.typed);
    const found = await names(at.kind, at.typed, signal);
    const labels = found.matches.map((match) => ({ ...match, kind: at.kind }));
    return at.kind === "entities" && !at.typed ? [...named, ...labels] : labels;
  }

  open(at, options) {
    const whole = options.length === 1 && options[0].label === at.typed && at.kind === "entities";
    if (!options.length || whole) return this.close();
    Object.assign(this, { at, options, active: at.typed ? 0 : -1 });
    this.list.replaceChildren(...options.map((option, index) => this.row(option, index, at.typed)));
    this.list.hidden = false;
    const place = this.editor.placeOf(at.start);
    const most = this.editor.area.clientWidth - Math.min(this.list.offsetWidth, this.editor.area.clientWidth);
    this.list.style.left = `${Math.max(0, Math.min(place.x - 14, most))}px`;
    this.list.style.top = `${place.y}px`;
    this.editor.area.setAttribute("aria-expanded", "true");
    return this.show();
  }

  row(option, index, typed) {
    const { label, name = label, kind } = option;
    const at = plain(name).indexOf(plain(typed));
    const parts = at < 0 || !typed ? [name] : [name.slice(0, at), element("b", {}, name.slice(at, at + typed.length)), name.slice(at + typed.length)];
    return element("li", {
      id: `option-${index}`, role: "option", "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); this.take(index); },
    }, element("span", {}, ...parts), element("small", {}, name === label ? KINDS[kind] : label));
  }

  show() {
    [...this.list.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === this.active)));
    const row = this.list.children[this.active];
    if (row) {
      this.editor.area.setAttribute("aria-activedescendant", row.id);
      row.scrollIntoView({ block: "nearest" });
    } else this.editor.area.removeAttribute("aria-activedescendant");
  }

  close() {
    this.pending?.abort();
    Object.assign(this, { options: [], active: -1, at: null });
    this.list.hidden = true;
    this.editor.area.setAttribute("aria-expanded", "false");
    this.editor.area.removeAttribute("aria-activedescendant");
  }

  take(index) {
    const at = this.caretContext() ?? this.at; // more may have been typed since the list was made
    const option = this.options[index];
    const opens = option.kind === "relations" && !/^\s*(?:\(|\^|⁻)/.test(this.editor.text.slice(at.end));
    this.close();
    this.editor.replace(at.start, at.end, option.text + (opens ? "(" : ""));
  }

  key(event) {
    const count = this.options.length;
    if (count && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : this.active < 0 ? 0 : -1;
      this.active = (this.active + step + count) % count;
      this.show();
    } else if (count && this.active >= 0 && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
      event.preventDefault();
      this.take(this.active);
    } else if (count && event.key === "Escape") {
      event.preventDefault();
      this.close();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.suggest();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.close();
      this.submit();
    }
  }
}
