// Links between the page's own views: real addresses, which the page opens without loading itself again.
import { element, shape } from "./element.js";

/** The address of a view, on the run that is looked at. */
export function addressOf(parts) {
  const run = new URLSearchParams(location.search).get("run");
  const wanted = new URLSearchParams({ ...(run ? { run } : {}), ...parts });
  return wanted.size ? `/?${wanted}` : "/";
}

export const entityAddress = (label) => addressOf({ entity: label });

export const attributeAddress = (label) => addressOf({ attribute: label });

/** A link to another view. */
export const inside = (address, properties, ...children) => element("a", { href: address, "data-inside": "", ...properties }, ...children);

/** A link to an entity's page, by its name. */
export const entityLink = (label, name = label, properties = {}) =>
  inside(entityAddress(label), { class: "entity-link", title: name === label ? undefined : label, ...properties }, name);

/** A link to an attribute's page. */
export const attributeLink = (label, name = label) =>
  inside(attributeAddress(label), { class: "entity-link", title: name === label ? undefined : label }, name);

/** The same around a part of a drawing. */
export const drawnLink = (label, properties, ...children) => shape("a", { href: entityAddress(label), "data-inside": "", ...properties }, ...children);

/** Let links to other views change the address alone, and open what it says; another tab or window stays possible. */
export function follow(open) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-inside]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    open();
  });
}
