// How the values of an attribute are spread: bars over the line of numbers.
import { fitted } from "./boxes.js";
import { element, shape } from "./element.js";

const HEIGHT = 110;

/** The bars with their ends; nothing where there are no values. */
export function histogram({ counts, edges, texts, log }, unit, most) {
  if (!counts.length || counts.length === 1) return null;
  const width = Math.min(1000, most);
  const highest = Math.max(...counts);
  const step = width / counts.length;
  const inUnit = unit ? ` ${unit}` : "";
  const said = (place) => `${counts[place].toLocaleString("en")} from ${texts[place]} to ${texts[place + 1]}${inUnit}`;
  const bars = counts.map((count, place) => {
    const height = count ? Math.max(3, (count / highest) * (HEIGHT - 4)) : 0;
    return shape("g", {}, shape("title", {}, said(place)), shape("rect", { class: "slot", x: place * step, y: 0, width: step, height: HEIGHT }),
      shape("rect", { class: "bar-of", x: place * step + 1, y: HEIGHT - height, width: Math.max(1, step - 2), height, rx: 2 }));
  });
  const marks = [0, Math.floor(counts.length / 2), counts.length].map((place, i) => shape("text", { x: place * step, y: HEIGHT + 17, "text-anchor": ["start", "middle", "end"][i] }, fitted(texts[place], width / 3 - 6, 12).text));
  const fullest = counts.indexOf(highest);
  return element("figure", { class: "histogram" },
    shape("svg", { width, height: HEIGHT + 22, viewBox: `0 0 ${width} ${HEIGHT + 22}`, role: "img", "aria-label": `Histogram of ${counts.length} ranges from ${texts[0]} to ${texts.at(-1)}${inUnit}; the most values lie in one: ${said(fullest)}` },
      ...bars, shape("path", { class: "axis", d: `M0 ${HEIGHT}H${width}` }), ...marks),
    log ? element("figcaption", {}, "Each bar is as much wider than the one before as that is, in proportion.") : null);
}
