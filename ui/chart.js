// Bars, and the ring.

import { count, h } from "./dom.js";

export const colors = ["#2f7d6d", "#d2691e", "#4a6fa5", "#b5446e", "#8a7a2b", "#6b4fa0", "#3c8dad", "#a34f2b", "#5d8a3a", "#7b5b57"];

// Each bar is a link, if `link` makes one for it; `label` says what it stands for.
export function bars(numbers, { title, label, link }) {
  const width = 600, height = 120, gap = numbers.length > 40 ? 1 : 3;
  const most = Math.max(1, ...numbers);
  const step = width / numbers.length;
  return h("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "group", "aria-label": title },
    numbers.map((number, i) => {
      const size = number === 0 ? 0 : Math.max(2, (number / most) * (height - 16));
      const text = `${label(i)}: ${count(number)}`;
      const parts = [
        h("title", {}, text),
        h("rect", { class: "hit", x: i * step, y: 0, width: step, height }),
        h("rect", { class: "bar", x: i * step + gap / 2, y: height - size, width: Math.max(.5, step - gap), height: size }),
      ];
      return link && number > 0 ? h("a", { svg: true, href: link(i), "aria-label": text }, parts) : h("g", {}, parts);
    }));
}

function point(angle, radius) {
  return `${(100 + radius * Math.sin(angle)).toFixed(2)} ${(100 - radius * Math.cos(angle)).toFixed(2)}`;
}

// Parts of a ring, of 0 to 1 each, one after another.
export function ring(parts, title) {
  let at = 0;
  return h("svg", { class: "ring", viewBox: "0 0 200 200", role: "img", "aria-label": title },
    parts.map(({ share, color, text }) => {
      const from = at * 2 * Math.PI, to = Math.min(at + share, at + .99999) * 2 * Math.PI;
      const large = to - from > Math.PI ? 1 : 0;
      at += share;
      return h("path", { fill: color, d: `M ${point(from, 95)} A 95 95 0 ${large} 1 ${point(to, 95)} L ${point(to, 60)} A 60 60 0 ${large} 0 ${point(from, 60)} Z` },
        h("title", {}, text));
    }));
}
