// A field for one name: what is typed is completed, and what was chosen is shown as people call it.
import { element } from "./element.js";
import { Listbox } from "./listbox.js";

let made = 0;

export class NameField {
  /** `find(typed, signal)` gives options; `choose(option, chosen)` is told of one, or of what was only typed. */
  constructor({ label, value, key, find, choose }) {
    made += 1;
    const list = element("ul", { class: "options", id: `names-${made}`, role: "listbox", "aria-label": `${label}: names`, hidden: true });
    this.input = element("input", {
      type: "text", role: "combobox", "aria-label": label, placeholder: label.toLowerCase(), "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": list.id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "500", "data-key": key,
    });
    Object.assign(this, { value, find, choose });
    this.input.value = value;
    this.box = new Listbox(this.input, list, (option) => this.take(option));
    this.node = element("span", { class: "field" }, this.input, list);
    this.input.addEventListener("input", () => this.suggest());
    this.input.addEventListener("focus", () => { this.input.select(); this.suggest(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.leave());
    this.fit();
  }

  get typed() { return this.input.value === this.value ? "" : this.input.value.trim(); }

  suggest() {
    this.fit();
    const { typed } = this;
    this.box.offer((signal) => this.find(typed, signal), (options) => {
      this.box.open(options, typed);
      this.keepInside();
    });
  }

  /** Move the list to the left as far as it would leave the window. */
  keepInside() {
    const { list } = this.box;
    list.style.left = "0";
    list.style.left = `${Math.min(0, document.documentElement.clientWidth - 8 - list.getBoundingClientRect().right)}px`;
  }

  key(event) {
    if (this.box.key(event)) return;
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.suggest();
    } else if (event.key === "Enter") this.leave(); // and the form asks
  }

  take(option, chosen = true) {
    this.value = option.shown ?? option.name;
    this.input.value = this.value;
    this.fit();
    this.choose(option, chosen);
  }

  /** What was typed and not chosen counts as it stands: the service says where it is wrong. */
  leave() {
    this.box.close();
    if (this.typed) this.take({ label: this.typed, name: this.typed }, false);
    else if (!this.input.value) this.input.value = this.value;
  }

  fit() {
    this.input.size = Math.max(8, Math.min(24, this.input.value.length + 1));
  }
}
