// The search field for entities: a combobox whose choice opens an entity's page.
import { element } from "./element.js";
import { entityAddress } from "./links.js";
import { names } from "./service.js";

/** Let a form with a field and a list find entities; `go` opens an address. */
export function find(form, go) {
  const [field, list] = [form.querySelector("input"), form.querySelector("ul")];
  let matches = [];
  let active = -1;
  let pending = null;

  function close() {
    pending?.abort();
    [matches, active] = [[], -1];
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }

  function choose(label) {
    close();
    field.value = "";
    field.blur();
    go(entityAddress(label));
  }

  function mark(index) {
    active = index;
    [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === active)));
    if (active < 0) field.removeAttribute("aria-activedescendant");
    else {
      field.setAttribute("aria-activedescendant", list.children[active].id);
      list.children[active].scrollIntoView({ block: "nearest" });
    }
  }

  async function suggest() {
    pending?.abort();
    const typed = field.value.trim();
    if (!typed) return close();
    pending = new AbortController();
    const { signal } = pending;
    try {
      const found = (await names("entities", typed, signal)).matches;
      if (signal.aborted) return undefined;
      if (!found.length) return close();
      matches = found;
      list.replaceChildren(...matches.map(({ label, name }, i) =>
        element("li", { id: `found-${i}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); choose(label); } },
          element("span", {}, name), name === label ? null : element("small", {}, label))));
      list.hidden = false;
      field.setAttribute("aria-expanded", "true");
      mark(-1);
    } catch {
      if (!signal.aborted) close();
    }
    return undefined;
  }

  field.addEventListener("input", suggest);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (matches.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1;
      mark((active + step + matches.length) % matches.length);
    } else if (event.key === "Escape") close();
  });
  form.addEventListener("submit", () => {
    const typed = field.value.trim();
    const plain = typed.toLowerCase();
    const exact = matches.find(({ label, name }) => [label, name].some((text) => text.toLowerCase() === plain));
    if (typed) choose((matches[active] ?? exact)?.label ?? typed);
  });
  suggest(); // of what was typed before this was loaded
}
