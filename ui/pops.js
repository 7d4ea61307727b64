import { get, query } from "./api.js";
import { h, instant, table } from "./dom.js";

export const originOf = (uri) => uri.match(/^https?:\/\/[^/?#]+/)?.[0] ?? uri;

export function pops({ main, every, parameters }) {
  const list = h("div");
  const state = parameters.state ?? "", to = parameters.to ?? "";
  const form = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = query("#/pops", Object.fromEntries(new FormData(form)));
  } },
    h("label", {}, "State", h("select", { name: "state", onchange: () => form.requestSubmit() }, ["", "delivered", "failed", "dead"].map((name) => h("option", { value: name, selected: name === state }, name || "all")))),
    h("label", {}, "Destination begins with", h("input", { name: "to", value: to, placeholder: "http://" })),
    h("button", { class: "main" }, "Filter"));
  main.append(h("h1", {}, "Pops, as they happen"), form, list);
  every(2000, async (signal) => {
    const { pops: all } = await get(query("/pops", { scope: "cluster", limit: to ? 1000 : 100, state }), signal);
    const rows = all.filter((pop) => pop.uri.startsWith(to)).slice(0, 100);
    list.replaceChildren(table([{ name: "At" }, { name: "Timer" }, { name: "Called" }, { name: "State" }, { name: "Late", number: true }, { name: "Took", number: true }, { name: "By" }], rows.map((pop) => ({
      cells: [
        instant(pop.at), h("a", { href: `#/timer/${pop.id}` }, pop.name || pop.id.slice(0, 16)), pop.uri,
        h("span", { class: `state-${pop.state}` }, `${pop.state}: ${pop.status ?? pop.error}${pop.attempts > 1 ? `, ${pop.attempts} tried` : ""}`),
        `${pop["lateness-ms"]} ms`, `${pop["duration-ms"]} ms`, pop.node,
      ],
    })), "Nothing has popped lately."));
  });
}
