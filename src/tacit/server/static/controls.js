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
    this.defaults = { search: settings.search, k: String(settings.k), logic: settings.logic, observed: settings.observed === "none" ? "none" : "all" };
    this.fields.k.max = limits.k;
    this.set({});
  }

  /** The settings that differ from the service's own. */
  get() {
    const given = { search: this.fields.search.value, k: this.fields.k.value, logic: this.fields.logic.value, observed: this.fields.observed.checked ? "all" : "none" };
    return Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== "" && value !== this.defaults[name]));
  }

  set(given) {
    const all = { ...this.defaults, ...given };
    this.fields.search.value = all.search ?? "beam";
    this.fields.k.value = all.k ?? "";
    this.fields.logic.value = all.logic ?? "product";
    this.fields.observed.checked = all.observed !== "none";
    this.fit();
  }

  fit() {
    this.fields.k.disabled = this.fields.search.value !== "beam";
  }
}

/** Settings as a request needs them. */
export const forRequest = (given) => ({ ...given, ...(given.k === undefined ? {} : { k: Number(given.k) }) });
