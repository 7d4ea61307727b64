import { get, query, request, settings } from "./api.js";
import { confirm, count, h, instant, relative, table, toast } from "./dom.js";

const FILTERS = ["state", "tag", "name-prefix", "uri-prefix", "due-after", "due-before"];

export const tags = (timer) => (timer.statistics?.["tag-info"] ?? []).map((tag) =>
  h("a", { class: "tag", href: `#/timers?tag=${encodeURIComponent(tag.type)}` }, tag.count > 1 ? `${tag.type} ×${tag.count}` : tag.type));

export const timerLink = (timer) => h("a", { href: `#/timer/${timer.id}` }, timer.name ?? timer.id.slice(0, 16));

function when(timer) {
  const at = timer["next-pop"] ?? timer["last-attempt"]?.at;
  return at ? [instant(at), " ", h("span", { class: "soft" }, relative(at))] : "";
}

// Does the same with each, a few at a time, and tells how it went.
export async function eachOf(ids, method, path, what) {
  let done = 0;
  const faults = [];
  const queue = [...ids];
  await Promise.all(Array.from({ length: 6 }, async () => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      try {
        await request(method, path(id));
        done++;
      } catch (fault) {
        faults.push(fault.message);
      }
    }
  }));
  toast(`${count(done)} ${what}${faults.length > 0 ? `; ${faults.length} were not: ${faults[0]}` : ""}.`);
}

export function timers({ main, every, parameters, signal }) {
  const chosen = new Set();
  const filters = Object.fromEntries(FILTERS.map((name) => [name, parameters[name] ?? ""]));
  let pages = null, isWhole = false, last = null;

  const field = (name, label, attributes = {}) => h("label", {}, label, h("input", { name, value: filters[name], ...attributes }));
  const form = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    const next = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    location.hash = query("#/timers", next);
  } },
    h("label", {}, "State", h("select", { name: "state" }, ["", "pending", "retrying", "dead"].map((state) =>
      h("option", { value: state, selected: filters.state === state }, state || "pending (usual)")))),
    field("tag", "Tag"), field("name-prefix", "Name begins with"), field("uri-prefix", "URI begins with", { placeholder: "http://" }),
    field("due-after", "Due from", { placeholder: "2026-11-19T08:30:00Z" }), field("due-before", "Due before"),
    h("button", { class: "main" }, "Search"), h("a", { href: "#/timers" }, "Clear"));
  const find = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/timer/${find.elements.id.value.trim()}`;
  } }, h("label", {}, "Id or name", h("input", { name: "id", required: true })), h("button", {}, "Show"));

  const bar = h("div", { class: "row" });
  const list = h("div");
  const more = h("button", { type: "button", hidden: true, onclick: () => load(true) }, "More");
  main.append(h("h1", {}, "Timers"), form, find, bar, list, h("div", { class: "row" }, more));

  const matching = () => Object.fromEntries(Object.entries(filters).filter(([, value]) => value));

  async function bulk(method, path, verb, done) {
    const given = matching();
    const what = Object.keys(given).length > 0 ? given : { all: "yes" };
    const { matched } = await request(method, query(path, { ...what, "dry-run": "yes" }));
    if (matched === 0) return toast("Nothing matches.");
    if (!(await confirm(`${verb} ${count(matched)} timers?`, `All that match${Object.keys(given).length > 0 ? "" : ": there is no filter, so it is every timer"}. This cannot be undone.`, `${verb} ${count(matched)}`))) return;
    const answer = await request(method, query(path, what));
    toast(`${count(answer.cancelled ?? answer.redriven)} ${done}.`);
    await load(false);
  }

  async function some(method, path, verb, done, danger) {
    const ids = [...chosen];
    if (!(await confirm(`${verb} ${count(ids.length)} timers?`, "Those that are selected.", `${verb} ${count(ids.length)}`, danger))) return;
    await eachOf(ids, method, path, done);
    chosen.clear();
    await load(false);
  }

  const guard = (work) => () => work().catch((fault) => toast(fault.message));

  function showBar() {
    const isDead = filters.state === "dead";
    const none = chosen.size === 0;
    bar.replaceChildren(h("span", { class: "soft" }, pages === null ? "Looking…" : `${count(pages.length)} shown${isWhole ? ", which is all" : ""}, ${count(chosen.size)} selected`));
    if (settings["read-only"]) return;
    bar.append(
      h("button", { type: "button", class: "danger", disabled: none, onclick: guard(() => some("DELETE", (id) => `/timers/${id}`, "Cancel", "cancelled", true)) }, "Cancel selected"),
      isDead
        ? h("button", { type: "button", disabled: none, onclick: guard(() => some("POST", (id) => `/timers/${id}/redrive`, "Redrive", "redriven", false)) }, "Redrive selected")
        : h("button", { type: "button", disabled: none, onclick: guard(() => some("POST", (id) => `/timers/${id}/fire`, "Fire", "fired", false)) }, "Fire selected"),
      h("button", { type: "button", class: "danger", onclick: guard(() => bulk("DELETE", "/timers", "Cancel", "cancelled")) }, "Cancel all that match…"),
      isDead ? h("button", { type: "button", onclick: guard(() => bulk("POST", "/timers/redrive", "Redrive", "redriven")) }, "Redrive all that match…") : "");
  }

  function showList() {
    const all = h("input", { type: "checkbox", "aria-label": "Select all that are shown", checked: pages.length > 0 && pages.every((timer) => chosen.has(timer.id)), onchange: (event) => {
      for (const timer of pages) event.target.checked ? chosen.add(timer.id) : chosen.delete(timer.id);
      showList();
    } });
    list.replaceChildren(table([{ name: all }, { name: filters.state === "dead" ? "Last tried" : "Due" }, { name: "Timer" }, { name: "Calls" }, { name: "Tags" }, { name: "State" }], pages.map((timer) => ({
      class: chosen.has(timer.id) ? "chosen" : null,
      cells: [
        h("input", { type: "checkbox", "aria-label": `Select ${timer.name ?? timer.id}`, checked: chosen.has(timer.id), onchange: (event) => {
          event.target.checked ? chosen.add(timer.id) : chosen.delete(timer.id);
          event.target.closest("tr").classList.toggle("chosen", event.target.checked);
          showBar();
        } }),
        when(timer),
        timerLink(timer),
        timer.callback.http.uri,
        tags(timer),
        h("span", { class: `state-${timer.state}` }, timer.state + (timer.attempts > 0 ? `, ${timer.attempts} tried` : "")),
      ],
    })), "No timer matches."));
    more.hidden = isWhole;
    showBar();
  }

  async function load(isMore) {
    if (!isMore) last = null;
    const page = await get(query("/timers", { scope: "cluster", sort: "due", limit: 100, ...matching(), cursor: last }), signal);
    pages = isMore ? pages.concat(page.timers) : page.timers;
    last = page.cursor ?? null;
    isWhole = !page.cursor;
    showList();
  }

  showBar();
  // What is further down, or selected, stays as it is: only the first page follows by itself.
  every(5000, async () => {
    if ((pages?.length ?? 0) <= 100 && chosen.size === 0 && !document.querySelector("dialog")) await load(false);
  });
}
