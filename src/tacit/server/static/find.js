// The search field for entities: a combobox whose choice opens an entity's page.
import { entityAddress } from "./links.js";
import { Listbox } from "./listbox.js";
import { names } from "./service.js";

/** Let a form with a field and a list find entities; `go` opens an address. */
export function find(form, go) {
  const field = form.querySelector("input");
  const box = new Listbox(field, form.querySelector("ul"), ({ label }) => choose(label));

  function choose(label) {
    field.value = "";
    field.blur();
    go(entityAddress(label));
  }

  function suggest() {
    const typed = field.value.trim();
    box.offer((signal) => (typed ? names("entities", typed, signal) : []), (options) => box.open(options, typed, -1));
  }

  field.addEventListener("input", suggest);
  field.addEventListener("keydown", (event) => box.key(event));
  form.addEventListener("submit", () => {
    const typed = field.value.trim();
    const plain = typed.toLowerCase();
    const exact = box.options.find(({ label, name }) => [label, name].some((text) => text.toLowerCase() === plain));
    if (typed) choose(exact?.label ?? typed);
  });
  suggest(); // of what was typed before this was loaded
}
