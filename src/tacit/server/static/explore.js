// Which view the address names: a question's, or that of an entity or an attribute, whose code is loaded when it is first wanted.
import { element } from "./element.js";
import { follow } from "./links.js";

/** Load a style sheet, and wait for it. */
const styled = (address) => new Promise((done) => document.head.append(element("link", { rel: "stylesheet", href: address, onload: done, onerror: done })));

const PAGES = { entity: () => import("./entity.js"), attribute: () => import("./attribute.js") };

/** The kind of page that the address names, and its label. */
function wanted() {
  const given = new URLSearchParams(location.search);
  const kind = Object.keys(PAGES).find((each) => given.has(each));
  return kind === undefined ? null : { kind, label: given.get(kind) };
}

export class Explore {
  /** `question` shows the question that the address names. */
  constructor(section, form, question) {
    Object.assign(this, { section, pages: {}, title: "" });
    const visit = () => { question(); scrollTo(0, 0); };
    const go = (address) => { history.pushState(null, "", address); visit(); };
    follow(visit);
    form.addEventListener("focusin", async () => (await import("./find.js")).find(form, go), { once: true });
    form.addEventListener("submit", (event) => event.preventDefault());
    if (wanted() !== null) section.parentElement.toggleAttribute("data-entity-view", true); // before anything else is seen
  }

  /** Show what the address names, and tell whether nothing is left to do: also where `still()` the question stands. */
  restore(still) {
    const named = wanted();
    const visited = !this.section.hidden;
    if (named !== null && !visited) this.title = document.title;
    for (const page of Object.values(this.pages)) page.leave();
    this.section.hidden = named === null;
    this.section.parentElement.toggleAttribute("data-entity-view", named !== null);
    if (named !== null) this.open(named);
    else if (visited && still()) document.title = this.title;
    else return false;
    return true;
  }

  async open({ kind, label }) {
    this.style ??= styled("/static/entity.css");
    const [{ Page }] = await Promise.all([PAGES[kind](), this.style]);
    this.pages[kind] ??= new Page(this.section);
    const now = wanted();
    if (now?.kind === kind && now.label === label) this.pages[kind].open(label);
  }
}
