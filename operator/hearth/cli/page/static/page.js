// The page works without this script: links lead to pages, forms to confirmations. With it, changes appear by themselves
// and details open in a dialog. All HTML comes from the server of this page, which escapes every value.
"use strict";

const dialog = document.getElementById("dialog");
const content = document.getElementById("dialog-content");
const connection = document.getElementById("connection");
let opener = "";

function setConnection(state, text) {
  if (connection.textContent !== text) connection.textContent = text;
  connection.dataset.state = state;
}

// A wide picture shrinks to the width of the window, as long as it stays legible.
function fitPicture() {
  const picture = document.querySelector(".picture svg");
  if (!picture) return;
  picture.style.minWidth = picture.viewBox.baseVal.width * 0.75 + "px";
  picture.style.maxWidth = "100%";
  picture.style.height = "auto";
}

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
  fitPicture();
  const renewed = section.querySelector(".picture");
  if (renewed && scrolled) renewed.scrollTo(scrolled[0], scrolled[1]);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function follow(address) {
  const source = new EventSource(address);
  source.addEventListener("open", () => setConnection("live", "live"));
  source.addEventListener("error", () => {
    setConnection("lost", "connection lost: is `kubectl stack ui` still running? Trying again …");
    // A browser gives up after an answer that is no stream, e.g. while the server starts.
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      setTimeout(() => follow(address), 2000);
    }
  });
  source.addEventListener("problem", (event) => {
    const message = JSON.parse(event.data).message;
    if (message) setConnection("lost", "not up to date: " + message);
    else setConnection("live", "live");
  });
  source.addEventListener("parts", (event) => {
    const found = JSON.parse(event.data);
    for (const section of document.querySelectorAll("[id^='part-']")) {
      if (!found.all.includes(section.id.slice("part-".length))) section.remove();
    }
    for (const [id, part] of Object.entries(found.parts)) replacePart(id, part);
  });
}

async function show(address, options) {
  content.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { ...options, headers: { "X-Hearth-Fragment": "1" }, redirect: "error" });
    content.innerHTML = await answer.text();
  } catch {
    content.textContent = "The server does not answer: is `kubectl stack ui` still running?";
  }
  content.removeAttribute("aria-busy");
  const heading = content.querySelector("h1");
  dialog.setAttribute("aria-label", heading ? heading.textContent : "Details");
  if (!dialog.open) dialog.showModal();
  const first = content.querySelector("select, input:not([type=hidden]), #close, #cancel") || content.querySelector("button");
  first?.focus();
}

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
  if (link.closest(".graph, [data-dialog]") && /\/(resource|why)$/.test(new URL(address, location).pathname)) {
    event.preventDefault();
    open(address, link);
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-dialog]")) {
    event.preventDefault();
    const query = new URLSearchParams(new FormData(form, event.submitter));
    open(form.getAttribute("action") + "?" + query, event.submitter);
  } else if (form.matches("[data-act]") && dialog.open) {
    event.preventDefault();
    show(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form)) });
  }
});

dialog.addEventListener("close", () => {
  content.replaceChildren();
  document.getElementById(opener)?.focus({ preventScroll: true });
});

fitPicture();
if (document.body.dataset.updates) {
  setConnection("connecting", "connecting …");
  follow(document.body.dataset.updates);
}
