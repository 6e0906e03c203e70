// The answers to the question asked last: shown, continued, and each explained where it is opened.
import { countCard, counted, estimate, nothing, rows, summary, told, waiting, warned } from "./answers.js";
import { button, element } from "./element.js";
import { reason, verdict } from "./reason.js";
import * as service from "./service.js";
import { copy, taking } from "./taking.js";

const MORE = 20;
const share = (event) => copy(location.href, event.currentTarget, "Copy it from the address bar");
const phone = () => matchMedia("(max-width: 40rem)").matches;

export class Results {
  /** `opened(name)` is told which answer is open, `grown(count)` how many are shown. */
  constructor(place, status, limits, { opened, grown, exactly, sparql }) {
    Object.assign(this, { place, status, limits, opened, grown, exactly, sparql, asked: null });
  }

  clear(...nodes) {
    this.wait?.stop();
    this.explaining?.abort();
    this.asked = null;
    this.place.replaceChildren(...nodes);
    this.place.setAttribute("aria-busy", "false");
    this.status.textContent = "";
  }

  /** Say that a question is being answered, unless that takes but a moment. */
  busy(start, cancel) {
    this.wait?.stop();
    this.place.setAttribute("aria-busy", "true");
    const wait = waiting(start, () => { cancel(); this.clear(nothing("Cancelled.", "Nothing is asked any more.")); });
    const slow = setTimeout(() => { this.asked = null; this.place.replaceChildren(...wait.nodes); }, 120);
    this.wait = { stop: () => { clearTimeout(slow); wait.stop(); } };
  }

  /** Show the reply to a question; `body` is what was asked, `open` the answer to be explained at once. */
  show(reply, body, milliseconds, open) {
    this.clear();
    const first = reply.offset ?? 0; // of answers that SPARQL passes over
    this.asked = { reply, body, first, open: null };
    const take = taking(body, () => this.asked.reply, this.sparql);
    if (reply.kind === "count") {
      this.status.textContent = estimate(reply.count);
      return this.place.replaceChildren(countCard(reply.count), take, this.plan());
    }
    if (!reply.answers.length) {
      return this.place.replaceChildren(this.none(reply), ...(reply.certified === false ? [verdict(reply, this.exactly)] : []), this.plan());
    }
    reply.answers.forEach((answer, at) => { answer.rank = first + at + 1; });
    this.list = element("ol", { class: "answers card" }, ...this.rows(reply.answers, []));
    this.list.addEventListener("keydown", (event) => this.walk(event));
    const more = button({ class: "quiet more", onclick: () => this.more(more) }, "More answers");
    more.hidden = reply.kind === "truth" || reply.answers.length < body.top || body.top >= this.limits.top;
    this.place.replaceChildren(summary(reply, milliseconds, share), ...warned(reply), this.list, more, take, this.plan());
    this.status.textContent = `${counted(reply.answers.length)}: ${told(reply)}.`;
    const wanted = reply.answers.find((answer) => named(answer) === open);
    if (wanted) this.unfold(wanted);
    return undefined;
  }

  none({ left_out: known, unknown }) {
    if (unknown) return nothing("No entity fits.", unknown.join("; "));
    return known
      ? nothing("All answers are known.", `There ${known === 1 ? "is 1" : `are ${known}`}; nothing else fits.`)
      : nothing("No entity fits.", "Loosen the question, or let the search predict: beam and exact do.");
  }

  rows(answers, before) {
    return rows(answers, before, this.asked.reply, (rank) => this.toggle(rank));
  }

  /** Add the answers that follow; what is there stays where it is. */
  async more(button) {
    const { asked } = this;
    const shown = asked.reply.answers;
    button.disabled = true;
    try {
      const top = Math.min(MORE, this.limits.top - shown.length);
      const { answers } = await service.ask({ ...asked.body, top, offset: shown.length });
      if (this.asked !== asked) return;
      answers.forEach((answer, at) => { answer.rank = asked.first + shown.length + at + 1; });
      const added = this.rows(answers, shown);
      this.list.append(...added);
      shown.push(...answers);
      this.place.querySelector(".summary h2").textContent = counted(shown.length);
      this.place.querySelector(".summary .told").textContent = told(asked.reply);
      this.status.textContent = `${counted(answers.length)} more.`;
      added.find((row) => row.dataset.rank)?.querySelector(".answer").focus({ preventScroll: true });
      button.hidden = answers.length < top || shown.length >= this.limits.top;
      this.grown(shown.length);
    } catch (error) {
      if (this.asked === asked) this.status.textContent = button.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }

  toggle(rank) {
    const { asked } = this;
    const answer = asked.reply.answers[rank - 1 - asked.first];
    const same = asked.open === rank;
    this.explaining?.abort();
    this.place.querySelectorAll(".why").forEach((box) => box.remove());
    this.place.querySelectorAll(".answer").forEach((button) => button.setAttribute("aria-expanded", "false"));
    asked.open = null;
    this.opened(same ? null : named(answer));
    if (!same) this.unfold(answer);
  }

  /** Show why an answer came; the reason is asked for now, for this answer alone, and another when it is wanted. */
  async unfold(answer, paths = 1) {
    const { asked } = this;
    asked.open = answer.rank;
    const row = this.list.querySelector(`[data-rank="${answer.rank}"]`);
    row.querySelector(".answer").setAttribute("aria-expanded", "true");
    const box = element("div", { class: "why", "aria-busy": "true" }, "Looking for the reason …");
    row.querySelector(".why")?.remove();
    row.append(box);
    if (paths > 1) row.querySelector(".answer").focus({ preventScroll: true }); // what was pressed is gone
    this.explaining = new AbortController();
    const { signal } = this.explaining;
    try {
      const { answers: [found], certified } = await service.explain({ ...asked.body, top: 1, offset: answer.rank - 1 - asked.first, paths }, signal);
      if (!found || named({ ...found, rank: answer.rank }) !== named(answer)) throw new Error("The answers are others by now; ask again.");
      box.replaceWith(this.why(found, asked, row, certified));
      if (found.witnesses?.length) row.lastChild.append(this.another(answer, found.witnesses.length, paths));
    } catch (error) {
      box.setAttribute("aria-busy", "false");
      box.textContent = error.message;
    }
  }

  why(found, asked, row, certified) {
    const { proven, answers: { length: total } } = asked.reply;
    return reason(found, row.clientWidth - (phone() ? 24 : 36), { certified, proven, total }, this.exactly);
  }

  /** The way to one more reason, or word that there is none. */
  another(answer, found, asked) {
    if (found < asked) return element("p", { class: "share" }, "There is no other reason.");
    const hidden = asked >= Math.min(2, this.limits.paths) || found > asked;
    return button({ class: "quiet another", hidden, onclick: () => this.unfold(answer, asked + 1) }, "Another reason");
  }

  plan() {
    const { body } = this.asked;
    const text = element("pre", { tabindex: "0" }, "…");
    return element("details", { class: "plan", ontoggle: async (event) => {
      if (!event.target.open) return;
      try {
        text.textContent = (await service.plan(body)).plan;
      } catch (error) {
        text.textContent = error.message;
      }
    } }, element("summary", {}, "How it is answered"), text);
  }

  walk(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const buttons = [...this.place.querySelectorAll(".answer")];
    const next = buttons[buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }
}

/** What an address calls an answer: its entity, or its rank. */
const named = (answer) => answer.entity ?? (Object.values(answer.values ?? {}).join(", ") || String(answer.rank));
