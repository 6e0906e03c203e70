// A list of names below a field that controls it, after the ARIA combobox pattern.
import { element } from "./element.js";

/** Without case and accents, letter by letter, so that places in both texts are the same. */
const plain = (text) => text.replace(/./gsu, (letter) => letter.normalize("NFD").slice(0, letter.length)).toLowerCase();

export class Listbox {
  constructor(field, list, take) {
    Object.assign(this, { field, list, take, options: [], active: -1, pending: null });
    list.tabIndex = -1; // a browser lets Tab stop at what scrolls, and this one closes then
    field.addEventListener("blur", () => this.close());
  }

  /** Let `show` have what `find` finds, unless something else is looked for, or nothing any more, before that is there. */
  async offer(find, show) {
    this.pending?.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    try {
      const options = await find(signal);
      if (!signal.aborted) show(options);
    } catch {
      if (!signal.aborted) this.close(); // one that was aborted has a successor, which decides
    }
  }

  /** Show options, each with a `name`, perhaps a `note`, and words `before` and `after` its name; one may be `active`. */
  open(options, typed, active = typed ? 0 : -1) {
    if (!options.length) return this.close();
    Object.assign(this, { options, active });
    this.list.replaceChildren(...options.map((option, index) => this.row(option, index, typed)));
    this.expand(true);
    return this.point();
  }

  expand(open) {
    this.list.hidden = !open;
    if (this.field.role === "combobox") this.field.setAttribute("aria-expanded", String(open)); // a box of lines is none
  }

  row({ name, note, before = "", after = "" }, index, typed) {
    const at = typed ? plain(name).indexOf(plain(typed)) : -1;
    const parts = at < 0 ? [name] : [name.slice(0, at), element("b", {}, name.slice(at, at + typed.length)), name.slice(at + typed.length)];
    return element("li", {
      id: `${this.list.id}-${index}`, role: "option", "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); this.choose(index); },
    }, element("span", {}, before, ...parts, after), note ? element("small", {}, note) : null);
  }

  point() {
    [...this.list.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === this.active)));
    const row = this.list.children[this.active];
    if (row) {
      this.field.setAttribute("aria-activedescendant", row.id);
      row.scrollIntoView({ block: "nearest" });
    } else this.field.removeAttribute("aria-activedescendant");
  }

  choose(index) {
    const option = this.options[index];
    this.close();
    this.take(option);
  }

  close() {
    this.pending?.abort();
    Object.assign(this, { options: [], active: -1 });
    this.expand(false);
    this.field.removeAttribute("aria-activedescendant");
  }

  /** Whether a key was meant for the list. */
  key(event) {
    const count = this.options.length;
    if (!count) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : this.active < 0 ? 0 : -1;
      this.active = (this.active + step + count) % count;
      this.point();
    } else if (this.active >= 0 && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.choose(this.active);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    return true;
  }
}
