// Paint first, save later. What the user did lies over whatever the server sends, and stays in an outbox (kept in the
// browser's storage) until the server has said that it is on disk.
const root = element.querySelector(".label-grid"), cells = root.querySelector(".cells");
const [count, saved, where, told, advised] = ["count", "saved", "where", "told", "advised"].map((name) => root.querySelector(`.${name}`));
const [undoButton, clearButton, moreButton, acceptButton, doubtButton, backButton, submitButton] =
  ["undo", "clear", "more", "accept", "doubt", "back", "submit"].map((name) => root.querySelector(`button.${name}`));
const zoom = root.querySelector(".zoom"), pager = root.querySelector(".turn-page");
const PAGE = 10, DELAY = 250, AGAIN = 2000;
const LIMIT = 12000; // ms: the server itself gives up on a busy record after ten seconds, and says so
// Every tab has a key of its own, so that none empties another's outbox. They sort by the time they were opened.
const OUTBOX = "lethe-outbox", TAB = `${OUTBOX}:${Date.now()}:${Math.random()}`;
const WORDS = { 1: "has it", 0: "has it not", u: "undecided", "": "not labelled" };

let items = [], labels = {}, mine = {}, ticks = {}, undone = [], last = 1, here = 0, page = 0, made = {};
let outbox = {}, timer = null, busy = false, dragged = null, anchor = 0, stage = "", news = null;

const ticking = () => props.mode === "tick";
const shown = () => (ticking() ? items.slice(page * PAGE, page * PAGE + PAGE) : items);
const guessOf = (item) => props.advice?.guesses?.[item.id] ?? null;
const isOdd = (item) => Boolean(props.advice?.odd?.includes(item.id));
const state = (item) => String((ticking() ? ticks[item.id] ?? labels[item.id] : labels[item.id]) ?? "");

// Saving

function keepOutbox() {
  try {
    if (Object.keys(outbox).length) localStorage.setItem(TAB, JSON.stringify(outbox));
    else localStorage.removeItem(TAB);
  } catch {}
}
function adopt() {
  // What other tabs left behind. One that is still open sends the same again, which changes nothing.
  try {
    for (const name of Object.keys(localStorage).filter((name) => name.startsWith(OUTBOX)).sort()) {
      try {
        for (const [key, { context, changes }] of Object.entries(JSON.parse(localStorage.getItem(name))))
          outbox[key] = { context, changes: { ...outbox[key]?.changes, ...changes } };
      } catch {} // no outbox of ours
      keepOutbox(); // before it goes there
      localStorage.removeItem(name);
    }
  } catch {}
}
function post(changes) {
  const key = JSON.stringify(props.context);
  outbox[key] ??= { context: props.context, changes: {} };
  for (const change of changes) outbox[key].changes[change.id] = change;
  keepOutbox();
  say("Saving …", "");
  clearTimeout(timer);
  timer = setTimeout(send, DELAY);
}
async function send() {
  clearTimeout(timer);
  const [key] = Object.keys(outbox);
  if (busy || key === undefined) return;
  busy = true;
  const sent = { ...outbox[key].changes };
  let answer;
  const silence = new Promise((done) => setTimeout(done, LIMIT));
  try {
    answer = await Promise.race([server.save({ context: outbox[key].context, changes: Object.values(sent) }), silence]);
  } catch {
    answer = { error: "the connection is lost." };
  }
  busy = false;
  if (!answer || answer.error || !answer.at) {
    say(`Not saved yet: ${answer?.error ?? "no answer."} Trying again …`, "failed");
    timer = setTimeout(send, AGAIN);
    return;
  }
  // What was changed again in the meantime is a new object and stays in the outbox.
  for (const [id, change] of Object.entries(sent)) if (outbox[key].changes[id] === change) delete outbox[key].changes[id];
  if (!Object.keys(outbox[key].changes).length) delete outbox[key];
  keepOutbox();
  if (key === JSON.stringify(props.context)) news = answer; // else another feature is shown by now
  if (Object.keys(outbox).length) return send();
  say(`Saved ${answer.at}`, "done");
  if (!news) return;
  // An event makes Gradio look at every part of the page, so a label costs one only when the page has to change.
  const changes = !news.stage || news.stage !== stage;
  tell(news);
  if (changes) trigger("input", { ...counts(), context: props.context });
}
function tell(from) {
  news = null;
  stage = from.stage ?? "";
  told.textContent = from.note ?? "";
}
function say(words, tone) {
  saved.textContent = words;
  saved.dataset.tone = tone;
}

// Painting

function paint(item) {
  const cell = cells.children[shown().indexOf(item)];
  if (!cell) return;
  const now = state(item), guess = now === "" && guessOf(item) !== null;
  const words = guess ? `guess: ${WORDS[guessOf(item)]}` : WORDS[now];
  const spoken = `Sample ${items.indexOf(item) + 1}, ${words}${isOdd(item) ? ", looks odd" : ""}`;
  if (cell.getAttribute("aria-label") === spoken) return; // it says all that is seen; writing it again costs a frame
  cell.setAttribute("aria-label", spoken);
  cell.dataset.l = now;
  cell.classList.toggle("guess", guess);
  if (guess) cell.dataset.guess = guessOf(item);
  cell.classList.toggle("odd", isOdd(item));
}
function counts() {
  const of = (value) => items.filter((item) => labels[item.id] === value).length;
  return { having: of(1), lacking: of(0) };
}
function tally() {
  const { having, lacking } = counts(), odd = props.advice?.odd?.length ?? 0;
  count.textContent = `${having} with · ${lacking} without · ${items.length - having - lacking} left`;
  doubtButton.hidden = !odd;
  doubtButton.textContent = odd === 1 ? "1 label looks odd: check it" : `${odd} labels look odd: check them`;
  advised.textContent = props.advice?.note ?? "";
  undoButton.disabled = !undone.length;
  const guesses = items.filter((item) => guessOf(item) !== null && state(item) === "").length;
  acceptButton.hidden = !guesses || ticking();
  acceptButton.textContent = "Accept the guesses you see (Enter)";
  if (ticking()) {
    const pages = Math.ceil(items.length / PAGE);
    where.textContent = `Page ${page + 1} of ${pages}`;
    backButton.disabled = page === 0;
    submitButton.textContent = page + 1 < pages ? "Submit page" : "Submit last page";
    submitButton.disabled = !items.length;
  }
}

// Changing. One Undo takes back one batch of labels, one tick, or one submitted page with its ticks. A label is written
// again as it was made: one that was a guess must not come back as an answer.

const drawn = (item) => (item.how === "guess" ? undefined : item.how);
function remember(batch = []) {
  const before = batch.map(([item]) => [item, labels[item.id] ?? null, item.id in made ? made[item.id] : item.how]);
  undone.push({ before, ticked: { ...ticks }, page });
}
function set(changes, how) {
  const batch = changes.filter(([item, value]) => (labels[item.id] ?? null) !== value);
  if (!batch.length) return;
  remember(batch);
  write(batch.map(([item, value]) => [item, value, how ?? drawn(item)]));
}
function write(batch) {
  for (const [item, value, how] of batch) {
    if (value === null) delete labels[item.id];
    else labels[item.id] = value;
    mine[item.id] = value;
    made[item.id] = how;
    paint(item);
  }
  tally();
  if (batch.length) post(batch.map(([item, value, how]) => ({ id: item.id, value, how, page: item.page ?? null })));
}
function undo() {
  let step;
  do step = undone.pop();
  while (step && !step.before.length && !ticking()); // ticks are seen on pages alone
  if (!step) return tally();
  ({ page, ticked: ticks } = step);
  write(step.before);
  if (ticking()) build();
}
function cycle(item) {
  if (ticking()) return tick(item, state(item) === "1" ? "" : 1);
  const next = { "": 1, 1: 0, 0: null }[state(item)];
  if (next !== null) last = next;
  set([[item, next]]);
}
function tick(item, value) {
  if (state(item) === String(value)) return;
  remember();
  ticks[item.id] = value;
  paint(item);
  tally();
}
function give(value) {
  const item = shown()[here];
  if (!item) return;
  if (ticking()) return tick(item, value === 1 ? 1 : value === null ? "u" : "");
  if (value !== null) last = value;
  anchor = here;
  set([[item, value]]);
  if (value !== null) focus(here + 1);
}
function range(from, to) {
  const [a, b] = from < to ? [from, to] : [to, from];
  return shown().slice(a, b + 1);
}
function acceptGuesses() {
  const seen = items.filter((item, index) => {
    const box = cells.children[index]?.getBoundingClientRect();
    return guessOf(item) !== null && state(item) === "" && box && box.bottom > 0 && box.top < innerHeight;
  });
  set(seen.map((item) => [item, guessOf(item)]), "guess");
}

// Pages of ten: ticked is with, the rest of a submitted page is without, undecided is neither.

function submitPage() {
  const changes = shown().map((item) => [item, state(item) === "u" ? null : state(item) === "1" ? 1 : 0]);
  for (const [item] of changes) item.page = (props.page || 1) + page;
  const before = undone.length;
  set(changes);
  if (undone.length === before) remember(); // it said what was known already, and Undo turns back to it
  for (const [item] of changes) if (state(item) !== "u") delete ticks[item.id];
  if ((page + 1) * PAGE >= items.length) return trigger("next");
  page += 1;
  build();
  focus(0);
}

// The cells, one Tab stop for all

function build() {
  const list = shown();
  root.dataset.mode = ticking() ? "tick" : "grid";
  pager.hidden = !ticking();
  while (cells.children.length > list.length) cells.lastChild.remove();
  while (cells.children.length < list.length) {
    const cell = document.createElement("button"), image = document.createElement("img");
    Object.assign(image, { alt: "", loading: "lazy", decoding: "async", draggable: false });
    cell.type = "button";
    cell.className = "cell";
    cell.append(image);
    cells.append(cell);
  }
  here = Math.min(here, Math.max(0, list.length - 1));
  list.forEach((item, index) => {
    const image = cells.children[index].firstChild;
    if (image.getAttribute("src") !== item.src) image.src = item.src;
    cells.children[index].tabIndex = index === here ? 0 : -1;
    paint(item);
  });
  root.hidden = items.length === 0;
  tally();
}
function focus(index) {
  const next = Math.max(0, Math.min(cells.children.length - 1, index));
  if (cells.children[here]) cells.children[here].tabIndex = -1;
  here = next;
  if (!cells.children[here]) return;
  cells.children[here].tabIndex = 0;
  cells.children[here].focus({ preventScroll: false });
}
const indexOf = (target) => [...cells.children].indexOf(target.closest?.(".cell"));

cells.addEventListener("click", (event) => {
  const index = indexOf(event.target);
  if (index < 0) return;
  if (dragged?.moved) return;
  const from = anchor;
  focus(index);
  anchor = index;
  if (event.shiftKey && !ticking()) set(range(from, index).map((item) => [item, last]));
  else cycle(shown()[index]);
});
cells.addEventListener("pointerdown", (event) => {
  dragged = null;
  if (event.pointerType === "mouse" && event.button === 0 && !event.shiftKey && !ticking())
    dragged = { from: indexOf(event.target), to: -1, moved: false };
});
cells.addEventListener("pointerover", (event) => {
  const index = indexOf(event.target);
  if (!dragged || !event.buttons || dragged.from < 0 || index < 0 || (index === dragged.from && !dragged.moved)) return;
  dragged.moved = true;
  dragged.to = index;
  const chosen = new Set(range(dragged.from, index));
  shown().forEach((item, place) => cells.children[place].classList.toggle("chosen", chosen.has(item)));
});
window.addEventListener("pointerup", () => {
  if (!dragged?.moved) return;
  for (const cell of cells.children) cell.classList.remove("chosen");
  set(range(dragged.from, dragged.to).map((item) => [item, last]));
  focus(dragged.to);
  setTimeout(() => (dragged = null));
});

function enlarge(on) {
  const item = shown()[here];
  zoom.hidden = !on || !item;
  if (on && item) zoom.firstChild.src = item.src;
}
cells.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") undo();
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else {
    const columns = getComputedStyle(cells).gridTemplateColumns.split(" ").length;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const steps = { ArrowRight: 1, l: 1, ArrowLeft: -1, h: -1, ArrowDown: columns, j: columns, ArrowUp: -columns, k: -columns };
    const digit = ticking() && /^[0-9]$/.test(key) ? (Number(key) + 9) % 10 : -1;
    if (steps[key]) focus(here + steps[key]);
    else if (key === "Home") focus(0);
    else if (key === "End") focus(cells.children.length - 1);
    else if (digit >= 0) shown()[digit] && cycle(shown()[digit]);
    else if (key === "y" || key === "1" || key === "a") give(1);
    else if (key === "n" || key === "0" || key === "x") give(0);
    else if (key === "u" || key === "Delete") give(null);
    else if (key === " ") enlarge(true);
    else if (key === "Backspace") undo();
    else if (key === "Enter") ticking() ? submitPage() : acceptGuesses();
    else if (key === "b") trigger("next");
    else return;
  }
  event.preventDefault();
  event.stopPropagation();
});
cells.addEventListener("keyup", (event) => {
  if (event.key !== " ") return;
  enlarge(false);
  event.preventDefault(); // a button is clicked by the release of Space
});
cells.addEventListener("focusin", (event) => {
  const index = indexOf(event.target);
  if (index < 0 || index === here) return;
  if (cells.children[here]) cells.children[here].tabIndex = -1;
  here = index;
  cells.children[here].tabIndex = 0;
});
cells.addEventListener("focusout", () => enlarge(false));
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s" && root.offsetParent) {
    event.preventDefault();
    send();
  }
});
undoButton.addEventListener("click", undo);
clearButton.addEventListener("click", () => set(items.map((item) => [item, null])));
moreButton.addEventListener("click", () => trigger("next"));
acceptButton.addEventListener("click", acceptGuesses);
doubtButton.addEventListener("click", () => trigger("doubt", { odd: props.advice.odd }));
backButton.addEventListener("click", () => {
  if (page > 0) page -= 1;
  build();
});
submitButton.addEventListener("click", submitPage);
document.addEventListener("visibilitychange", () => document.hidden && send());
window.addEventListener("beforeunload", (event) => Object.keys(outbox).length && (send(), event.preventDefault()));

// From the server

function restore() {
  labels = { ...(props.value || {}) };
  for (const [id, value] of Object.entries(mine)) {
    if (value === null) delete labels[id];
    else labels[id] = value;
  }
  build();
}
function batch() {
  items = props.items || [];
  [mine, made, ticks, undone, here, anchor, page] = [{}, {}, {}, [], 0, 0, 0];
  const waiting = outbox[JSON.stringify(props.context)]?.changes ?? {};
  for (const [id, change] of Object.entries(waiting)) mine[id] = change.value;
  tell(props);
  restore();
}
// The same batch comes in portions, perhaps twice, perhaps with new guesses: as long as the ids agree it is the same.
let known = null, revision = 0;
function refresh() {
  const next = props.items || [], context = JSON.stringify(props.context);
  const both = Math.min(items.length, next.length);
  const same = known === context && (both > 0 || !items.length) && items.slice(0, both).every((item, i) => item.id === next[i].id);
  known = context;
  if (!same) return batch();
  if (props.revision !== revision) {
    if (!outbox[context]) mine = {};
    tell(props);
  }
  revision = props.revision;
  items = [...next, ...items.slice(next.length)];
  restore();
}
adopt();
// Names in quotes would become events of the component, so they are keys here.
watch(Object.keys({ items: 0, context: 0, value: 0, mode: 0, advice: 0, revision: 0 }), refresh);
refresh();
if (Object.keys(outbox).length) send();
