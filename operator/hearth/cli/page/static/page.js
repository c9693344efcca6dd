// The page works without this script: links lead to pages, forms to confirmations. With it, changes appear by themselves
// and details open in a dialog. All HTML comes from the server of this page, which escapes every value.
"use strict";

const dialog = document.getElementById("dialog");
const content = document.getElementById("dialog-content");
const connection = document.getElementById("connection");
const lostHint = document.body.dataset.lostHint || "";
let opener = "";

function setConnection(state, text) {
  if (connection.textContent !== text) connection.textContent = text;
  connection.dataset.state = state;
}

// The picture is drawn at its own size, at which its text is legible, unless the user chose another.
let zoom = 1;

function setZoom(value) {
  const picture = document.querySelector(".picture svg");
  if (!picture) return;
  const natural = picture.viewBox.baseVal.width;
  zoom = value === "fit" ? Math.min(1, (picture.parentElement.clientWidth - 4) / natural) : Math.min(3, Math.max(0.2, value));
  picture.style.width = natural * zoom + "px";
  picture.style.height = "auto";
}

function showPicture() {
  const controls = document.getElementById("zoom");
  if (controls) controls.hidden = false;
  setZoom(zoom);
}

// What needs attention is in view at first. From then on, the picture stays where the user moved it.
function showTrouble() {
  const picture = document.querySelector(".picture");
  const node = picture?.querySelector(".failed, .stopped");
  if (!node) return;
  const [outer, inner] = [picture.getBoundingClientRect(), node.getBoundingClientRect()];
  picture.scrollBy(inner.left + inner.width / 2 - outer.left - outer.width / 2, inner.top + inner.height / 2 - outer.top - outer.height / 2);
}

document.addEventListener("click", (event) => {
  const step = event.target.closest("[data-zoom]")?.dataset.zoom;
  if (step) setZoom({ in: zoom * 1.25, out: zoom / 1.25, fit: "fit", whole: 1 }[step]);
});

// The picture is moved by its ground; a click on a node stays a click.
document.addEventListener("pointerdown", (event) => {
  const picture = event.target.closest(".picture");
  if (!picture || event.button || event.pointerType !== "mouse" || event.target.closest("a")) return;
  const start = [event.clientX + picture.scrollLeft, event.clientY + picture.scrollTop];
  const move = (moved) => picture.scrollTo(start[0] - moved.clientX, start[1] - moved.clientY);
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", () => document.removeEventListener("pointermove", move), { once: true });
});

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

function describeAge(created) {
  const seconds = Math.max(0, (Date.now() - Date.parse(created)) / 1000);
  const [unit, size] = UNITS.find(([, size]) => seconds >= 2 * size) || UNITS[3];
  return Math.floor(seconds / size) + unit;
}

// The list is filtered here, so that a change that arrives does not lose the filter.
function filterList() {
  const filters = document.getElementById("filters");
  const rows = [...document.querySelectorAll(".stacks tbody tr")];
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (time.dateTime) time.textContent = describeAge(time.dateTime);
  }
  if (!filters) return;
  filters.hidden = !rows.length;
  const choices = document.getElementById("filter-namespace");
  for (const name of new Set(rows.map((row) => row.dataset.namespace))) {
    if (choices && ![...choices.options].some((option) => option.value === name)) choices.add(new Option(name, name));
  }
  const words = document.getElementById("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const state = document.getElementById("filter-state").value;
  const namespace = choices?.value || "";
  const nested = document.getElementById("filter-nested").checked;
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const isProblem = row.dataset.state !== "ready";
    row.hidden =
      !words.every((word) => text.includes(word)) ||
      (state === "problems" ? !isProblem : state && row.dataset.state !== state) ||
      (namespace && row.dataset.namespace !== namespace) ||
      (!nested && "nested" in row.dataset);
    shown += !row.hidden;
  }
  const order = document.getElementById("filter-order").value;
  const RANK = ["failed", "stopped", "progressing", "obsolete", "ready"];
  const rank = (row) => RANK.indexOf(row.dataset.state);
  rows.forEach((row, index) => (row.dataset.place ??= index));
  rows.sort((one, other) => {
    if (order === "problems" && rank(one) !== rank(other)) return rank(one) - rank(other);
    if (order === "newest" && one.dataset.created !== other.dataset.created) return one.dataset.created < other.dataset.created ? 1 : -1;
    if (order === "") return rowName(one).localeCompare(rowName(other)) || one.dataset.place - other.dataset.place;
    return one.dataset.place - other.dataset.place;
  });
  rows[0]?.parentElement.append(...rows);
  document.getElementById("filter-count").textContent = shown === rows.length ? "" : shown ? shown + " of " + rows.length : "No Stack matches. Clear the search and the filters to see all " + rows.length + ".";
}

function rowName(row) {
  return row.querySelector("th a").textContent;
}

document.getElementById("filters")?.addEventListener("input", filterList);
setInterval(filterList, 10000);

function replacePart(id, part) {
  let section = document.getElementById("part-" + id);
  if (!section) {
    section = document.createElement("section");
    section.id = "part-" + id;
    document.getElementById("content").append(section);
  }
  if (section.dataset.version === part.version) return;
  const focused = section.contains(document.activeElement) ? document.activeElement.id : "";
  const picture = section.querySelector(".picture");
  const scrolled = picture ? [picture.scrollLeft, picture.scrollTop] : null;
  section.innerHTML = part.html;
  section.dataset.version = part.version;
  showPicture();
  filterList();
  const renewed = section.querySelector(".picture");
  if (renewed && scrolled) renewed.scrollTo(scrolled[0], scrolled[1]);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

// Only rows that changed arrive, so that a long list costs nothing while it does not change.
function replaceRows(found) {
  const body = document.querySelector(".stacks tbody");
  if (!body) return;
  const listed = found.all && new Set(found.all);
  for (const row of [...body.children]) {
    const path = row.id.slice("row-".length);
    if (listed ? !listed.has(path) : found.removed.includes(path)) row.remove();
  }
  for (const [path, html] of Object.entries(found.rows)) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const row = template.content.firstElementChild;
    const former = document.getElementById("row-" + path);
    if (!former) {
      body.append(row);
      continue;
    }
    const focused = former.contains(document.activeElement) ? document.activeElement.id : "";
    row.dataset.place = former.dataset.place;
    former.replaceWith(row);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
  body.parentElement.hidden = !body.children.length;
  document.getElementById("no-stacks").hidden = body.children.length > 0;
  filterList();
}

// A page for several users asks to sign in again when the token has expired. An authenticating proxy redirects to its
// issuer then, which only a whole page can follow.
async function checkSession() {
  const address = document.body.dataset.session;
  if (!address) return;
  const answer = await fetch(address, { redirect: "manual" }).catch(() => null);
  if (answer?.status !== 401 && answer?.type !== "opaqueredirect") return;
  setConnection("lost", "your sign-in has expired: signing in again …");
  location.reload();
}

function follow(address) {
  const source = new EventSource(address);
  source.addEventListener("open", () => setConnection("live", "live"));
  source.addEventListener("error", () => {
    setConnection("lost", "connection lost" + (lostHint ? ": " + lostHint : ".") + " Trying again …");
    // A browser gives up after an answer that is no stream, e.g. while the server starts.
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      checkSession();
      setTimeout(() => follow(address), 2000);
    }
  });
  source.addEventListener("problem", (event) => {
    const message = JSON.parse(event.data).message;
    if (message) setConnection("lost", "not up to date: " + message);
    else setConnection("live", "live");
  });
  source.addEventListener("rows", (event) => replaceRows(JSON.parse(event.data)));
  source.addEventListener("parts", (event) => {
    const found = JSON.parse(event.data);
    for (const section of document.querySelectorAll("[id^='part-']")) {
      if (!found.all.includes(section.id.slice("part-".length))) section.remove();
    }
    for (const [id, part] of Object.entries(found.parts)) replacePart(id, part);
  });
}

// A log grows while it is shown. The oldest lines go, so that a page that stays open for days stays small.
const LOG_LINES = 2000;
let following = null;

function followLog(place) {
  following?.close();
  following = null;
  const log = place.querySelector("[data-log]");
  if (!log) return;
  const state = log.nextElementSibling;
  const source = (following = new EventSource(log.dataset.log));
  source.addEventListener("log", (event) => {
    const found = JSON.parse(event.data);
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const kept = found.reset || !log.textContent ? [] : log.textContent.split("\n");
    log.textContent = [...kept, ...found.lines].slice(-LOG_LINES).join("\n");
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  });
  source.addEventListener("problem", (event) => (state.textContent = JSON.parse(event.data).message));
  source.addEventListener("error", () => (state.textContent = "connection lost; trying again …"));
  source.addEventListener("open", () => (state.textContent = "new lines appear by themselves"));
}

// What is asked for last is shown, and nothing that was asked for in a dialog which was closed since. The result of an
// action is shown in any case.
let asked = 0;

async function show(address, options) {
  const own = ++asked;
  const isWithin = dialog.open;
  content.setAttribute("aria-busy", "true");
  let html;
  try {
    html = await (await fetch(address, { ...options, headers: { "X-Hearth-Fragment": "1" }, redirect: "error" })).text();
  } catch {
    html = null;
  }
  const isOutdated = own !== asked || (isWithin && !dialog.open);
  if (html === null) checkSession();
  if (isOutdated && !options) return;
  if (html === null) content.textContent = "The server does not answer" + (lostHint ? ": " + lostHint : ".");
  else content.innerHTML = html;
  content.removeAttribute("aria-busy");
  const heading = content.querySelector("h1");
  dialog.setAttribute("aria-label", heading ? heading.textContent : "Details");
  if (!dialog.open) dialog.showModal();
  followLog(content);
  const first = content.querySelector("select, input:not([type=hidden]), #close, #cancel") || content.querySelector("button");
  // What is read first stays in sight.
  first?.focus({ preventScroll: true });
  content.scrollIntoView({ block: "start" });
  const form = content.querySelector("[data-preview]");
  if (form) showPreview(form);
}

// What a choice would change is shown before it is confirmed. The last choice wins.
let previewed = 0;

async function showPreview(form) {
  const place = form.querySelector("#preview");
  const own = ++previewed;
  place.textContent = "What would change: asking the cluster …";
  const address = form.dataset.preview + "?to=" + encodeURIComponent(form.querySelector("select")?.value ?? "0");
  let html = "";
  try {
    html = await (await fetch(address, { headers: { "X-Hearth-Fragment": "1" }, redirect: "error" })).text();
  } catch {
    html = "";
  }
  if (own !== previewed || !place.isConnected) return;
  if (html) place.innerHTML = html;
  else place.textContent = "What would change is not known: the server does not answer.";
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-preview]");
  if (form) showPreview(form);
});

function open(address, element) {
  if (!dialog.open) opener = element?.closest("[id]")?.id || "";
  show(address);
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) {
    dialog.close();
    return;
  }
  const link = event.target.closest("a");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const address = link.href.baseVal ?? link.href;
  if (link.closest(".graph, [data-dialog]") && /\/(resource|why|log|history|compare)$/.test(new URL(address, location).pathname)) {
    event.preventDefault();
    open(address, link);
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".filters")) {
    event.preventDefault();
  } else if (form.matches("[data-dialog]")) {
    event.preventDefault();
    const query = new URLSearchParams(new FormData(form, event.submitter));
    open(form.getAttribute("action") + "?" + query, event.submitter);
  } else if (form.matches("[data-act]") && dialog.open) {
    event.preventDefault();
    show(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form)) });
  }
});

dialog.addEventListener("close", () => {
  // The event comes a moment after the dialog was closed: another one may be open by now.
  if (dialog.open) return;
  content.removeAttribute("aria-busy");
  content.replaceChildren();
  followLog(content);
  document.getElementById(opener)?.focus({ preventScroll: true });
});

showPicture();
showTrouble();
filterList();
followLog(document.getElementById("content"));
if (document.body.dataset.updates) {
  setConnection("connecting", "connecting …");
  follow(document.body.dataset.updates);
}
