// Keys, copying, dropping files, parts that are loaded later, signing in: what is left beside fragments and elements.
const say = (text, kind = "error") => document.dispatchEvent(new CustomEvent("kb:say", { detail: { text, kind } }));
const visit = (url) => document.dispatchEvent(new CustomEvent("kb:visit", { detail: { url } }));
const post = (url, fields, headers = {}) => fetch(url, {
  method: "POST",
  headers: { "Content-Type": "application/json", "KB-Console": "1", ...headers },
  body: JSON.stringify(fields),
});

// Theme: the system's, unless one was chosen here.
const THEMES = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  for (const button of document.querySelectorAll("[data-themes]")) button.textContent = `Theme: ${name}`;
}
const kept = () => { try { return localStorage.getItem("kb-theme") ?? "system"; } catch { return "system"; } };
theme(kept());

document.addEventListener("click", async (event) => {
  const target = event.target;
  if (target.closest?.("[data-themes]")) {
    const next = THEMES[(THEMES.indexOf(kept()) + 1) % THEMES.length];
    try { localStorage.setItem("kb-theme", next); } catch { /* only for this page, then */ }
    theme(next);
  }
  if (target.closest?.("[data-menu]")) {
    const open = document.querySelector(".side").classList.toggle("open");
    target.closest("[data-menu]").setAttribute("aria-expanded", String(open));
  }
  const pick = target.closest?.("[data-pick]");
  if (pick) document.getElementById(pick.dataset.pick).click();
  const copy = target.closest?.("[data-copy]");
  if (copy) {
    const text = copy.parentElement.querySelector("pre").textContent;
    try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(copy.parentElement.querySelector("pre")); copy.textContent = "Selected"; }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  }
  for (const open of document.querySelectorAll("details.drop[open]")) if (!open.contains(target)) open.open = false;
});

// A question is sent by Enter; Shift and Enter begin a new line.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches?.("textarea[data-send]")) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

// Keys
const rows = () => [...document.querySelectorAll("#main [data-row]")];
function move(step) {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  next?.querySelector("a, input")?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
const KEYS = {
  "/": () => document.querySelector("#main input[type=search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement?.closest("[data-row]")?.querySelector("input[name=row]")?.click(),
  a: () => document.querySelector("#main [data-page]")?.click(),
  "?": () => document.getElementById("keys")?.showModal(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details.drop[open]")) { open.open = false; open.querySelector("summary").focus(); }
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

// Files: one request each, three at a time, so that one that fails fails alone.
async function* inside(entry, path = "") {
  if (entry.isFile) { yield { file: await new Promise((done, failed) => entry.file(done, failed)), path: path + entry.name }; return; }
  const reader = entry.createReader();
  for (;;) {
    const batch = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!batch.length) return;
    for (const child of batch) yield* inside(child, `${path}${entry.name}/`);
  }
}

async function upload(zone, found) {
  const around = zone.closest(".files");
  const list = around.querySelector(".uploads");
  const bar = zone.querySelector("progress");
  const tags = around.querySelector("[name=file_tags]")?.value ?? "";
  const failed = [];
  let done = 0, added = 0;
  bar.hidden = false;
  bar.max = found.length;
  bar.value = 0;
  list.replaceChildren();
  const one = async ({ file, path }) => {
    const line = document.createElement("li");
    const body = new FormData();
    body.append("file", file, file.name);
    body.append("path", path);
    body.append("tags", tags);
    try {
      const response = await fetch("/console/files", { method: "POST", headers: { "KB-Console": "1", "KB-Fragment": "json" }, body });
      if (!response.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        throw new Error(page.querySelector(".notice.error")?.textContent.trim() || `status ${response.status}`);
      }
      const answer = await response.json();
      const link = Object.assign(document.createElement("a"), { href: `/console/documents/${answer.id}`, textContent: answer.title });
      line.append(link, ` ${answer.status}`);
      added += answer.status === "added" ? 1 : 0;
    } catch (error) {
      failed.push({ file, path });
      line.textContent = `${path}: ${error.message}`;
      line.className = "danger";
    }
    list.prepend(line);
    bar.value = done += 1;
  };
  const waiting = [...found];
  await Promise.all([1, 2, 3].map(async () => { for (let next; (next = waiting.shift()); ) await one(next); }));
  bar.hidden = true;
  if (failed.length) {
    const again = Object.assign(document.createElement("button"), { type: "button", textContent: `Try the ${failed.length} that failed again` });
    again.addEventListener("click", () => upload(zone, failed));
    list.prepend(Object.assign(document.createElement("li")));
    list.firstChild.append(again);
  }
  const rest = found.length - added - failed.length;
  say(`${added} added${rest ? `, ${rest} already there or updated` : ""}${failed.length ? `, ${failed.length} failed` : ""}`, failed.length ? "warn" : "ok");
}

for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, async (event) => {
    const zone = event.target.closest?.(".dropzone");
    if (!zone) return;
    event.preventDefault();
    zone.classList.toggle("over", name === "dragover");
    if (name !== "drop") return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const found = [];
    for (const entry of entries) for await (const file of inside(entry)) found.push(file);
    if (found.length) upload(zone, found);
  });
}
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-files]")) return;
  const files = [...event.target.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
  if (files.length) upload(event.target.closest(".dropzone"), files);
});

// Parts of a page that take longer are loaded after it.
async function later() {
  for (const part of document.querySelectorAll("[data-later]")) {
    const url = part.dataset.later;
    part.removeAttribute("data-later");
    try {
      const response = await fetch(url, { headers: { "KB-Fragment": "1" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const found = page.querySelector("[data-part]");
      if (response.ok && found) { part.replaceChildren(...document.adoptNode(found).childNodes); fold(); }
      else part.replaceChildren();
    } catch { part.replaceChildren(); }
  }
}

// What is done in steps goes on until it is finished.
async function steps() {
  const form = document.querySelector("form[data-again]");
  if (!form) return;
  await new Promise((done) => setTimeout(done, 50));
  form.requestSubmit();
}

// Beside a list counts are open, above one they would push it off the screen.
function fold() {
  if (matchMedia("(max-width: 1080px)").matches) for (const part of document.querySelectorAll(".facet-side details")) part.open = false;
}

function shown() {
  fold();
  later();
  steps();
  theme(kept());
}
document.addEventListener("kb:shown", shown);

// Signing in
async function signIn(response) {
  const next = response.headers.get("KB-Location");
  if (response.ok && next) { location.replace(next); return; }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const words = page.querySelector(".notice.error")?.textContent.trim() || "That did not work.";
  const box = document.querySelector("[data-problem]");
  box.textContent = words;
  box.hidden = false;
}
document.querySelector("form[data-sign-in]")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = event.target.querySelector("input").value.trim();
  signIn(await post("/console/session/key", {}, { Authorization: `Bearer ${key}` }));
});
if (document.querySelector("[data-open-link]")) {
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  if (token) post("/console/session/link", { token: [token] }).then(signIn);
}
document.addEventListener("click", async (event) => {
  if (!event.target.closest?.("[data-sign-out]")) return;
  const response = await post("/console/session/end", {});
  location.assign(response.headers.get("KB-Location") ?? "/console");
});

shown();
export { visit };
