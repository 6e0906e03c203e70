// Why an answer came: its reason as a small graph, with the answer at the right or at the bottom, and as text.
import { element, shape } from "./element.js";

export const shown = (score) => (score > 0 && score < 0.0005 ? "<0.001" : score.toFixed(3));

const HEIGHT = 34;
const NARROW = 560;
const clipped = (label, most) => (label.length > most ? `${label.slice(0, most - 1)}…` : label);
const widthOf = (label) => Math.max(56, 8.1 * label.length + 26);

/** How far each entity is from the answer, in atoms. */
function distances(answer, atoms) {
  const far = new Map([[answer, 0]]);
  const queue = [answer];
  while (queue.length) {
    const here = queue.shift();
    for (const { subject, object } of atoms) {
      for (const [from, to] of [[subject, object], [object, subject]]) {
        if (from === here && !far.has(to)) {
          far.set(to, far.get(here) + 1);
          queue.push(to);
        }
      }
    }
  }
  for (const { subject, object } of atoms) for (const end of [subject, object]) if (!far.has(end)) far.set(end, 1);
  return far;
}

/** Places for all entities: columns by distance where there is room, rows where there is not. */
function places(answer, atoms, width) {
  const far = distances(answer, atoms);
  const layers = [];
  for (const [entity, distance] of far) (layers[distance] ??= []).push(entity);
  const depth = layers.length;
  const upright = width < NARROW || depth > 4;
  const most = upright ? Math.max(10, Math.floor(width / Math.max(...layers.map((l) => l.length)) / 8.1) - 5) : 24;
  const labels = new Map([...far.keys()].map((entity) => [entity, clipped(entity, most)]));
  const nodes = new Map();
  const across = Math.max(...layers.map((layer) => layer.length));
  if (upright) {
    layers.forEach((layer, distance) => layer.forEach((entity, i) => {
      nodes.set(entity, { x: ((i + 0.5) * width) / layer.length, y: 40 + (depth - 1 - distance) * 128 });
    }));
    return { nodes, labels, size: { width, height: (depth - 1) * 128 + 86 }, upright };
  }
  const widest = layers.map((layer) => Math.max(...layer.map((entity) => widthOf(labels.get(entity)))));
  const gap = Math.min(210, Math.max(150, (width - widest.reduce((a, b) => a + b, 0)) / Math.max(1, depth - 1)));
  const total = widest.reduce((a, b) => a + b, 0) + gap * (depth - 1) + 8;
  const height = across * 100 + 12;
  let right = total - 4;
  layers.forEach((layer, distance) => {
    layer.forEach((entity, i) => nodes.set(entity, { x: right - widest[distance] / 2, y: 12 + ((i + 0.5) * (height - 12)) / layer.length }));
    right -= widest[distance] + gap;
  });
  return { nodes, labels, size: { width: total, height }, upright };
}

/** Where a line from the centre of a box towards a point leaves the box. */
function border(from, towards, half) {
  const [dx, dy] = [towards.x - from.x, towards.y - from.y];
  const scale = Math.min(half.x / Math.max(Math.abs(dx), 1e-6), half.y / Math.max(Math.abs(dy), 1e-6));
  return { x: from.x + dx * Math.min(scale, 1), y: from.y + dy * Math.min(scale, 1) };
}

/** The first of some places where a label covers no other label and no entity, or the one where it covers least. */
function freest(name, spots, taken) {
  const box = ({ x, y }) => ({ x, y: y + 1, half: { x: Math.max(20, 3.4 * name.length), y: 20 } });
  const shared = (a, b, axis) => Math.max(0, a.half[axis] + b.half[axis] - Math.abs(a[axis] - b[axis]));
  const covered = (spot) => taken.reduce((sum, other) => sum + shared(box(spot), other, "x") * shared(box(spot), other, "y"), 0);
  const best = spots.reduce((least, spot) => (covered(spot) < covered(least) ? spot : least));
  taken.push(box(best));
  return best;
}

function edge(atom, layout, bend) {
  const kind = atom.negated ? "negated" : atom.observed ? "observed" : "predicted";
  const half = (entity) => ({ x: widthOf(layout.labels.get(entity)) / 2 + 3, y: HEIGHT / 2 + 3 });
  const [from, to] = [layout.nodes.get(atom.subject), layout.nodes.get(atom.object)];
  const not = atom.negated && !atom.denied ? "not " : "";
  const name = `${not}${clipped(atom.relation, 22)}`;
  let path;
  let middle;
  if (atom.subject === atom.object) {
    const side = layout.upright && atom.subject === layout.answer ? -1 : 1; // away from the name of its variable
    path = `M${from.x - 12} ${from.y + 17 * side}C${from.x - 44} ${from.y + 64 * side} ${from.x + 44} ${from.y + 64 * side} ${from.x + 12} ${from.y + 19 * side}`;
    middle = freest(name, [{ x: from.x, y: from.y + 52 * side }], layout.taken);
  } else {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy) || 1;
    const control = { x: (from.x + to.x) / 2 - (dy / length) * bend * 2, y: (from.y + to.y) / 2 + (dx / length) * bend * 2 };
    const [start, end] = [border(from, control, half(atom.subject)), border(to, control, half(atom.object))];
    path = `M${start.x} ${start.y}Q${control.x} ${control.y} ${end.x} ${end.y}`;
    const along = (axis, t) => (1 - t) ** 2 * start[axis] + 2 * t * (1 - t) * control[axis] + t ** 2 * end[axis];
    middle = freest(name, [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73].map((t) => ({ x: along("x", t), y: along("y", t) })), layout.taken);
  }
  return shape(
    "g",
    { class: `edge ${kind}${atom.observed ? "" : " predicted"}` },
    shape("title", {}, `${not}${atom.relation}(${atom.subject}, ${atom.object}) ${atom.score.toFixed(3)}`),
    shape("path", { d: path, "marker-end": `url(#tip-${kind})` }),
    shape("text", { class: "label", x: middle.x, y: middle.y - 8, "text-anchor": "middle" }, name),
    shape("text", { class: "value", x: middle.x, y: middle.y + 17, "text-anchor": "middle" }, atom.score.toFixed(3)),
  );
}

function node(entity, layout, role, variable, title = entity) {
  const { x, y } = layout.nodes.get(entity);
  const label = layout.labels.get(entity);
  const width = widthOf(label);
  const below = layout.upright && role === "answer-node"; // its edges come from above
  return shape(
    "g",
    { class: `node ${role}` },
    shape("title", {}, title),
    shape("rect", { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT, rx: 10 }),
    shape("text", { x, y: y + 5, "text-anchor": "middle" }, label),
    variable ? shape("text", { class: "as", x, y: y + (below ? HEIGHT / 2 + 15 : -HEIGHT / 2 - 6), "text-anchor": "middle" }, `?${variable}`) : null,
  );
}

const tip = (kind) =>
  shape("marker", { id: `tip-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
    shape("path", { d: "M0 0L8 4L0 8z", class: `tip-${kind}` }));

/** The drawing of some atoms around an answer. */
function drawing(answer, label, target, atoms, variables, width) {
  const layout = places(answer, atoms, Math.max(280, width));
  layout.answer = answer;
  if (atoms.some((atom) => atom.subject === atom.object)) layout.size.height += 30; // room for a loop at the bottom
  layout.taken = [...layout.nodes].map(([entity, { x, y }]) => ({ x, y, half: { x: widthOf(layout.labels.get(entity)) / 2, y: HEIGHT / 2 } }));
  const named = new Map(Object.entries(variables).map(([variable, entity]) => [entity, variable]));
  const seen = new Map();
  const edges = atoms.map((atom) => {
    const pair = [atom.subject, atom.object].sort().join("\n");
    const count = seen.get(pair) ?? 0;
    seen.set(pair, count + 1);
    const turn = atom.subject < atom.object ? 1 : -1;
    return edge(atom, layout, turn * (count ? (count % 2 ? 1 : -1) * 26 * Math.ceil(count / 2) : 0));
  });
  const nodes = [...layout.nodes.keys()].map((entity) =>
    entity === answer ? node(entity, layout, "answer-node", target, label) : node(entity, layout, named.has(entity) ? "bound" : "given", named.get(entity)));
  const { size } = layout;
  return shape(
    "svg",
    { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": `The reason for ${answer} as a graph; its facts are listed below` },
    shape("defs", {}, tip("observed"), tip("predicted"), tip("negated")),
    ...edges,
    ...nodes,
  );
}

/** What the lines mean, as far as they occur. */
function legend(atoms) {
  const negated = atoms.filter((atom) => atom.negated);
  const denial = negated.some((atom) => atom.denied) ? "must not be found: this comes nearest" : "must not hold: a low score is a good one";
  const kinds = [
    ["known fact", "edge observed", atoms.some((a) => a.observed && !a.negated)],
    ["predicted", "edge predicted", atoms.some((a) => !a.observed && !a.negated)],
    [denial, `edge negated ${negated.every((a) => a.observed) ? "" : "predicted"}`, negated.length],
  ];
  return element("p", { class: "key-lines" }, ...kinds.filter(([, , used]) => used).map(([name, classes]) =>
    element("span", {}, shape("svg", { width: 26, height: 8, "aria-hidden": "true" }, shape("g", { class: classes }, shape("path", { d: "M0 4H26" }))), name)));
}

/** The entities chosen in a part, by variable. */
const chosen = (part) => Object.assign({}, part.variables, ...(part.parts ?? []).map(chosen));

/** Whether a part is a `not exists`: what it holds is then the candidate that comes nearest to what is denied. */
const denies = (part) => part.kind === "not" && (part.parts[0].kind === "exists" || Object.keys(chosen(part.parts[0])).length > 0);

/** The atoms that carry an answer: of an `or`, those of the part that did. */
function carrying(part, denied = false) {
  if (part.atom) return [{ ...part.atom, denied }];
  return (part.parts ?? []).filter((each) => each.carried !== false).flatMap((each) => carrying(each, denied || denies(part)));
}

function fact(atom, denied) {
  return element(
    "li",
    {},
    element("code", {}, atom.negated !== denied ? element("span", { class: "not" }, "not ") : null, `${atom.relation}(${atom.subject}, ${atom.object})`),
    element("span", { class: `mark ${atom.observed ? "known" : "predicted"}` }, atom.observed ? "known" : "predicted"),
    element("span", { class: "score" }, shown(atom.score)),
  );
}

const group = (kind, title, score, lines) =>
  element("li", { class: kind }, element("span", { class: "head" }, title), element("span", { class: "score" }, shown(score)), element("ul", { class: "facts" }, ...lines));

/** A part of a reason as lines; under a `not exists`, `denied`, the atoms are those of the nearest candidate. */
function lines(part, denied = false) {
  const parts = part.parts ?? [];
  if (part.atom) return [fact(part.atom, denied)];
  if (part.kind === "or") {
    const [carried, others] = [true, false].map((wanted) => parts.filter((each) => (each.carried !== false) === wanted));
    return [...carried.flatMap((each) => lines(each, denied)), ...others.map((each) => group("other", "or", each.score, lines(each, denied)))];
  }
  if (denies(part)) {
    const nearest = Object.entries(chosen(parts[0])).map(([name, entity]) => `?${name} = ${entity}`).join(", ");
    return [group("nearest", `nothing found; nearest: ${nearest}`, parts[0].score, lines(parts[0], !denied))];
  }
  return parts.flatMap((each) => lines(each, denied));
}

/** Whether the search may have missed better answers, and the way to find them. */
function verdict(certified, exactly) {
  if (certified === null) return null;
  if (certified) return element("p", { class: "verdict" }, "The search provably missed nothing: these are the exact best answers.");
  return element("p", { class: "verdict" }, "The beam dropped candidates that may lead to better answers.",
    element("button", { type: "button", class: "quiet", onclick: exactly }, "Search exactly"));
}

/** One way to an answer: its graph, and its atoms as text. */
function way(answer, witness, target, width) {
  const tree = witness.tree ?? { kind: "and", parts: witness.atoms.map((atom) => ({ kind: "atom", atom })) };
  const atoms = carrying(tree);
  if (!atoms.length) return [];
  const { facts = atoms.length, predicted = atoms.filter((atom) => !atom.observed).length } = witness;
  const name = answer.name || answer.entity;
  return [
    element("figure", { tabindex: "0", "aria-label": `Why ${name}` }, drawing(name, answer.entity, target, atoms, witness.variables, width)),
    legend(atoms),
    element("ul", { class: "facts" }, ...lines(tree)),
    facts > 1 ? element("p", { class: "share" }, `${predicted} of ${facts} atoms predicted`) : null,
  ];
}

/** The reasons for an answer. */
export function reason(answer, target, width, certified, exactly) {
  const ways = (answer.witnesses ?? []).map((witness) => way(answer, witness, target, width)).filter((each) => each.length);
  if (!ways.length) return element("div", { class: "why" }, element("p", {}, "This search gives no reasons; beam and exact search do."));
  const told = ways.flatMap((each, i) => (i ? [element("p", { class: "second" }, `Or ${shown(answer.witnesses[i].score)}, because`), ...each] : each));
  return element("div", { class: "why" }, ...told, verdict(certified, exactly));
}
