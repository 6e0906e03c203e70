// Questions asked before, kept in this browser alone.
import { button, element } from "./element.js";

const KEY = "tacit-asked";
const MOST = 30;

function kept() {
  try {
    const list = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(list) ? list.filter((each) => typeof each?.query === "string") : [];
  } catch {
    return [];
  }
}

function keep(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list.slice(0, MOST)));
  } catch { /* a browser that keeps nothing has no history */ }
}

export class AskedBefore {
  constructor(place, ask) {
    Object.assign(this, { place, ask, run: null });
  }

  /** Show the questions to a run: those to another speak of other names. */
  use(run) {
    this.run = run;
    this.draw();
  }

  own(each) { return each.run === this.run; }

  /** Put a question first; its sentence may come later. */
  add(query, sentence = "") {
    const same = (each) => this.own(each) && each.query === query;
    keep([{ query, run: this.run, sentence: sentence || (kept().find(same)?.sentence ?? "") }, ...kept().filter((each) => !same(each))]);
    this.draw();
  }

  draw() {
    const list = kept().filter((each) => this.own(each));
    const again = ({ query, sentence }) => element("li", {}, button({ class: "again", onclick: () => this.ask(query) }, sentence ? element("span", {}, sentence) : null, element("code", {}, query)));
    this.place.hidden = !list.length;
    this.place.replaceChildren(element("summary", {}, "Asked before"), element("ul", {}, ...list.map(again)),
      element("p", {}, "Kept in this browser alone. ", button({ class: "quiet", onclick: () => { keep([]); this.draw(); } }, "Forget them")));
  }
}
