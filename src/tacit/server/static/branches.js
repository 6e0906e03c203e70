// A reason's graph from top to bottom, for pages that are too narrow for its layers: a tree from the answer on, a line for each
// entity. An entity that is reached a second time is drawn a second time.
import { fitted } from "./boxes.js";
import { distances } from "./layers.js";

const STEP = 26; // to the right, with each atom

/** Places for the entities and lines for the atoms: `told` says what is written in each. */
export function branching(roots, atoms, told, width) {
  const far = distances(roots, atoms);
  const [nodes, edges, drawn, followed] = [[], [], new Set(), new Set()];
  let y = 2;

  function put(entity, depth, again) {
    const x = 2 + depth * STEP;
    const { first, second } = told({ entity });
    const [name, as] = [fitted(first, width - x - 28, 14, 550), second ? fitted(second, width - x - 28, 11.5, 400, "--mono") : { width: -10 }];
    const beside = name.width + as.width + 10 <= width - x - 28; // else the variable stands below the name
    const node = { entity, again, beside, lines: [name.text, as.text], left: x, height: beside ? 34 : 44, width: 26 + (beside ? name.width + as.width + 10 : Math.max(name.width, as.width)) };
    Object.assign(node, { x: x + node.width / 2, y: y + node.height / 2 });
    nodes.push(node);
    y += node.height + 10;
    return node;
  }

  function grow(entity, depth) {
    drawn.add(entity);
    const node = put(entity, depth, false);
    const start = node.y + node.height / 2 + 2;
    for (const atom of atoms) {
      const other = atom.from === entity ? atom.to : atom.from;
      if (followed.has(atom) || ![atom.from, atom.to].includes(entity) || far.get(other) < far.get(entity)) continue;
      followed.add(atom);
      const at = y + 8;
      const { first, second } = told({ atom });
      const back = atom.from !== entity;
      const x = node.left + 13;
      const label = fitted(back ? `← ${first}` : `${first} →`, width - x - 22 - 52, 12);
      y += 32;
      const edge = { atom, texts: [{ kind: "label", x: x + 16, y: at + 4, text: label.text }, { kind: "value", x: x + 16 + label.width + 10, y: at + 4, text: second }] };
      edges.push(edge);
      const twig = [at + 9, y - 2];
      const fresh = !drawn.has(other) && far.get(other) > far.get(entity);
      if (fresh) grow(other, depth + 1);
      else put(other, depth + 1, true);
      edge.paths = back
        ? [`M${x + 26} ${twig[1]}V${twig[0]}`, `M${x + 12} ${at}H${x + 8}Q${x} ${at} ${x} ${at - 8}V${start}`]
        : [`M${x} ${start}V${at - 8}Q${x} ${at} ${x + 8} ${at}H${x + 12}`, `M${x + 26} ${twig[0]}V${twig[1]}`];
    }
    return node;
  }

  for (const root of roots) grow(root, 0);
  for (const atom of atoms) if (!followed.has(atom)) grow(atom.from, 0);
  return { size: { width, height: y - 8 }, nodes, edges: edges.reverse() }; // the upper ones over the lower ones, whose lines start at the same place
}
