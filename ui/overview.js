import { get } from "./api.js";
import { bars } from "./chart.js";
import { count, h, micro } from "./dom.js";

const MINUTE = 60000;
const stretches = [
  ["minutes", "The next hour, by minutes", MINUTE],
  ["hours", "The next day, by hours", 60 * MINUTE],
  ["days", "The next month, by days", 1440 * MINUTE],
];

function card(name, value, link, bad) {
  const inner = [h("b", {}, value), h("span", {}, name)];
  return link ? h("a", { class: bad ? "card bad" : "card", href: link }, inner) : h("div", { class: "card" }, inner);
}

const late = (hour, which) => (!hour ? "…" : hour["lateness-us"].every((number) => number === 0) ? "–" : micro(hour.lateness[which]));

function clock(at, size) {
  const text = at.toLocaleString("sv");
  return size < 1440 * MINUTE ? text.slice(11, 16) : text.slice(5, 10);
}

export function overview({ main, every }) {
  const cards = h("div", { class: "cards" });
  const ahead = h("div");
  const past = h("div");
  let before = null, rates = null, counts = null, hour = null;
  main.append(h("h1", {}, "Overview"), cards, ahead, past);

  const showCards = () => cards.replaceChildren(
    card("pops a second", rates ? rates.delivered.toFixed(1) : "…", "#/pops"),
    card("set a second", rates ? rates.created.toFixed(1) : "…"),
    card("late: half, last hour", late(hour, "p50-us")),
    card("late: 99 of 100", late(hour, "p99-us")),
    card("late: most", late(hour, "most-us")),
    card("pending", counts ? count(counts.pending) : "…", "#/timers"),
    card("retrying", counts ? count(counts.retrying) : "…", "#/timers?state=retrying", counts?.retrying > 0),
    card("dead", counts ? count(counts.dead) : "…", "#/dead", counts?.dead > 0));
  showCards();

  every(2000, async (signal) => {
    hour = await get("/history?scope=cluster", signal);
    const now = { at: performance.now(), ...hour["since-start"] };
    if (before) {
      const seconds = (now.at - before.at) / 1000;
      rates = { delivered: Math.max(0, now.delivered - before.delivered) / seconds, created: Math.max(0, now.created - before.created) / seconds };
    }
    before = now;
    showCards();
    const from = new Date(hour.from).getTime();
    past.replaceChildren(h("h2", {}, "The last hour: pops delivered, by minutes"),
      bars(hour.delivered, { title: "Pops delivered", label: (i) => clock(new Date(from + i * MINUTE), MINUTE) }));
  });

  every(5000, async (signal) => {
    counts = await get("/timers/ahead?scope=cluster", signal);
    showCards();
    const from = new Date(counts.from).getTime();
    const focused = document.activeElement?.getAttribute?.("href");
    ahead.replaceChildren(...stretches.flatMap(([name, title, size]) => [
      h("h2", {}, `${title} (${count(counts[name].reduce((a, b) => a + b, 0))} fall due)`),
      bars(counts[name], {
        title,
        label: (i) => clock(new Date(from + i * size), size),
        link: (i) => `#/timers?due-after=${new Date(from + i * size).toISOString()}&due-before=${new Date(from + (i + 1) * size).toISOString()}`,
      }),
      h("div", { class: "axis", "aria-hidden": "true" }, [0, .25, .5, .75, 1].map((part) =>
        h("span", {}, clock(new Date(from + Math.round(part * counts[name].length) * size), size)))),
    ]));
    if (counts.overdue > 0) ahead.append(h("p", { class: "soft" }, `${count(counts.overdue)} are due now, or overdue; ${count(counts.later)} come later.`));
    if (counts["nodes-unheard"] > 0) ahead.append(h("p", { class: "bad" }, `${counts["nodes-unheard"]} nodes did not answer: these counts lack theirs.`));
    if (focused) ahead.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  });
}
