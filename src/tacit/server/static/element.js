// Elements are made with textContent alone: a label from a graph can be any text and stays text.
const SVG = "http://www.w3.org/2000/svg";

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const element = (tag, properties = {}, ...children) => filled(document.createElement(tag), properties, children);
export const button = (properties, ...children) => element("button", { type: "button", ...properties }, ...children);
export const shape = (tag, properties = {}, ...children) => filled(document.createElementNS(SVG, tag), properties, children);
export const byId = (id) => document.getElementById(id);
