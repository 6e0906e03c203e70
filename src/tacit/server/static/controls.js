// The switches: what they are set to, as far as it differs from the service's own settings.
export class Controls {
  constructor(fields, changed) {
    this.fields = fields.elements ?? fields;
    this.defaults = {};
    fields.addEventListener("change", () => {
      this.fit();
      changed();
    });
  }

  /** Take the service's settings as they stand. */
  learn({ settings, limits }) {
    this.defaults = { search: settings.search, k: String(settings.k), logic: settings.logic, observed: settings.observed === "none" ? "none" : "all", new: String(settings.new) };
    this.fields.k.max = limits.k;
    this.set({});
  }

  /** The settings that differ from the service's own. */
  get() {
    const given = { search: this.fields.search.value, k: this.fields.k.value, logic: this.fields.logic.value, observed: this.fields.observed.checked ? "all" : "none", new: String(this.fields.new.checked) };
    return Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== "" && value !== this.defaults[name]));
  }

  set(given) {
    const all = { ...this.defaults, ...given };
    this.fields.search.value = all.search ?? "beam";
    this.fields.k.value = all.k ?? "";
    this.fields.logic.value = all.logic ?? "product";
    this.fields.observed.checked = all.observed !== "none";
    this.fields.new.checked = all.new === "true";
    this.fit();
  }

  fit() {
    this.fields.k.disabled = this.fields.search.value !== "beam";
    this.fields.new.disabled = !this.fields.observed.checked; // where nothing is known, everything is new
    if (this.fields.new.disabled) this.fields.new.checked = false;
  }
}

/** Settings as a request needs them. */
export const forRequest = (given) => ({
  ...given,
  ...(given.k === undefined ? {} : { k: Number(given.k) }),
  ...(given.new === undefined ? {} : { new: given.new === "true" }),
});
