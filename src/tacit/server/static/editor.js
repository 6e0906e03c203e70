// The question box: a textarea over a mirror of its text, which is coloured and can be underlined.
import { element } from "./element.js";
import { tokens } from "./syntax.js";

/** A text as coloured pieces. */
export function coloured(text, marked = null) {
  return tokens(text).map((token) => {
    const classes = [token.kind === "space" ? "" : token.kind];
    if (marked && token.start < marked.end && token.start + token.text.length > marked.start) classes.push("marked");
    return element("span", { class: classes.join(" ").trim() || null }, token.text);
  });
}

export class Editor {
  constructor(area, mirror) {
    Object.assign(this, { area, mirror, marked: null });
    area.addEventListener("input", () => {
      this.marked = null;
      this.draw();
    });
    new ResizeObserver(() => this.fit()).observe(mirror.parentElement);
    this.draw();
  }

  get text() { return this.area.value; }
  set text(value) {
    this.area.value = value;
    this.marked = null;
    this.draw();
  }

  /** Underline the name at a line and column of what was asked; at the end of the text, a blank after it. The caret stays. */
  mark(line, column) {
    const rows = this.text.trim().split("\n"); // as it was asked
    const before = [...rows.slice(0, line - 1), [...rows[line - 1]].slice(0, column - 1).join("")].join("\n"); // columns count whole letters
    const start = this.text.length - this.text.trimStart().length + before.length;
    const token = tokens(this.text).find((t) => t.start <= start && start < t.start + t.text.length);
    this.marked = { start, end: token ? token.start + token.text.length : start + 1 };
    this.draw();
  }

  /** Put a text in place of a range, the caret after it. */
  replace(start, end, text) {
    this.area.setRangeText(text, start, end, "end");
    this.area.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }

  draw() {
    const past = this.marked && this.marked.start >= this.text.length ? [element("span", { class: "marked" }, "\u00a0")] : [];
    this.mirror.replaceChildren(...coloured(this.text, this.marked), ...past, "\u200b");
    this.fit();
  }

  fit() {
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  /** Where a position of the text is drawn, in pixels from the corner of the box. */
  placeOf(position) {
    const range = document.createRange();
    let left = position;
    for (const piece of this.mirror.childNodes) {
      const node = piece.firstChild ?? piece;
      if (left <= node.length) {
        range.setStart(node, left);
        range.setEnd(node, Math.min(left + 1, node.length));
        break;
      }
      left -= node.length;
    }
    const box = this.mirror.getBoundingClientRect();
    const place = range.getBoundingClientRect();
    return { x: place.left - box.left, y: (place.bottom || box.top + 36) - box.top };
  }
}
