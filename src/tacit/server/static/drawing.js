// The graph of a reason: entities that open on a click, and between them what was found, considered or denied.
import { branching } from "./branches.js";
import { element, shape } from "./element.js";
import { layered } from "./layers.js";
import { drawnLink } from "./links.js";
import { words } from "./words.js";

/** What an atom is drawn as. */
export const kindOf = (atom) => `${atom.negated ? "negated" : "observed"}${atom.observed ? "" : " predicted"}${atom.other ? " other" : ""}`;
const prefixOf = (atom) => `${atom.other ? "or " : ""}${atom.negated && !atom.denied ? "not " : ""}`;

/** Arrow heads, and the bar that ends what must not hold; `id` is of one drawing, since a page may have several. */
export const tips = (id) =>
  shape("defs", {}, ...["observed", "predicted", "negated", "other"].map((kind) =>
    shape("marker", { id: `${id}-${kind}`, viewBox: "0 0 8 10", refX: 7, refY: 5, markerWidth: 7, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
      shape("path", { d: kind === "negated" ? "M5 0H8V10H5z" : "M0 1L8 5L0 9z", class: `tip-${kind}` }))));

/** What kinds of lines mean, as far as they are used: a name, classes, and whether they are. */
export const keyLines = (kinds) => kinds.filter(([, , used]) => used).map(([name, classes]) =>
  element("span", {}, shape("svg", { width: 26, height: 8, "aria-hidden": "true" }, shape("g", { class: `edge ${classes}` }, shape("path", { d: "M0 4H26" }))), name));

function edge({ atom, paths, texts }, id) {
  const tip = atom.negated ? "negated" : atom.other ? "other" : atom.observed ? "observed" : "predicted";
  return shape(
    "g",
    { class: `edge ${kindOf(atom)}` },
    shape("title", {}, `${prefixOf(atom)}${atom.relation}(${atom.subject}, ${atom.object}) ${atom.score.toFixed(3)}`),
    shape("path", { d: paths[0] }),
    shape("path", { d: paths[1], "marker-end": `url(#${id}-${tip})` }),
    ...texts.map(({ kind, x, y, anchor, text }) => shape("text", { class: kind, x, y, "text-anchor": anchor }, text)),
  );
}

function node({ entity, again, beside, lines: [name, as], x, y, width, height }, role, title) {
  const [left, right] = [x - width / 2, x + width / 2];
  const [first, second] = beside
    ? [{ x: left + 13, y: y + 5 }, { x: right - 12, y: y + 4.5, "text-anchor": "end" }]
    : [{ x, y: y + (as ? -3 : 5), "text-anchor": "middle" }, { x, y: y + 14, "text-anchor": "middle" }];
  return drawnLink(
    entity,
    { class: `node ${role}${again ? " again" : ""}`, "aria-label": `${title}: open its page` },
    shape("title", {}, entity),
    shape("rect", { x: left, y: y - height / 2, width, height, rx: 10 }),
    shape("text", first, name),
    as ? shape("text", { class: "as", ...second }, as) : null,
  );
}

let drawings = 0;

/** The drawing of some atoms around the answers, a map from labels to variables; `bound` has those of other entities. */
export function drawing(answers, atoms, bound, title, width) {
  const id = `tip-${(drawings += 1)}`;
  const drawn = atoms.map((atom) => ({ ...atom, from: atom.subject_label || atom.subject, to: atom.object_label || atom.object }));
  const names = new Map(drawn.flatMap((atom) => [[atom.from, atom.subject], [atom.to, atom.object]]));
  const denied = new Set(drawn.filter((atom) => atom.denied).flatMap((atom) => [atom.from, atom.to]));
  const variable = (entity) => answers.get(entity) ?? bound.get(entity);
  const nearest = (entity) => denied.has(entity) && !answers.has(entity);
  const told = ({ entity, atom }) => {
    if (atom) return { first: prefixOf(atom) + words(atom.relation), second: atom.score.toFixed(3) };
    const as = variable(entity);
    return { first: names.get(entity), second: as === undefined ? "" : `${nearest(entity) ? "nearest " : ""}?${as}` };
  };
  const role = (entity) => (answers.has(entity) ? "answer-node" : variable(entity) === undefined ? "given" : nearest(entity) ? "bound nearest" : "bound");
  const present = [...answers.keys()].filter((label) => names.has(label));
  const roots = present.length ? present : [drawn[0].from];
  const wide = layered(roots, drawn, told);
  const { size, nodes, edges } = wide.size.width <= width ? wide : branching(roots, drawn, told, width);
  return shape(
    "svg",
    { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": title },
    tips(id),
    ...edges.map((each) => edge(each, id)),
    ...nodes.map((each) => node(each, role(each.entity), names.get(each.entity))),
  );
}
