import { get } from "./api.js";
import { count, h, relative, table } from "./dom.js";

export function destinations({ main, every }) {
  const list = h("div");
  main.append(h("h1", {}, "Destinations"), h("p", { class: "soft" }, "Of the last attempts that each node remembers, and of what goes there now."), list);
  every(2000, async (signal) => {
    const { destinations: all } = await get("/destinations?scope=cluster", signal);
    const by = new Map();
    for (const at of all) {
      const sum = by.get(at.origin) ?? { origin: at.origin, flights: 0, limit: 0, queued: 0, attempts: 0, failed: 0, p50: 0, p99: 0, last: null };
      sum.flights += at["in-flight"];
      sum.limit += at.limit;
      sum.queued += at.queued;
      sum.attempts += at.attempts;
      sum.failed += at.failed;
      sum.p50 = Math.max(sum.p50, at["p50-ms"] ?? 0);
      sum.p99 = Math.max(sum.p99, at["p99-ms"] ?? 0);
      if (at["last-failure"] && (!sum.last || at["last-failure"].at > sum.last.at)) sum.last = at["last-failure"];
      by.set(at.origin, sum);
    }
    list.replaceChildren(table([{ name: "Destination" }, { name: "In flight", number: true }, { name: "Waiting", number: true }, { name: "Attempts", number: true }, { name: "Failed", number: true }, { name: "Half take, ms", number: true }, { name: "99 of 100, ms", number: true }, { name: "Last failure" }],
      [...by.values()].sort((a, b) => b.failed - a.failed || a.origin.localeCompare(b.origin)).map((sum) => ({
        cells: [
          h("a", { href: `#/pops?to=${encodeURIComponent(sum.origin)}` }, sum.origin),
          `${sum.flights} of ${sum.limit}`, count(sum.queued), count(sum.attempts),
          h("span", { class: sum.failed > 0 ? "bad" : null }, sum.attempts > 0 ? `${count(sum.failed)} (${(100 * sum.failed / sum.attempts).toFixed(sum.failed / sum.attempts < .1 ? 1 : 0)} %)` : "0"),
          String(sum.p50), String(sum.p99),
          sum.last ? `${sum.last.status ? `HTTP ${sum.last.status}` : sum.last.error}, ${relative(sum.last.at)}` : "",
        ],
      })), "Nothing was called lately."));
  });
}
