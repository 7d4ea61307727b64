import { get, query, request, settings } from "./api.js";
import { confirm, count, h, instant, table, toast } from "./dom.js";
import { originOf } from "./pops.js";
import { eachOf, timerLink } from "./timers.js";

const reason = (timer) => {
  const last = timer["last-attempt"];
  return !last ? "not known" : last.status ? `HTTP ${last.status}` : last.error;
};

export function dead({ main, every, signal }) {
  const chosen = new Set();
  const groups = h("div"), list = h("div"), bar = h("div", { class: "row" });
  main.append(h("h1", {}, "Dead pops"), groups, bar, list);

  const guard = (work) => () => work().catch((fault) => toast(fault.message));

  async function redriveAll(origin) {
    const what = { state: "dead", ...(origin ? { "uri-prefix": `${origin}/` } : {}) };
    const { matched } = await request("POST", query("/timers/redrive", { ...what, "dry-run": "yes" }));
    if (!(await confirm(`Redrive ${count(matched)} dead pops?`, origin ? `All to ${origin}.` : "All that there are.", `Redrive ${count(matched)}`, false))) return;
    const answer = await request("POST", query("/timers/redrive", what));
    toast(`${count(answer.redriven)} redriven.`);
    await load();
  }

  async function redriveChosen() {
    await eachOf(chosen, "POST", (id) => `/timers/${id}/redrive`, "redriven");
    chosen.clear();
    await load();
  }

  function showBar() {
    bar.replaceChildren(...(settings["read-only"] ? [] : [
      h("button", { type: "button", class: "main", disabled: chosen.size === 0, onclick: guard(redriveChosen) }, `Redrive selected (${chosen.size})`),
      h("button", { type: "button", onclick: guard(() => redriveAll(null)) }, "Redrive all…")]));
  }

  async function load() {
    const { timers, cursor } = await get("/timers?state=dead&scope=cluster&sort=due&limit=1000", signal);
    const by = new Map();
    for (const timer of timers) {
      const key = `${originOf(timer.callback.http.uri)} ${reason(timer)}`;
      const group = by.get(key) ?? { origin: originOf(timer.callback.http.uri), why: reason(timer), count: 0 };
      group.count++;
      by.set(key, group);
    }
    groups.replaceChildren(table([{ name: "Destination" }, { name: "Reason" }, { name: "Dead", number: true }, { name: "" }], [...by.values()].sort((a, b) => b.count - a.count).map((group) => ({
      cells: [group.origin, group.why, count(group.count) + (cursor ? " of the first 1,000" : ""),
        settings["read-only"] ? "" : h("button", { type: "button", onclick: guard(() => redriveAll(group.origin)) }, "Redrive all to it…")],
    })), "There are no dead pops."));
    showBar();
    list.replaceChildren(timers.length === 0 ? "" : table([{ name: "" }, { name: "Last tried" }, { name: "Timer" }, { name: "Calls" }, { name: "Reason" }], timers.slice(0, 300).map((timer) => ({
      cells: [
        h("input", { type: "checkbox", "aria-label": `Select ${timer.id}`, checked: chosen.has(timer.id), onchange: (event) => { event.target.checked ? chosen.add(timer.id) : chosen.delete(timer.id); showBar(); } }),
        instant(timer["last-attempt"]?.at), timerLink(timer), timer.callback.http.uri, h("span", { class: "bad" }, reason(timer)),
      ],
    }))));
  }

  every(4000, async () => { if (chosen.size === 0 && !document.querySelector("dialog")) await load(); });
}
