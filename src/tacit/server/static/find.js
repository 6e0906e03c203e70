// The search field for entities and attributes: a combobox whose choice opens a page.
import { attributeAddress, entityAddress } from "./links.js";
import { Listbox } from "./listbox.js";
import { hasAttributes, names } from "./service.js";

/** Let a form with a field and a list find entities; `go` opens an address. */
export function find(form, go) {
  const field = form.querySelector("input");
  const box = new Listbox(field, form.querySelector("ul"), ({ label, attribute }) => choose(label, attribute));

  function choose(label, attribute = false) {
    field.value = "";
    field.blur();
    go(attribute ? attributeAddress(label) : entityAddress(label));
  }

  /** Entities, and attributes with what they are. */
  async function found(typed, signal) {
    const [entities, attributes] = await Promise.all([names("entities", typed, signal), hasAttributes() ? names("attributes", typed, signal) : []]);
    return [...entities, ...attributes.map((each) => ({ ...each, attribute: true, note: each.kind }))];
  }

  function suggest() {
    const typed = field.value.trim();
    box.offer((signal) => (typed ? found(typed, signal) : []), (options) => box.open(options, typed, -1));
  }

  field.addEventListener("input", suggest);
  field.addEventListener("keydown", (event) => box.key(event));
  form.addEventListener("submit", () => {
    const typed = field.value.trim();
    const plain = typed.toLowerCase();
    const exact = box.options.find(({ label, name }) => [label, name].some((text) => text.toLowerCase() === plain));
    if (typed) choose(exact?.label ?? typed, exact?.attribute);
  });
  suggest(); // of what was typed before this was loaded
}
