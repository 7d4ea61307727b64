import { get, request, settings } from "./api.js";
import { confirm, facts, h, instant, relative, span, toast } from "./dom.js";
import { tags } from "./timers.js";

const SECRET = /authorization|cookie|token|secret|key|password|signature/i;

const masked = (name, value) => (SECRET.test(name) ? "••••••" : value);

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// What sets the same timer again.
function curl(timer) {
  const { timing, callback, reliability, statistics, name } = structuredClone(timer);
  const headers = callback.http.headers;
  for (const key of Object.keys(headers ?? {})) headers[key] = masked(key, headers[key]);
  const path = name ? `/timers/named/${encodeURIComponent(name)}` : "/timers";
  const body = JSON.stringify({ timing, callback, reliability, statistics }, null, 1);
  return `curl -X ${name ? "PUT" : "POST"} ${quoted(location.origin + path)} -d ${quoted(body)}`;
}

function schedule(timing) {
  const parts = [];
  if (timing.cron) parts.push(`cron ${timing.cron}${timing.zone ? ` in ${timing.zone}` : ""}`);
  if (timing.at) parts.push(`at ${timing.at}`);
  if (timing.interval) parts.push(`every ${span(timing.interval)}`);
  if (timing["repeat-for"] === "forever") parts.push("for ever");
  else if (timing["repeat-for"] === timing.interval) parts.splice(0, parts.length, `once, ${span(timing.interval)} after it was set`);
  else if (timing["repeat-for"]) parts.push(`for ${span(timing["repeat-for"])}`);
  if (timing.until) parts.push(`until ${timing.until}`);
  if (timing.count) parts.push(`${timing.count} times`);
  return parts.join(", ");
}

function attempt(last) {
  if (!last) return null;
  return [instant(last.at), ` ${last.status ? `HTTP ${last.status}` : last.error}, after ${last["duration-ms"]} ms, by ${last.node ?? "a node"}`];
}

export function timer({ main, every, rest }) {
  const isId = /^[0-9a-f]{16}-\d/.test(rest);
  const path = isId ? `/timers/${rest}` : `/timers/named/${encodeURIComponent(rest)}`;
  const body = h("div");
  main.append(h("h1", {}, "Timer ", rest), body);

  async function act(method, suffix, title, text, yes, done) {
    if (!(await confirm(title, text, yes, method === "DELETE"))) return;
    try {
      await request(method, path + suffix);
      toast(done);
      again();
    } catch (fault) {
      toast(fault.message);
    }
  }

  const again = every(3000, async (signal) => {
    let timer;
    try {
      timer = await get(`${path}?now=1`, signal);
    } catch (fault) {
      if (fault.status !== 404) throw fault;
      body.replaceChildren(h("p", {}, "There is no such timer: it has popped for the last time, was cancelled, or never was. ", h("a", { href: "#/pops" }, "The last pops"), " tell what became of it."));
      return;
    }
    const { http } = timer.callback;
    const next = timer["next-pops"] ?? (timer["next-pop"] ? [timer["next-pop"]] : []);
    const actions = settings["read-only"] ? null : h("div", { class: "row" },
      timer.state === "dead"
        ? h("button", { type: "button", class: "main", onclick: () => act("POST", "/redrive", "Redrive it?", "Its dead pops are tried again.", "Redrive", "It is tried again.") }, "Redrive")
        : h("button", { type: "button", class: "main", onclick: () => act("POST", "/fire", "Fire it now?", "It pops at once; its schedule goes on as before.", "Fire", "It was fired.") }, "Fire now"),
      h("button", { type: "button", class: "danger", onclick: () => act("DELETE", "", "Cancel it?", "It will not pop any more. This cannot be undone.", "Cancel the timer", "It was cancelled.") }, "Cancel"));
    if (document.querySelector("dialog") || body.contains(document.getSelection()?.anchorNode) && !document.getSelection().isCollapsed) return;
    const focused = [...body.querySelectorAll("button")].indexOf(document.activeElement);
    body.replaceChildren(...[actions,
      facts([
        ["Id", timer.id], ["Name", timer.name], ["State", h("span", { class: `state-${timer.state}` }, timer.state)],
        ["Tags", tags(timer).length > 0 ? tags(timer) : null],
        ["Schedule", schedule(timer.timing)],
        ["Next", next.length > 0 ? h("ol", {}, next.map((at) => h("li", {}, instant(at), " ", h("span", { class: "soft" }, relative(at))))) : null],
        ["Attempts at this pop", timer.attempts > 0 ? String(timer.attempts) : null],
        ["Last attempt", attempt(timer["last-attempt"])],
        ["Replicas", h("ol", {}, (timer.replicas ?? []).map((node, i) => h("li", {}, node, i === 0 ? h("span", { class: "soft" }, " (makes the pop, while it is up)") : null)))],
        ["Version", timer.version],
      ]),
      h("h2", {}, "What it calls"),
      facts([
        ["URI", [http.method && http.method !== "POST" ? `${http.method} ` : null, http.uri]],
        ["Type", http["content-type"]],
        ...Object.entries(http.headers ?? {}).map(([name, value]) => [name, masked(name, value)]),
      ]),
      h("pre", { "aria-label": "Body" }, http.json !== undefined ? JSON.stringify(http.json, null, 2) : (http.opaque ?? "").slice(0, 10000)),
      h("h2", {}, "As curl"), h("pre", {}, curl(timer))].filter(Boolean));
    if (focused >= 0) body.querySelectorAll("button")[focused]?.focus();
  });
}
