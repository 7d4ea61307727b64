// Elements, and how numbers and times are written.

export function h(name, attributes = {}, ...children) {
  const svg = ["svg", "rect", "path", "circle", "text", "title", "g"].includes(name) || attributes.svg;
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "svg" || value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "indeterminate") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const count = (number) => Number(number ?? 0).toLocaleString("en");

export function bytes(number) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024 || unit === "GiB") return `${number < 10 && unit !== "B" ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1024;
  }
}

export function micro(us) {
  if (us < 1000) return `${us} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

export function span(seconds) {
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  let left = Math.abs(seconds);
  if (left < 1) return `${Math.round(left * 1000)} ms`;
  let text = "";
  for (const [name, size] of units) {
    const whole = Math.floor(left / size);
    if (whole === 0) continue;
    left -= whole * size;
    if (text !== "") return `${text} ${whole}${name}`;
    text = `${whole}${name}`;
  }
  return text;
}

export function instant(text) {
  if (!text) return "";
  const at = new Date(text);
  return h("time", { datetime: text, title: text }, at.toLocaleString("sv").replace("T", " "));
}

export function relative(text) {
  const seconds = (new Date(text) - Date.now()) / 1000;
  return seconds >= 0 ? `in ${span(seconds)}` : `${span(seconds)} ago`;
}

export function table(columns, rows, empty = "There is nothing.") {
  if (rows.length === 0) return h("p", { class: "soft" }, empty);
  return h("table", { class: "wide" },
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.name)))),
    h("tbody", {}, rows.map((row) => h("tr", { class: row.class }, row.cells.map((cell, i) =>
      h("td", { class: columns[i].number ? "number" : null, "data-name": typeof columns[i].name === "string" ? columns[i].name || null : null }, cell))))));
}

export function facts(list) {
  return h("dl", {}, list.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export function toast(text) {
  const line = h("p", {}, text);
  document.getElementById("toast").append(line);
  setTimeout(() => line.remove(), 6000);
}

// Asks before something is done that cannot be undone. Resolves to whether it is to be done.
export function confirm(title, text, yes, danger = true) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": title },
      h("h2", {}, title), h("p", {}, text),
      h("div", { class: "row" },
        h("button", { type: "button", class: danger ? "danger" : "main", onclick: () => dialog.close("yes") }, yes),
        h("button", { type: "button", onclick: () => dialog.close() }, "Back")));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
