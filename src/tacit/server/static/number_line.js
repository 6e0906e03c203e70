// A comparison of values as a line of numbers: what is asked for, the bounds, and where the values lie.
import { fitted } from "./boxes.js";
import { element, shape } from "./element.js";
import { words } from "./words.js";

const WIDEST = 460;
const EDGE = 14; // left free at both ends
const BOUNDS = 20; // of the room above the line, where there are any
const LONG = 50; // from this ratio on, positive numbers are spread by their logarithms

/** Places on the line for numbers, which may be as large as numbers get. */
function scaled(numbers, width) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const log = least > 0 && most / least > LONG;
  const size = log ? Math.log : (number) => number / 2; // half of the largest difference is still a number
  const [low, high] = [size(least), size(most)];
  const gap = (high - low) * 0.12 || Math.abs(low) * 0.1 || 1;
  return (number) => EDGE + ((size(number) - low + gap) / (high - low + 2 * gap)) * (width - 2 * EDGE);
}

/** A text beside a place, within the line. */
function label(text, x, y, width, properties = {}) {
  const told = fitted(text, width - 8, 12, 550);
  const half = told.width / 2 + 2;
  return shape("text", { x: Math.max(half, Math.min(width - half, x)), y, "text-anchor": "middle", ...properties }, told.text);
}

/** The value of one entity: a dot for what is known, an interval around the median for a prediction. */
function marked({ known, numbers }, place, y, title) {
  const kind = known ? "observed" : "predicted";
  if (known) return shape("g", { class: `value ${kind}` }, shape("title", {}, title), ...numbers.map((number) => shape("circle", { cx: place(number), cy: y, r: 5.5 })));
  const [median, low, high] = numbers;
  const [left, right] = [place(low), place(high)];
  return shape("g", { class: `value ${kind}` }, shape("title", {}, title),
    shape("rect", { x: left, y: y - 6, width: Math.max(2, right - left), height: 12, rx: 6 }), shape("circle", { cx: place(median), cy: y, r: 4.5 }));
}

/** The bounds, and between them what is asked for. */
function asked({ low, high, ends, negated }, place, line, width) {
  const bounds = [[low, ends[0]], [high, ends[1]]].filter(([number]) => number !== null);
  if (!bounds.length) return [];
  const [from, to] = [low === null ? 2 : place(low), high === null ? width - 2 : place(high)];
  const kind = negated ? "asked denied" : "asked";
  const range = shape("rect", { class: kind, x: from, y: line - 9, width: Math.max(3, to - from), height: 18, rx: 3 });
  const same = ends[0] === ends[1] && bounds.length === 2 ? bounds.slice(1) : bounds;
  const room = same.length === 2 ? Math.max(40, Math.min(width - 4, to + from, 2 * width - to - from)) : width;
  const both = same.length === 2 && fitted(`${ends[0]}  ${ends[1]}`, 1e4, 12, 550).width > 2 * Math.max(0, to - from);
  const texts = both ? [label(`${ends[0]} to ${ends[1]}`, (from + to) / 2, 12, room, { class: "bound" })]
    : same.map(([number, text]) => label(text, place(number), 12, width, { class: "bound" }));
  return [range, ...bounds.map(([number]) => shape("path", { class: `${kind} tick`, d: `M${place(number)} ${line - 15}V${line + 11}` })), ...texts];
}

/** The line of a comparison with what it says; null where no value is known or predicted, or any would do. */
export function numberLine({ comparison, text }, most) {
  const values = comparison.values.filter((value) => value.numbers?.length);
  const alone = comparison.values.length === 1;
  const bounds = alone ? [comparison.low, comparison.high].filter((number) => number !== null) : [];
  if (!values.length || (alone && !bounds.length)) return null;
  const width = Math.min(WIDEST, most);
  const place = scaled([...values.flatMap((value) => value.numbers), ...bounds], width);
  const line = 14 + (bounds.length ? BOUNDS : 0);
  const height = line + 32 + (values.length - 1) * 18;
  const places = values.map((value) => place(value.numbers[0]));
  const drawn = values.flatMap((value, i) => {
    const said = alone ? value.text : `${value.entity}: ${value.text}`;
    return [marked(value, place, line, `${value.attribute} of ${value.entity}: ${value.text}`), label(said, places[i], line + 25 + i * 18, width, { class: value.known ? "known" : "guessed" })];
  });
  const caption = comparison.values.map((value) => `${words(value.attribute)} of ${value.entity}`).join(` ${comparison.sign || "and"} `);
  return element("figure", { class: "number-line" },
    element("figcaption", {}, caption, comparison.negated ? element("span", { class: "not" }, " must not lie there") : null),
    shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text },
      ...(alone ? asked(comparison, place, line, width) : []), shape("path", { class: "axis", d: `M2 ${line}H${width - 2}` }), ...drawn));
}
