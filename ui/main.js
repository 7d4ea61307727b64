// Which view is shown, by the address behind #, and how it is kept up to date.

import { get, request, settings } from "./api.js";
import { h } from "./dom.js";
import { overview } from "./overview.js";
import { timers } from "./timers.js";
import { timer } from "./timer.js";
import { pops } from "./pops.js";
import { dead } from "./dead.js";
import { destinations } from "./destinations.js";
import { cluster } from "./cluster.js";
import { keys } from "./keys.js";

const views = [
  ["", "Overview", overview],
  ["timers", "Timers", timers],
  ["pops", "Pops", pops],
  ["dead", "Dead pops", dead],
  ["destinations", "Destinations", destinations],
  ["cluster", "Cluster", cluster],
  ["keys", "Keys", keys],
  ["timer", null, timer],
];

let shown = null; // { leave }

function place() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name, rest: rest.map(decodeURIComponent).join("/"), parameters: Object.fromEntries(new URLSearchParams(search ?? "")) };
}

function tell(fault) {
  const trouble = document.getElementById("trouble");
  trouble.hidden = !fault;
  if (fault) trouble.textContent = fault.status ? fault.message : "This node does not answer. It is asked again.";
}

// A view gets `every`: what it does now and, until it is left, again and again.
function show() {
  shown?.abort();
  const life = new AbortController();
  shown = life;
  const { name, rest, parameters } = place();
  const view = views.find(([key]) => key === name) ?? views[0];
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");
  nav.replaceChildren(...views.filter(([, title]) => title).map(([key, title]) =>
    h("a", { href: `#/${key}`, "aria-current": key === view[0] ? "page" : null }, title)));
  document.title = `${view[1] ?? rest} · tryst`;
  main.replaceChildren();
  tell(null);
  const every = (milliseconds, work) => {
    let timer = 0;
    const run = async () => {
      clearTimeout(timer);
      if (life.signal.aborted) return;
      if (!document.hidden) {
        try {
          await work(life.signal);
          if (!life.signal.aborted) tell(null);
        } catch (fault) {
          if (!life.signal.aborted) tell(fault);
        }
      }
      if (!life.signal.aborted && milliseconds > 0) timer = setTimeout(run, milliseconds);
    };
    life.signal.addEventListener("abort", () => clearTimeout(timer));
    run();
    return run;
  };
  view[2]({ main, every, rest, parameters, signal: life.signal });
}

// Changes the parameters of the address without leaving the view behind in the history.
export function address(name, parameters) {
  const text = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `#/${name}${text ? `?${text}` : ""}`;
}

document.getElementById("logout").addEventListener("click", () => {
  sessionStorage.removeItem("token");
  location.reload();
});

async function begin() {
  try {
    Object.assign(settings, await get("settings.json"));
  } catch (fault) {
    tell(fault);
  }
  document.getElementById("node").textContent = [settings.node, settings.version, settings["read-only"] ? "read only" : ""].filter(Boolean).join(" · ");
  window.addEventListener("hashchange", show);
  show();
}

begin();
