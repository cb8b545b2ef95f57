// The custom elements: a selection of rows, a control for tags, and the palette of commands.
const visit = (url) => document.dispatchEvent(new CustomEvent("kb:visit", { detail: { url } }));

const say = (text, kind) => document.dispatchEvent(new CustomEvent("kb:say", { detail: { text, kind } }));
const rowsOf = (count) => `${count.toLocaleString("en")} ${count === 1 ? "row" : "rows"}`;

const make = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

// Rows are selected on the page first. All that match is a second, explicit step, and named with its number.
class KbSelection extends HTMLElement {
  connectedCallback() {
    this.all = false;
    this.addEventListener("change", (event) => this.changed(event));
    this.addEventListener("click", (event) => this.clicked(event));
    this.restore();
    this.update();
  }

  // Where the list is left for the form of a change, its address has the selection. Else it is gone, and that is said.
  disconnectedCallback() {
    const count = this.all ? Number(this.dataset.total) : this.chosen.length;
    if (count && !location.pathname.startsWith("/console/bulk/")) say(`${rowsOf(count)} ${count === 1 ? "is" : "are"} no longer selected.`, "info");
  }

  // Going back to the list brings back what was selected when a change was chosen.
  keep() {
    history.replaceState({ ...history.state, selected: { all: this.all, rows: this.chosen.map((row) => row.value) } }, "");
  }

  restore() {
    const { selected, ...state } = history.state ?? {};
    if (!selected) return;
    history.replaceState(state, "");
    for (const row of this.rows) row.checked = selected.rows.includes(row.value);
    this.all = selected.all && this.chosen.length === this.rows.length;
  }

  get rows() { return [...this.querySelectorAll("input[name=row]")]; }
  get chosen() { return this.rows.filter((row) => row.checked); }

  changed(event) {
    if (event.target.matches("[data-page]")) for (const row of this.rows) row.checked = event.target.checked;
    else if (!event.target.matches("[name=row]")) return;
    this.all = false;
    this.update();
  }

  clicked(event) {
    const row = event.target.closest("input[name=row]");
    if (row) {
      if (event.shiftKey && this.last?.isConnected) {
        const [from, to] = [this.rows.indexOf(this.last), this.rows.indexOf(row)].sort((a, b) => a - b);
        for (const between of this.rows.slice(from, to + 1)) between.checked = row.checked;
        this.all = false;
        this.update();
      }
      this.last = row;
    } else if (event.target.closest("[data-all]")) {
      this.all = true;
      for (const each of this.rows) each.checked = true;
      this.update();
      this.querySelector(".drop summary")?.focus();
    } else if (event.target.closest("[data-none]")) {
      this.clear();
    } else if (event.target.closest("a[data-kind]")) {
      this.keep();
    }
  }

  clear() {
    this.all = false;
    for (const row of this.rows) row.checked = false;
    this.update();
    this.querySelector("[data-page]")?.focus();
  }

  update() {
    const bar = this.querySelector(".bar");
    if (!bar) return;
    const count = this.chosen.length;
    const total = Number(this.dataset.total);
    const page = this.querySelector("[data-page]");
    // A list without rows has no box to select them.
    if (!page) return;
    page.checked = count > 0 && count === this.rows.length;
    page.indeterminate = count > 0 && count < this.rows.length;
    bar.hidden = count === 0;
    const words = this.all ? `All ${total.toLocaleString("en")} that match are selected` : `${count.toLocaleString("en")} selected on this page`;
    if (bar.querySelector("[data-count]").textContent !== words) bar.querySelector("[data-count]").textContent = words;
    const offer = bar.querySelector("[data-offer]");
    if (offer) offer.hidden = this.all || count < this.rows.length || total <= this.rows.length;
    const query = this.all
      ? this.dataset.query
      : new URLSearchParams({ [this.dataset.name]: this.chosen.map((row) => row.value).join(",") }).toString();
    for (const link of this.querySelectorAll("a[data-kind]")) {
      link.href = `/console/bulk/${link.dataset.kind}?${query}`;
    }
  }
}

// Tags with completion. Without it there is a text with commas.
class KbTags extends HTMLElement {
  connectedCallback() {
    if (this.box) return;
    this.source = this.querySelector("input");
    this.tags = this.source.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    const id = this.source.id;
    this.list = make("ul", { className: "options", hidden: true, role: "listbox", id: `${id}-options` });
    this.list.setAttribute("aria-label", "Tags");
    this.input = make("input", { type: "text", autocomplete: "off", id });
    this.input.setAttribute("role", "combobox");
    this.input.setAttribute("aria-expanded", "false");
    this.input.setAttribute("aria-controls", this.list.id);
    this.input.setAttribute("aria-autocomplete", "list");
    const described = this.source.getAttribute("aria-describedby");
    if (described) this.input.setAttribute("aria-describedby", described);
    if (this.source.getAttribute("aria-label")) this.input.setAttribute("aria-label", this.source.getAttribute("aria-label"));
    this.source.type = "hidden";
    this.source.removeAttribute("id");
    this.box = make("div", { className: "tagbox" });
    this.append(this.box);
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.input.addEventListener("blur", () => setTimeout(() => { this.take(this.input.value); this.close(); }, 120));
    this.box.addEventListener("click", (event) => event.target === this.box && this.input.focus());
    this.form = this.source.form;
    // What was typed last counts, though nobody pressed Enter after it.
    this.form?.addEventListener("submit", () => this.take(this.input.value), { capture: true });
    this.draw();
  }

  draw() {
    const chips = this.tags.map((tag) => {
      const remove = make("button", { type: "button", textContent: "×" });
      remove.setAttribute("aria-label", `Remove ${tag}`);
      remove.addEventListener("click", () => { this.tags = this.tags.filter((other) => other !== tag); this.draw(); this.input.focus(); });
      return make("span", { className: "chip" }, tag, remove);
    });
    const had = document.activeElement === this.input;
    this.box.replaceChildren(...chips, this.input, this.list);
    if (had) this.input.focus();
    this.source.value = this.tags.join(",");
  }

  take(text) {
    const found = text.split(",").map((tag) => tag.trim()).filter((tag) => tag && !this.tags.includes(tag));
    this.input.value = "";
    if (!found.length) return;
    this.tags.push(...found);
    this.draw();
  }

  async typed() {
    if (this.input.value.includes(",")) { this.take(this.input.value); this.close(); return; }
    const prefix = this.input.value.trim();
    if (!prefix) { this.close(); return; }
    const response = await fetch(`/console/tags/complete?${new URLSearchParams({ prefix })}`).catch(() => null);
    if (!response?.ok || this.input.value.trim() !== prefix) return;
    const found = (await response.json()).data.filter((item) => !this.tags.includes(item.tag));
    this.list.replaceChildren(...found.map((item, at) => {
      const option = make("li", { id: `${this.list.id}-${at}` }, make("span", { textContent: item.tag }), make("span", { className: "muted", textContent: item.count }));
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.tag = item.tag;
      option.addEventListener("mousedown", (event) => { event.preventDefault(); this.take(item.tag); this.close(); });
      return option;
    }));
    this.list.hidden = !found.length;
    this.input.setAttribute("aria-expanded", String(found.length > 0));
    this.mark(-1);
  }

  mark(at) {
    const options = [...this.list.children];
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    if (options[at]) { this.input.setAttribute("aria-activedescendant", options[at].id); options[at].scrollIntoView({ block: "nearest" }); }
    else this.input.removeAttribute("aria-activedescendant");
    this.at = at;
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.mark(-1);
  }

  pressed(event) {
    const options = [...this.list.children];
    const open = !this.list.hidden;
    if (event.key === "ArrowDown" && open) { event.preventDefault(); this.mark((this.at + 1) % options.length); }
    else if (event.key === "ArrowUp" && open) { event.preventDefault(); this.mark((this.at - 1 + options.length) % options.length); }
    else if (event.key === "Enter" && (this.input.value.trim() || this.at >= 0)) {
      event.preventDefault();
      this.take(options[this.at]?.dataset.tag ?? this.input.value);
      this.close();
    } else if (event.key === "Escape" && open) { event.stopPropagation(); this.close(); }
    else if (event.key === "Backspace" && !this.input.value && this.tags.length) { this.tags.pop(); this.draw(); this.input.focus(); }
  }
}

// Ctrl K: pages, a search, a document by its number.
class KbPalette extends HTMLElement {
  connectedCallback() {
    this.dialog = this.querySelector("dialog");
    this.input = this.querySelector("input");
    this.list = this.querySelector("ul");
    this.input.addEventListener("input", () => this.draw());
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("click", (event) => this.go(event.target.closest("li")));
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); this.open(); }
    });
    document.addEventListener("click", (event) => event.target.closest?.("[data-palette]") && this.open());
  }

  open() {
    if (this.dialog.open) return;
    this.input.value = "";
    this.draw();
    this.dialog.showModal();
    this.input.focus();
  }

  get entries() {
    const text = this.input.value.trim();
    const pages = [...document.querySelectorAll("#menu nav a, #menu .actions a")].map((link) => ({ text: link.textContent.trim(), hint: "Go to", url: link.href }));
    const on = [...document.querySelectorAll("#main a[data-kind]")].filter((link) => !link.closest(".bar")?.hidden).map((link) => ({ text: `${link.textContent.trim()}: the selection`, hint: "Do", link }));
    const known = [...on, ...pages].filter((entry) => entry.text.toLowerCase().includes(text.toLowerCase()));
    const more = text ? [{ text: `Search for “${text}”`, hint: "Search", url: `/console/search?${new URLSearchParams({ query: text })}` }] : [];
    if (/^#?\d+$/.test(text)) more.unshift({ text: `Open document ${text.replace("#", "")}`, hint: "Open", url: `/console/documents/${text.replace("#", "")}` });
    return [...known, ...more].slice(0, 12);
  }

  draw() {
    this.list.replaceChildren(...this.entries.map((entry, at) => {
      const item = make("li", { id: `palette-${at}` }, make("span", { textContent: entry.text }), make("span", { className: "muted small", textContent: entry.hint }));
      item.setAttribute("role", "option");
      item.entry = entry;
      return item;
    }));
    this.mark(0);
  }

  mark(at) {
    const items = [...this.list.children];
    this.at = items.length ? (at + items.length) % items.length : -1;
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === this.at)));
    items[this.at]?.scrollIntoView({ block: "nearest" });
    if (items[this.at]) this.input.setAttribute("aria-activedescendant", items[this.at].id);
  }

  pressed(event) {
    if (event.key === "ArrowDown") { event.preventDefault(); this.mark(this.at + 1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); this.mark(this.at - 1); }
    else if (event.key === "Enter") { event.preventDefault(); this.go(this.list.children[this.at]); }
  }

  go(item) {
    if (!item) return;
    this.dialog.close();
    if (item.entry.link) item.entry.link.click();
    else visit(item.entry.url);
  }
}

customElements.define("kb-selection", KbSelection);
customElements.define("kb-tags", KbTags);
customElements.define("kb-palette", KbPalette);
