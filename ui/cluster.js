import { get } from "./api.js";
import { colors, ring } from "./chart.js";
import { bytes, count, facts, h, span, table } from "./dom.js";

function disk(node) {
  return `${bytes(node["log-bytes"])} of log, ${bytes(node["disk-free-bytes"])} free`;
}

// Who has which share of the keys, as first of their lists.
function shares(parts) {
  const by = new Map();
  for (const [, node, partitions] of parts) by.set(node, (by.get(node) ?? 0) + partitions);
  return by;
}

function keyspace(parts) {
  const by = shares(parts);
  const all = [...by.values()].reduce((a, b) => a + b, 0);
  const names = [...by.keys()].sort();
  const color = (name) => colors[names.indexOf(name) % colors.length];
  return h("div", { class: "two" },
    ring(parts.map(([position, node, partitions]) => ({ share: partitions / all, color: color(node), text: `${node}: ${partitions} partitions from ${position} on` })), "The ring of partitions, by nodes"),
    table([{ name: "Node" }, { name: "Partitions", number: true }, { name: "Share", number: true }], names.map((name) => {
      const swatch = h("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, h("rect", { width: 1, height: 1, fill: color(name) }));
      return { cells: [[swatch, name], count(by.get(name)), `${(100 * by.get(name) / all).toFixed(1)} %`] };
    })));
}

export function cluster({ main, every }) {
  const body = h("div"), picture = h("div");
  main.append(h("h1", {}, "Cluster"), body, picture);

  every(2000, async (signal) => {
    const { clusters: all } = await get("/cluster?scope=cluster", signal);
    const own = all[0];
    const told = new Map(all.map((node) => [node.node, node]));
    const seen = [{ address: own.node, state: own.state, role: own.role, own: true }, ...own.nodes].sort((a, b) => a.address.localeCompare(b.address));
    const isMoving = own.changing || own.rebalancing || own["keys-moving"] || seen.some((node) => node.rebalancing);
    body.replaceChildren(
      table([{ name: "Node" }, { name: "State" }, { name: "Version" }, { name: "Up for" }, { name: "Memory" }, { name: "Disk" }, { name: "Holds", number: true }, { name: "Clock" }, { name: "Link" }], seen.map((node) => {
        const self = told.get(node.address);
        return { cells: [
          node.address, h("span", { class: node.state === "up" ? null : "bad" }, node.state + (node.role && node.role !== "staying" ? `, ${node.role}` : "")),
          self?.version ?? "", self ? span(self["uptime-s"]) : "", self ? `${bytes(self["memory-bytes"])} of ${bytes(self["memory-budget-bytes"])}` : "",
          self ? disk(self) : "", self ? `${count(self.held)} timers, ${count(self.keys)} keys` : "",
          node.own ? "" : `${node["clock-ms-ahead"] >= 0 ? "+" : ""}${node["clock-ms-ahead"]} ms`,
          node.own ? "asked" : `heard ${span(node["heard-ms-ago"] / 1000)} ago${node.queued > 0 ? `, ${count(node.queued)} waiting` : ""}`,
        ] };
      })),
      isMoving
        ? h("div", {}, h("h2", {}, "A change is under way"), ...all.filter((node) => node.rebalancing || node["to-rebalance"] > 0).map((node) => h("div", {},
          h("p", {}, `${node.node}: ${count(node["to-rebalance"])} timers are to move, ${node["walked-percent"]} % looked at`),
          h("progress", { max: 100, value: node["walked-percent"], "aria-label": `Progress of ${node.node}` }))),
          own["keys-moving"] ? h("p", {}, "Keys are moving.") : null)
        : "",
      h("h2", {}, "About it"),
      facts([["Cluster", own.cluster], ["Epoch", String(own.epoch)], ["View", own.view], ["Secret", own["has-secret"] ? "yes" : "no"]]),
      h("h2", {}, "To change it"),
      h("p", { class: "soft" }, "In a terminal; each shows what it does, and waits until it is done."),
      h("pre", {}, `tryst cluster status --node ${own.node} --watch\ntryst cluster join ADDRESS --node ${own.node}\ntryst cluster leave ADDRESS --node ${own.node}`));
  });

  every(15000, async (signal) => {
    const { ring: parts } = await get("/keyspace", signal);
    picture.replaceChildren(h("h2", {}, "The ring of keys"), parts.length > 0 ? keyspace(parts) : h("p", { class: "soft" }, "There is no keyspace of several nodes: ", h("code", {}, "redis-cli CREATE KEYSPACE 1024 2"), " makes one."));
  });
}
