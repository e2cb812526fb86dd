// What every page shares: the chosen theme, the tab's title, the keys, and the word when the server is gone.
(() => {
  if (window.lethe) return;
  const query = new URLSearchParams(window.location.search);
  const KEY = "lethe-theme";

  function wear(theme) {
    document.body?.classList.toggle("dark", theme === "dark");
    document.documentElement.style.colorScheme = theme;
  }
  function asked() {
    const theme = query.get("__theme") || localStorage.getItem(KEY);
    if (theme === "dark" || theme === "light") return theme;
    return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  wear(asked());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => wear(asked()));

  window.lethe = {
    name: "Lethe",
    heard: 0, // when the server last sent something to show
    title(text) {
      document.title = text || this.name;
    },
    // The bar is lifted out of Gradio's <main>: it is the same on every page and no part of the content.
    enter(page, frame) {
      this.name = page === "Start" ? "Lethe" : `${page} · Lethe`;
      if (!document.querySelector("[data-title]")) this.title("");
      wear(asked());
      const skip = frame.querySelector(".skip"), bar = frame.querySelector(".bar");
      document.body.prepend(skip, bar);
      bar.querySelector(".turn").addEventListener("click", () => this.turn());
      const here = bar.querySelector("[aria-current]"), nav = bar.querySelector("nav");
      if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
      skip.addEventListener("click", (event) => {
        event.preventDefault();
        const content = document.getElementById("content");
        content.tabIndex = -1;
        content.focus();
      });
      this.tour?.();
    },
    turn() {
      const theme = document.body.classList.contains("dark") ? "light" : "dark";
      localStorage.setItem(KEY, theme);
      query.delete("__theme");
      wear(theme);
    },
  };

  // The server is asked only while something on this page runs and it has not spoken for a while, or while it was gone.
  const SILENCE = 4000;
  let lost = false;
  function banner() {
    let box = document.getElementById("lost");
    if (!box) {
      box = document.createElement("div");
      box.id = "lost";
      box.setAttribute("role", "status");
      document.body.append(box);
    }
    box.textContent = lost ? "Connection lost. The job goes on; this page reconnects." : "";
    box.hidden = !lost;
  }
  async function pulse() {
    const speaks = performance.now() - window.lethe.heard < SILENCE;
    if (!lost && (speaks || !document.querySelector("[data-live]"))) return;
    let alive = false;
    try {
      alive = (await fetch("./healthz", { cache: "no-store", signal: AbortSignal.timeout(4000) })).ok;
    } catch {}
    if (alive === lost) {
      lost = !alive;
      banner();
      if (alive) window.dispatchEvent(new Event("lethe:back"));
    }
  }
  setInterval(pulse, 2000);

  const KEYS = [
    ["arrows, h j k l, Home, End", "move in the grid"],
    ["y, 1 or a", "has it, go on"],
    ["n, 0 or x", "has it not, go on"],
    ["u or Delete", "clear this one"],
    ["Space", "enlarge while held"],
    ["Backspace or Ctrl+Z", "undo"],
    ["Shift+click or drag", "a range with the last label"],
    ["Enter", "accept all guesses you see"],
    ["g, b", "to the grid, next batch"],
    ["Ctrl+Enter", "run"],
    ["Esc", "stop and keep"],
    ["f, s, d, v", "flip, side by side, difference, slider"],
    ["Ctrl+S", "save now"],
    ["?", "this list"],
  ];
  function showKeys() {
    let dialog = document.getElementById("keys");
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.id = "keys";
      dialog.setAttribute("aria-label", "Keys");
      const title = document.createElement("h2");
      title.textContent = "Keys";
      const list = document.createElement("dl");
      for (const [key, does] of KEYS) {
        const dt = document.createElement("dt"), dd = document.createElement("dd");
        dt.textContent = key;
        dd.textContent = does;
        list.append(dt, dd);
      }
      const close = document.createElement("button");
      close.textContent = "Close";
      close.className = "plain";
      close.addEventListener("click", () => dialog.close());
      dialog.append(title, list, close);
      document.body.append(dialog);
    }
    dialog.showModal();
  }
  window.lethe.keys = showKeys;

  const typing = (target) => target.closest?.("input:not([type=range]):not([type=radio]), textarea, select, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const run = [...document.querySelectorAll("button.run:not([disabled])")].find((button) => button.offsetParent);
      if (run) run.click();
      return;
    }
    if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") showKeys();
    else if (event.key === "g") document.querySelector(".label-grid [tabindex='0']")?.focus();
    else if (event.key === "Escape" && !document.querySelector("dialog[open]"))
      document.querySelector("[data-on=stop_keep]")?.click();
    else return;
    event.preventDefault();
  });
})();
