import { get, query, request, settings } from "./api.js";
import { confirm, count, facts, h, instant, relative, table, toast } from "./dom.js";

function one({ main, every, rest }) {
  const body = h("div");
  main.append(h("h1", {}, "Key ", rest), body, h("p", {}, h("a", { href: "#/keys" }, "All keys")));
  const remove = async () => {
    if (!(await confirm("Delete this key?", `${rest} is gone then, on all its replicas.`, "Delete"))) return;
    try {
      await request("DELETE", `/keys/${encodeURIComponent(rest)}`);
      toast("It was deleted.");
      location.hash = "#/keys";
    } catch (fault) {
      toast(fault.message);
    }
  };
  every(3000, async (signal) => {
    let key;
    try {
      key = await get(`/keys/${encodeURIComponent(rest)}`, signal);
    } catch (fault) {
      if (fault.status !== 404) throw fault;
      body.replaceChildren(h("p", {}, "There is no such key; it may have expired."));
      return;
    }
    if (document.querySelector("dialog") || body.contains(document.activeElement)) return;
    body.replaceChildren(...[
      settings["read-only"] ? null : h("div", { class: "row" }, h("button", { type: "button", class: "danger", onclick: remove }, "Delete")),
      facts([
        ["Bytes", count(key.bytes)], ["Version", key.version],
        ["Expires", key.expires ? [instant(key.expires), " ", relative(key.expires)] : "never"],
        ["Calls then", key.callback],
        ["Replicas", key.nodes?.length > 0 ? h("ol", {}, key.nodes.map((node) => h("li", {}, node))) : "this node alone"],
      ]),
      h("h2", {}, "Value"), h("pre", {}, key.value + (key.bytes > 4096 ? "…" : ""))].filter(Boolean));
  });
}

export function keys(view) {
  const { main, every, rest, parameters, signal } = view;
  if (rest) return one(view);
  const pattern = parameters.pattern ?? "";
  let names = [], cursor = null, all = null;
  const list = h("div"), told = h("p", { class: "soft" });
  const form = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = query("#/keys", Object.fromEntries([...new FormData(form)].filter(([, value]) => value)));
  } }, h("label", {}, "Pattern", h("input", { name: "pattern", value: pattern, placeholder: "user:*" })), h("button", { class: "main" }, "Search"));
  const more = h("button", { type: "button", onclick: () => load().catch((fault) => toast(fault.message)) }, "More");
  main.append(h("h1", {}, "Keys"), form, told, list, h("div", { class: "row" }, more));

  async function load() {
    const before = names.length;
    // A scan looks at so many keys at a time; those of a rare pattern are far apart.
    for (let i = 0; i < 50 && names.length < before + 100; i++) {
      const page = await get(query("/keys", { limit: 1000, pattern, cursor }), signal);
      names = [...new Set([...names, ...page.keys])];
      cursor = page.cursor ?? null;
      all = page.all ?? all;
      if (!cursor) break;
    }
    more.hidden = !cursor;
    told.textContent = `${count(names.length)} shown${cursor ? ", there are more" : ""}${all !== null ? `, of ${count(all)} keys in all` : ""}.`;
    list.replaceChildren(table([{ name: "Key" }], names.map((name) => ({ cells: [h("a", { href: `#/keys/${encodeURIComponent(name)}` }, name)] })), "No key matches."));
  }

  every(0, load);
}
