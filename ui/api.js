// The documented interface of the node that served this page, and nothing else.

import { h } from "./dom.js";

export const settings = { "read-only": false, version: "", node: "" };

let asking = null;

// Of this tab: another one has to be told, too, and closing it forgets it.
function askForToken(wrong) {
  asking ??= new Promise((resolve) => {
    const field = h("input", { type: "password", name: "token", autocomplete: "off", required: true });
    const dialog = h("dialog", { "aria-label": "Log in" }, h("form", { method: "dialog" },
      h("h2", {}, "Log in"),
      h("p", {}, wrong ? "This token was not accepted." : "This node wants a token: tryst token new makes one. It is kept in this tab only."),
      h("label", {}, "Token", field),
      h("div", { class: "row" }, h("button", { class: "main" }, "Log in"))));
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", field.value.trim());
      dialog.remove();
      asking = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
  return asking;
}

export async function request(method, path, signal) {
  for (;;) {
    const token = sessionStorage.getItem("token");
    const answer = await fetch(path, { method, signal, cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });
    if (answer.status === 401) {
      if (sessionStorage.getItem("token") === token) await askForToken(Boolean(token));
      continue;
    }
    document.getElementById("logout").hidden = !token;
    const text = await answer.text();
    const isJson = (answer.headers.get("Content-Type") ?? "").includes("json");
    const value = isJson && text !== "" ? JSON.parse(text) : text;
    if (!answer.ok) {
      const fault = new Error(value.detail ?? `${answer.status} ${answer.statusText}`);
      fault.status = answer.status;
      throw fault;
    }
    return value;
  }
}

export const get = (path, signal) => request("GET", path, signal);

// Parameters in a path, of those that are given.
export function query(path, parameters) {
  const text = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return `${path}?${text}`;
}
