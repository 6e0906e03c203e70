// How wide text is, so that what is drawn fits what it says.
const pen = document.createElement("canvas").getContext("2d");

function measured(text, size, weight, family) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.documentElement).getPropertyValue(family)}`;
  return pen.measureText(text).width;
}

/** A text, cut with an ellipsis where it is wider than allowed, and how wide it is then. */
export function fitted(text, most, size, weight = 400, family = "--sans") {
  const whole = measured(text, size, weight, family);
  if (whole <= most) return { text, width: whole };
  const letters = [...text];
  let [low, high] = [1, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measured(`${letters.slice(0, middle).join("")}…`, size, weight, family) <= most) low = middle;
    else high = middle - 1;
  }
  const cut = `${letters.slice(0, low).join("").trimEnd()}…`;
  return { text: cut, width: measured(cut, size, weight, family) };
}
