// Which view the address names: a question's, or that of an entity, whose code is loaded when it is first wanted.
import { element } from "./element.js";
import { follow } from "./links.js";

/** Load a style sheet, and wait for it. */
const styled = (address) => new Promise((done) => document.head.append(element("link", { rel: "stylesheet", href: address, onload: done, onerror: done })));

const wanted = () => new URLSearchParams(location.search).get("entity");

export class Explore {
  /** `question` shows the question that the address names. */
  constructor(section, form, question) {
    Object.assign(this, { section, page: null, title: "" });
    const visit = () => { question(); scrollTo(0, 0); };
    const go = (address) => { history.pushState(null, "", address); visit(); };
    follow(visit);
    form.addEventListener("focusin", async () => (await import("./find.js")).find(form, go), { once: true });
    form.addEventListener("submit", (event) => event.preventDefault());
    if (wanted() !== null) section.parentElement.toggleAttribute("data-entity-view", true); // before anything else is seen
  }

  /** Show the entity that the address names, and tell whether nothing is left to do: also where `still()` the question stands. */
  restore(still) {
    const label = wanted();
    const visited = !this.section.hidden;
    if (label !== null && !visited) this.title = document.title;
    this.page?.leave();
    this.section.hidden = label === null;
    this.section.parentElement.toggleAttribute("data-entity-view", label !== null);
    if (label !== null) this.open(label);
    else if (visited && still()) document.title = this.title;
    else return false;
    return true;
  }

  async open(label) {
    this.loading ??= Promise.all([import("./entity.js"), styled("/static/entity.css")]);
    const [{ EntityPage }] = await this.loading;
    this.page ??= new EntityPage(this.section);
    if (wanted() === label) this.page.open(label);
  }
}
