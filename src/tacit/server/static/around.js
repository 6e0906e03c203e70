// The graph around an entity: what it is the object of at its left, what it is the subject of at its right, by relation;
// on a narrow page one below the other. Nothing moves: the same facts are always drawn the same way.
import { fitted } from "./boxes.js";
import { keyLines, tips } from "./drawing.js";
import { element, shape } from "./element.js";
import { curve } from "./layers.js";
import { drawnLink } from "./links.js";
import { words } from "./words.js";

const ROW = { height: 30, gap: 8, group: 16 };
const WIDE = { groups: 6, known: 3, predicted: 2 }; // what is drawn, at most
const SLIM = { groups: 4, known: 2, predicted: 1 };
const TIGHT = 0.85; // of the room that names should have: with less, both sides do not stand beside each other

/** What is drawn of the facts by a relation: a few known ones, a few predicted ones, and how many are not drawn. */
function picked(group, most) {
  const facts = [
    ...group.known.facts.slice(0, most.known).map((fact) => ({ ...fact, known: true })),
    ...group.predicted.facts.slice(0, most.predicted).map((fact) => ({ ...fact, known: false })),
  ];
  return { group, facts, left: group.known.count + group.predicted.count - facts.length };
}

/** A row for each fact, with the text that fits into so much room, and one for those that are not drawn. */
const rowsOf = (facts, left, room) => [
  ...facts.map((fact) => ({ fact, ...fitted(fact.name, room - 22 - (fact.known ? 0 : 38), 13, 550) })),
  ...(left ? [{ left, text: `+ ${left.toLocaleString("en")} more`, width: 64 }] : []),
];

/** The rows of one side: a group has a row for each fact, and one for those that are not drawn. */
function side(groups, room) {
  let y = 0;
  return groups.slice(0, WIDE.groups).map((each) => picked(each, WIDE)).map(({ group, facts, left }) => {
    const label = fitted(words(group.name), room.label, 12);
    const rows = rowsOf(facts, left, room.node);
    const start = y;
    rows.forEach((row) => {
      row.y = y + ROW.height / 2;
      y += ROW.height + ROW.gap;
    });
    const end = y - ROW.gap;
    y = end + ROW.group;
    return { group, label, rows, y: (start + end) / 2, start, end };
  });
}

const heightOf = (groups) => groups.at(-1)?.end ?? 0;

/** A node: a link to its entity, with a dashed frame and its score where the fact is predicted. */
function node(row, x, y) {
  const [{ fact }, width] = [row, widthOf(row)];
  return drawnLink(
    fact.entity,
    { class: `node ${fact.known ? "given" : "guessed"}`, "aria-label": `${fact.name}, ${fact.known ? "known" : `predicted, ${fact.score.toFixed(2)}`}` },
    shape("title", {}, fact.known ? fact.entity : `${fact.entity}: predicted, ${fact.score.toFixed(3)}`),
    shape("rect", { x, y: y - ROW.height / 2, width, height: ROW.height, rx: 9 }),
    shape("text", { x: x + 11, y: y + 4.5 }, row.text),
    fact.known ? null : shape("text", { class: "as", x: x + width - 9, y: y + 4.5, "text-anchor": "end" }, fact.score.toFixed(2)),
  );
}

const widthOf = (row) => (row.fact ? row.width + 22 + (row.fact.known ? 0 : 38) : row.width);
const more = (row, x, y, anchor, group, reveal) =>
  shape("a", { class: "more-link", href: "#", "aria-label": `${row.text}: ${words(group.name)}`, onclick: (event) => { event.preventDefault(); reveal(group); } },
    shape("text", { x, y: y + 4.5, "text-anchor": anchor }, row.text));

const kindOf = (known) => (known ? "observed" : "observed predicted");
const tipOf = (known) => `url(#around-${known ? "observed" : "predicted"})`;

/** How much room there is for names beside an entity, as a share of what they should have. */
function roomFor(groups, width) {
  const sides = new Set(groups.map((group) => group.inverse)).size;
  return (width - 150 - 86 * sides) / (sides * 290);
}

/** Both sides of an entity, which stands in the middle. */
function beside(entity, groups, width, reveal) {
  const [right, left] = [false, true].map((inverse) => groups.filter((group) => group.inverse === inverse));
  const scale = Math.min(1.25, roomFor(groups, width));
  const room = { label: 120 * scale, node: 170 * scale };
  const [ahead, back] = [side(right, room), side(left, room)];
  const name = fitted(entity.name, 150 - 28, 14, 600);
  const box = { width: name.width + 28, height: 40 };
  const height = Math.max(heightOf(ahead), heightOf(back), box.height) + 4;
  const widest = (list, of) => Math.max(0, ...list.map(of));
  const columns = [back, ahead].map((list) => (list.length ? { label: widest(list, (g) => g.label.width), node: widest(list, (g) => widest(g.rows, widthOf)) } : { label: 0, node: 0 }));
  const reach = columns.map(({ label, node: own }) => (own ? own + label + 84 : 2));
  const total = reach[0] + box.width + reach[1];
  const [start, middle] = [reach[0], height / 2];
  const drawn = [];
  for (const [list, { label, node: own }, way, edge] of [[back, columns[0], -1, start], [ahead, columns[1], 1, start + box.width]]) {
    const top = (height - heightOf(list)) / 2;
    for (const group of list) {
      const y = top + group.y;
      const near = edge + way * (34 + 4);
      const far = near + way * (label + 8);
      const known = group.group.known.count > 0;
      const trunk = [{ x: edge + way * (way < 0 ? 3 : 1), y: middle }, { x: near + way * ((label - group.label.width) / 2 - 4), y }];
      drawn.push(shape("g", { class: `edge ${kindOf(known)}` }, shape("path", { d: curve(...trunk), ...(way < 0 ? { "marker-start": tipOf(known) } : {}) }),
        shape("text", { class: "label", x: near + way * (label / 2), y: y + 4, "text-anchor": "middle" }, shape("title", {}, group.group.name), group.label.text)));
      for (const row of group.rows) {
        const at = top + row.y;
        const x = far + way * 34;
        const line = curve({ x: far - way * (4 + (label - group.label.width) / 2), y }, { x: x - way * 3, y: at });
        drawn.push(shape("g", { class: `edge ${row.fact ? kindOf(row.fact.known) : "rest"}` }, shape("path", { d: line, ...(way > 0 && row.fact ? { "marker-end": tipOf(row.fact.known) } : {}) })));
        drawn.push(row.fact ? node(row, way < 0 ? x - widthOf(row) : x, at) : more(row, x, at, way < 0 ? "end" : "start", group.group, reveal));
      }
    }
  }
  const centre = shape("g", { class: "node answer-node" }, shape("rect", { x: start, y: middle - box.height / 2, width: box.width, height: box.height, rx: 11 }),
    shape("text", { x: start + box.width / 2, y: middle + 5, "text-anchor": "middle" }, name.text));
  return { drawn: [...drawn, centre], width: total, height };
}

/** The same as a tree from top to bottom, where a page is narrow; an arrow before or after a relation says its direction. */
function below(entity, groups, width, reveal) {
  const shownGroups = [false, true].flatMap((inverse) => groups.filter((group) => group.inverse === inverse).slice(0, SLIM.groups));
  const name = fitted(entity.name, width - 32, 14, 600);
  const drawn = [shape("g", { class: "node answer-node" }, shape("rect", { x: 1, y: 2, width: name.width + 28, height: 38, rx: 11 }), shape("text", { x: 15, y: 26 }, name.text))];
  let y = 52;
  for (const { group, facts, left } of shownGroups.map((each) => picked(each, SLIM))) {
    const known = group.known.count > 0;
    const title = fitted(group.inverse ? `← ${words(group.name)}` : `${words(group.name)} →`, width - 44, 12);
    const at = y + 10;
    drawn.unshift(shape("g", { class: `edge ${kindOf(known)}` }, shape("path", { d: `M16 40V${at - 8}Q16 ${at} 24 ${at}H30` }), shape("text", { class: "label", x: 36, y: at + 4 }, shape("title", {}, group.name), title.text)));
    y += 28;
    for (const row of rowsOf(facts, left, width - 64)) {
      const here = y + ROW.height / 2;
      drawn.unshift(shape("g", { class: `edge ${row.fact ? kindOf(row.fact.known) : "rest"}` }, shape("path", { d: `M42 ${at + 10}V${here - 8}Q42 ${here} 50 ${here}H58` })));
      drawn.push(row.fact ? node(row, 60, here) : more(row, 62, here, "start", group, reveal));
      y += ROW.height + ROW.gap;
    }
    y += 4;
  }
  return { drawn, width, height: y };
}

/** The graph around an entity as a figure; `reveal` shows all facts of a group. */
export function around(entity, groups, width, reveal) {
  const slim = roomFor(groups, width) < TIGHT;
  const { drawn, ...size } = (slim ? below : beside)(entity, groups, width, reveal);
  const most = (slim ? SLIM : WIDE).groups;
  const hidden = [false, true].map((inverse) => Math.max(0, groups.filter((group) => group.inverse === inverse).length - most));
  const omitted = hidden[0] + hidden[1];
  return element(
    "figure",
    { class: "around", "aria-label": `The graph around ${entity.name}` },
    shape("svg", { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": `The graph around ${entity.name}; all its facts are listed below` }, tips("around"), ...drawn),
    element("figcaption", { class: "key-lines" },
      ...keyLines([["known fact", "observed", true], ["predicted, with its score", "observed predicted", groups.some((group) => group.predicted.count)]]),
      omitted ? element("span", {}, `${omitted} more ${omitted === 1 ? "relation" : "relations"} below`) : null),
  );
}
