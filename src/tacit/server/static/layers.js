// A reason's graph from left to right: entities and relations take turns, layer by layer up to the answers, so that lines only
// ever cross the space between two layers and nothing covers anything else.
import { fitted } from "./boxes.js";

const GAP = { between: 34, beside: 14 }; // of layers, and inside one
const WIDEST = 210;

/** How far each entity is from the answers, in atoms; what hangs together with none of them is next to them. */
export function distances(roots, atoms) {
  const far = new Map(roots.map((root) => [root, 0]));
  const queue = [...roots];
  while (queue.length) {
    const here = queue.shift();
    for (const { from, to } of atoms) {
      for (const [near, other] of [[from, to], [to, from]]) {
        if (near === here && !far.has(other)) {
          far.set(other, far.get(here) + 1);
          queue.push(other);
        }
      }
    }
  }
  for (const { from, to } of atoms) for (const end of [from, to]) if (!far.has(end)) far.set(end, 1);
  return far;
}

const hangs = (part, other) => part.ends.includes(other.entity) || other.ends.includes(part.entity);

/** The layers from the answers on, each part beside those that it hangs on: entities at even places, atoms at odd ones. */
function layersOf(roots, atoms) {
  const far = distances(roots, atoms);
  const layers = [];
  const put = (place, part) => (layers[place] ??= []).push(part);
  for (const [entity, distance] of far) put(2 * distance, { entity, ends: [] });
  for (const atom of atoms) {
    const [from, to] = [far.get(atom.from), far.get(atom.to)];
    put(from === to ? 2 * from + 1 : from + to, { atom, ends: [atom.from, atom.to] });
  }
  layers.forEach((layer, place) => {
    const before = layers[place - 1] ?? [];
    for (const part of layer) {
      const beside = before.flatMap((other, index) => (hangs(part, other) ? [index] : []));
      part.order = beside.length ? sum(beside) / beside.length : before.length;
    }
    layer.sort((one, two) => one.order - two.order);
  });
  return layers;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** A part with the lines that are written in it, and the room they take. */
function sized(part, told) {
  const { first, second } = told(part);
  const [size, weight] = part.atom ? [12, 400] : [14, 550];
  const lines = [fitted(first, WIDEST - 24, size, weight), ...(second ? [fitted(second, WIDEST - 24, 11.5, 400, "--mono")] : [])];
  return Object.assign(part, { lines: lines.map((line) => line.text), width: Math.max(part.atom ? 40 : 52, ...lines.map((line) => line.width + 24)), height: second ? 44 : 34 });
}

/** Spread the ends of lines along the sides of what they leave, in the order of where they go. */
function spread(lines) {
  const sides = new Map();
  for (const line of lines) {
    for (const [end, other] of [["a", "b"], ["b", "a"]]) {
      const way = Math.sign(line[other].x - line[end].x);
      const sidesOf = sides.get(line[end]) ?? sides.set(line[end], { [-1]: [], 1: [] }).get(line[end]);
      sidesOf[way].push({ line, end, to: line[other].y });
    }
  }
  for (const [part, both] of sides) {
    for (const way of [-1, 1]) {
      const leaving = both[way].sort((one, two) => one.to - two.to);
      const step = Math.min(14, (part.height - 10) / leaving.length);
      leaving.forEach(({ line, end }, i) => {
        line[`${end}At`] = { x: part.x + way * (part.width / 2 + (part.atom ? -4 : 2)), y: part.y + (i - (leaving.length - 1) / 2) * step };
      });
    }
  }
}

/** The path from one point to another that leaves and arrives level. */
export function curve(from, to) {
  const middle = (from.x + to.x) / 2;
  return `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
}

/** Places for the entities and lines for the atoms: `told` says what is written in each, the answers stand at the right. */
export function layered(roots, atoms, told) {
  const columns = layersOf(roots, atoms).map((layer) => layer.map((part) => sized(part, told))).reverse();
  const widths = columns.map((column) => Math.max(...column.map((part) => part.width)));
  const heights = columns.map((column) => sum(column.map((part) => part.height)) + GAP.beside * (column.length - 1));
  const size = { width: sum(widths) + GAP.between * (columns.length - 1) + 4, height: Math.max(...heights) + 4 };
  let x = 2;
  columns.forEach((column, i) => {
    let y = (size.height - heights[i]) / 2;
    for (const part of column) {
      Object.assign(part, { x: x + widths[i] / 2, y: y + part.height / 2 });
      y += part.height + GAP.beside;
    }
    x += widths[i] + GAP.between;
  });
  const parts = columns.flat();
  const nodes = new Map(parts.filter((part) => !part.atom).map((part) => [part.entity, part]));
  const edges = parts.filter((part) => part.atom).map((part) => ({ ...part, halves: [{ a: nodes.get(part.atom.from), b: part }, { a: part, b: nodes.get(part.atom.to) }] }));
  spread(edges.flatMap((edge) => edge.halves));
  return {
    size,
    nodes: [...nodes.values()],
    edges: edges.map(({ atom, halves, lines: [label, value], x: at, y }) => ({
      atom, paths: halves.map(({ aAt, bAt }) => curve(aAt, bAt)),
      texts: [{ kind: "label", x: at, y: y - 3, anchor: "middle", text: label }, { kind: "value", x: at, y: y + 14, anchor: "middle", text: value }],
    })),
  };
}
