// The settings: what they are set to, as far as it differs from the service's own.
const NAMES = ["search", "k", "logic", "observed"];
const MEANINGLESS = { encoder: ["k", "logic"] }; // to a search

export class Controls {
  constructor(form, changed) {
    this.fields = form.elements;
    this.defaults = {};
    for (const name of [...NAMES, "new"]) {
      this.fields[name].addEventListener("change", () => {
        this.fit();
        changed();
      });
    }
  }

  /** Take the service's settings as they stand. */
  learn({ settings, limits, encoder }) {
    const option = this.fields.search.querySelector("[value=encoder]");
    option.hidden = option.disabled = !encoder;
    option.textContent = encoder ? `encoder (${encoder})` : "encoder";
    const observed = settings.observed === "train+valid+test" ? "all" : settings.observed;
    this.defaults = { search: settings.search, k: String(settings.k), logic: settings.logic, observed, new: String(settings.new) };
    this.fields.k.max = limits.k;
    this.set({});
  }

  /** The settings that differ from the service's own. */
  get() {
    const given = { ...Object.fromEntries(NAMES.map((name) => [name, this.fields[name].value])), new: String(this.fields.new.checked) };
    const unused = MEANINGLESS[given.search] ?? [];
    return Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== "" && value !== this.defaults[name] && !unused.includes(name)));
  }

  set(given) {
    const all = { ...this.defaults, ...given };
    for (const name of NAMES) if (all[name] !== undefined) this.choose(this.fields[name], all[name]);
    this.fields.new.checked = all.new === "true";
    this.fit();
  }

  /** Set a field, to what is not offered too: the service may run with it. */
  choose(field, value) {
    if (field.options && ![...field.options].some((option) => option.value === value)) field.add(new Option(value, value));
    field.value = value;
  }

  fit() {
    this.fields.k.disabled = !["beam", "certified"].includes(this.fields.search.value);
    this.fields.logic.disabled = (MEANINGLESS[this.fields.search.value] ?? []).includes("logic");
    this.fields.new.disabled = this.fields.observed.value === "none"; // where nothing is known, everything is new
    if (this.fields.new.disabled) this.fields.new.checked = false;
  }
}

/** Settings as a request needs them. */
export const forRequest = ({ run, ...given }) => ({
  ...given,
  ...(given.k === undefined ? {} : { k: Number(given.k) }),
  ...(given.new === undefined ? {} : { new: given.new === "true" }),
});
