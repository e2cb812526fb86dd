// The tour: a few steps over the real pages, each beside the control it speaks of. It begins by itself once, on the start
// page of a browser that has not seen it, and again from Help (./?tour). A native modal dialog keeps the focus and Esc.
(() => {
  const SEEN = "lethe-tour";    // in localStorage: shown once, whether finished or not
  const AT = "lethe-tour-step"; // in sessionStorage: the step, while the tour goes from page to page
  const PATIENCE = 8000;        // ms to wait for a control that a page draws late
  const PHONE = 620, GAP = 14, EDGE = 16, ROOM = 8; // px
  const STEPS = [
    ["./", ".hero .faces", "What the generator draws",
      "It made these pictures up. Lethe makes it forget one thing, shows you what else has changed, and can take it back."],
    ["./", "a.card", "Three ways in",
      "A feature such as glasses, one person, or something that was erased before and should return.", "parent"],
    ["./feature", ".name-row", "Forget a feature",
      "Name it and press Show samples. Then say which samples show it, with a click or the keys y and n. Ten with and ten " +
      "without are enough to begin."],
    ["./identity", "#photo, #people", "Forget a person",
      "Choose whom, erase, and look at pairs before and after: this person, and everyone else. A photo stays in this " +
      "computer's memory."],
    ["./audit", "#audit-subject", "Ask whether it did forget",
      "Attacks try to bring back what was erased, and a report says how often they did. Expect that some do: an erasure hides."],
    ["./recover", "[role=tablist]", "Take it back",
      "What you keep is a small file beside the model. Leave it out and the model is as before, bit for bit."],
    ["./", "header nav a[href='./help']", "That was all",
      "Help has the words, the keys, what happens to a photo, and this tour again."],
  ];
  let dialog = null, following = false, drawn = "";

  function make() {
    dialog = document.createElement("dialog");
    dialog.id = "tour";
    dialog.setAttribute("aria-labelledby", "tour-title");
    dialog.setAttribute("aria-describedby", "tour-words");
    dialog.innerHTML =
      '<div class="ring"></div><div class="card"><p class="eyebrow"></p><h2 id="tour-title"></h2><p id="tour-words"></p>' +
      '<div class="ways"><button type="button" class="plain skip-tour">Skip the tour</button>' +
      '<button type="button" class="plain back">Back</button><button type="button" class="plain next"></button></div></div>';
    const on = (name, act) => dialog.querySelector(name).addEventListener("click", act);
    on(".skip-tour", () => dialog.close());
    on(".back", () => turn(step() - 1));
    on(".next", () => (step() + 1 < STEPS.length ? turn(step() + 1) : dialog.close()));
    dialog.addEventListener("close", () => sessionStorage.removeItem(AT)); // by a button or by Esc
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight") dialog.querySelector(".next").click();
      else if (event.key === "ArrowLeft" && step() > 0) turn(step() - 1);
    });
    document.body.append(dialog);
  }

  const step = () => Number(sessionStorage.getItem(AT));
  const here = () => document.querySelector("header nav [aria-current]")?.getAttribute("href");
  const isSeen = (found) => found.offsetParent !== null && found.getBoundingClientRect().width > 0;

  function target() {
    const [, selector, , , which] = STEPS[step()];
    const found = [...document.querySelectorAll(selector)].find(isSeen);
    return which === "parent" ? found?.parentElement : found;
  }

  function turn(number) {
    sessionStorage.setItem(AT, number);
    if (STEPS[number][0] !== here()) location.assign(STEPS[number][0]);
    else show();
  }

  function show() {
    if (!dialog) make();
    const number = step(), [, , title, words] = STEPS[number];
    dialog.querySelector(".eyebrow").textContent = `Tour, ${number + 1} of ${STEPS.length}`;
    dialog.querySelector("h2").textContent = title;
    dialog.querySelector("#tour-words").textContent = words;
    dialog.querySelector(".back").hidden = number === 0;
    dialog.querySelector(".skip-tour").hidden = number + 1 === STEPS.length;
    dialog.querySelector(".next").textContent = number + 1 < STEPS.length ? "Next" : "Finish";
    if (!dialog.open) dialog.showModal();
    dialog.querySelector(".next").focus();
    find(number, performance.now() + PATIENCE);
    if (!following) follow();
  }

  // Pages fill and scroll while one reads: the ring stays with its control.
  function follow() {
    following = Boolean(dialog?.open);
    if (!following) return;
    place();
    requestAnimationFrame(follow);
  }

  // Waits for the control, then brings it where it and the card can both be seen.
  function find(number, until) {
    if (!dialog.open || step() !== number) return;
    const found = target();
    if (!found) {
      if (performance.now() < until) setTimeout(find, 100, number, until);
      return;
    }
    const bar = document.querySelector("header.bar"), box = around(found);
    const free = innerHeight - (innerWidth <= PHONE ? card().offsetHeight : 0);
    const top = bar.contains(found) ? 0 : Math.max(bar.offsetHeight + EDGE, (free - box.height) / 2);
    if (!bar.contains(found)) scrollBy({ top: box.top - top, behavior: "instant" });
    else found.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
  }

  const card = () => dialog.querySelector(".card");

  // With what stands out of it, such as faces that are shifted.
  function around(found) {
    const boxes = [found, ...found.children].map((one) => one.getBoundingClientRect()).filter((box) => box.width);
    const left = Math.min(...boxes.map((box) => box.left)), top = Math.min(...boxes.map((box) => box.top));
    const width = Math.max(...boxes.map((box) => box.right)) - left, height = Math.max(...boxes.map((box) => box.bottom)) - top;
    return { left, top, width, height, bottom: top + height };
  }

  function place() {
    const found = target(), own = card(), box = found && around(found);
    const now = JSON.stringify([step(), innerWidth, innerHeight, own.offsetHeight, box]);
    if (now === drawn) return;
    drawn = now;
    dialog.classList.toggle("pointing", Boolean(found));
    own.removeAttribute("style");
    if (!found) return;
    Object.assign(dialog.querySelector(".ring").style, {
      left: `${box.left - ROOM}px`, top: `${box.top - ROOM}px`,
      width: `${box.width + 2 * ROOM}px`, height: `${box.height + 2 * ROOM}px`,
    });
    if (innerWidth <= PHONE) return; // there it is a sheet at the foot
    const below = box.bottom + ROOM + GAP, above = box.top - ROOM - GAP - own.offsetHeight;
    const lowest = innerHeight - own.offsetHeight - EDGE, rightmost = innerWidth - own.offsetWidth - EDGE;
    own.style.top = `${below <= lowest ? below : above >= EDGE ? above : lowest}px`;
    own.style.left = `${Math.max(EDGE, Math.min(box.left, rightmost))}px`;
  }

  // Called when a page's frame stands.
  function enter() {
    const query = new URLSearchParams(location.search), asked = query.has("tour");
    if (asked) history.replaceState(null, "", location.pathname);
    if (asked || (here() === "./" && !localStorage.getItem(SEEN))) sessionStorage.setItem(AT, 0);
    if (sessionStorage.getItem(AT) === null) return;
    localStorage.setItem(SEEN, "seen");
    if (STEPS[step()]?.[0] === here()) show();
    else sessionStorage.removeItem(AT); // somebody went elsewhere
  }

  // A page that the browser keeps for its Back button must not come back with the tour open; the step goes on elsewhere.
  addEventListener("pagehide", () => { dialog?.remove(); dialog = null; });
  if (window.lethe) window.lethe.tour = enter;
})();
