// Links and forms without leaving the page: fetch it, swap what it changes, keep focus and address, show errors.
const SAME = ["main", "menu", "title"];
let coming = null;

const notice = () => document.getElementById("notice");

export function say(text, kind = "error", more = null) {
  const box = document.createElement("div");
  box.className = `notice ${kind}`;
  box.setAttribute("role", kind === "error" ? "alert" : "status");
  const words = document.createElement("div");
  words.textContent = text;
  box.append(words);
  if (more) box.append(more);
  box.append(closer(box));
  notice()?.replaceChildren(box);
}

function closer(box) {
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet";
  close.textContent = "Close";
  close.addEventListener("click", () => box.remove());
  return close;
}

function again(words, act) {
  const retry = document.createElement("button");
  retry.type = "button";
  retry.textContent = words;
  retry.addEventListener("click", act);
  return retry;
}

function busy(is) {
  document.documentElement.toggleAttribute("data-busy", is);
  document.getElementById("main")?.setAttribute("aria-busy", String(is));
}

// Focus stays on the same control, with the cursor where it was, if the new page has it too.
function remember() {
  const active = document.activeElement;
  if (!active || active === document.body || !active.id) return null;
  return { id: active.id, start: active.selectionStart, end: active.selectionEnd };
}

function restore(kept) {
  const found = kept && document.getElementById(kept.id);
  if (!found) return false;
  found.focus({ preventScroll: true });
  if (typeof kept.start === "number" && found.setSelectionRange) {
    try { found.setSelectionRange(kept.start, kept.end); } catch { /* not a control with a cursor */ }
  }
  return true;
}

function swap(page, keep) {
  const kept = keep ? remember() : null;
  for (const name of SAME) {
    const fresh = name === "title" ? page.querySelector("title") : page.getElementById(name);
    const old = name === "title" ? document.querySelector("title") : document.getElementById(name);
    if (fresh && old) old.replaceWith(document.adoptNode(fresh));
  }
  document.querySelector(".side")?.classList.remove("open");
  if (!restore(kept)) document.getElementById("main")?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("kb:shown"));
}

async function show(response, { push = true, keep = false, scroll = true } = {}) {
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!page.getElementById("main")) {
    // Another kind of page: the session has ended, or the engine has another version.
    location.assign(response.status === 401 ? "/console/sign-in" : response.url);
    return;
  }
  const failed = !response.ok && page.querySelector("#main .notice.error");
  if (failed && push !== "always") {
    const box = document.adoptNode(failed);
    box.append(closer(box));
    notice()?.replaceChildren(box);
    notice()?.scrollIntoView({ block: "nearest" });
    return;
  }
  if (push && response.url !== location.href) {
    history.replaceState({ ...history.state, y: scrollY }, "");
    history.pushState({}, "", response.url);
  }
  swap(page, keep);
  if (scroll) {
    const aim = location.hash && document.getElementById(location.hash.slice(1));
    if (aim) aim.scrollIntoView(); else scrollTo(0, 0);
  }
}

export async function visit(url, options = {}) {
  coming?.abort();
  const mine = (coming = new AbortController());
  busy(true);
  try {
    const hash = new URL(url, location.href).hash;
    const response = await fetch(url, { headers: { "KB-Fragment": "1" }, signal: mine.signal });
    await show(response, { push: "always", ...options });
    if (hash) {
      history.replaceState(history.state, "", location.pathname + location.search + hash);
      document.getElementById(hash.slice(1))?.scrollIntoView();
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    say("The engine does not answer.", "error", again("Try again", () => visit(url, options)));
  } finally {
    if (coming === mine) busy(false);
  }
}

export async function send(url, fields) {
  return fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", "KB-Console": "1", "KB-Fragment": "1" },
    body: JSON.stringify(fields),
  });
}

function fieldsOf(form, button) {
  const fields = {};
  for (const [name, value] of new FormData(form, button)) {
    if (typeof value === "string") (fields[name] ??= []).push(value);
  }
  return fields;
}

async function submit(form, button) {
  if (form.method === "get") {
    const url = new URL(form.action);
    url.search = "";
    for (const [name, values] of Object.entries(fieldsOf(form, button))) {
      for (const value of values) if (value !== "") url.searchParams.append(name, value);
    }
    await visit(url.href, { keep: !button });
    return;
  }
  if (form.dataset.sending) return;
  if (!(await confirmed(form, button))) return;
  form.dataset.sending = "1";
  busy(true);
  try {
    const target = button?.hasAttribute("formaction") ? button.formAction : form.action;
    const response = await send(target, fieldsOf(form, button));
    const next = response.headers.get("KB-Location");
    const said = decodeURIComponent(response.headers.get("KB-Said") ?? "");
    if (next) { await visit(next); if (said) say(said, "info"); }
    else if (response.headers.get("Content-Type")?.startsWith("application/x-ndjson")) await follow(response);
    else await show(response, { push: false, keep: true });
  } catch {
    say("The connection was lost, so it is not known whether this was done. Look at the jobs before trying again.");
  } finally {
    delete form.dataset.sending;
    busy(false);
  }
}

// An answer that comes in pieces: lines of JSON, the last with the address of the page that has all of it.
async function follow(response) {
  const box = document.querySelector("[data-answer]");
  const words = box?.querySelector("[data-words]");
  if (words) words.textContent = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines.filter(Boolean).map(JSON.parse)) {
      if (line.go) return visit(line.go);
      if (line.error) say(line.error);
      else if (box) { box.hidden = false; words.textContent += line.text; }
    }
    if (done) return;
  }
}

function confirmed(form, button) {
  const question = button?.dataset.confirm || form.dataset.confirm;
  const dialog = document.getElementById("confirm");
  if (!question || !dialog) return Promise.resolve(true);
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = (button?.textContent || "Yes").trim();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) =>
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }),
  );
}

const ours = (url) => url.origin === location.origin && (url.pathname === "/console" || url.pathname.startsWith("/console/"));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (!ours(url) || link.target || link.hasAttribute("download")) return;
  if (url.hash && url.pathname + url.search === location.pathname + location.search) return;
  event.preventDefault();
  visit(url.href, { keep: link.hasAttribute("data-keep"), scroll: !link.hasAttribute("data-keep") });
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method === "dialog" || !ours(new URL(form.action))) return;
  event.preventDefault();
  submit(form, event.submitter);
});

let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form?.hasAttribute("data-live")) return;
  clearTimeout(typing);
  typing = setTimeout(() => form.requestSubmit(), 250);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

addEventListener("popstate", (event) => {
  visit(location.href, { push: false, scroll: false }).then(() => scrollTo(0, event.state?.y ?? 0));
});
document.addEventListener("kb:visit", (event) => visit(event.detail.url));
document.addEventListener("kb:say", (event) => say(event.detail.text, event.detail.kind));
