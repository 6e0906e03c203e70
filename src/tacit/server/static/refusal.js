// Why there is nothing to show on a page of its own, and what may have been meant.
import { byId, element } from "./element.js";

/** Say it in a section; `link` leads to a page of the same kind. */
export function refusal(section, label, error, link) {
  document.title = `${label} · Tacit`;
  byId("key").hidden = error.status !== 401;
  const meant = error.suggestions ?? [];
  const said = meant.length ? error.message.replace(/; did you mean '.*$/s, "") : error.message;
  section.replaceChildren(element("div", { class: "card refused" }, element("h1", {}, "Nothing to show"), element("p", { role: "alert" }, said),
    meant.length ? element("p", {}, "Perhaps ", ...meant.flatMap((name, i) => [i ? ", " : "", link(name)]), "?") : null));
}
