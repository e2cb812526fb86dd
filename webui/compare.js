// One slider for all pairs. Everything here stays in the browser.
const root = element.querySelector(".compare-grid");
const list = root.querySelector(".list"), dialog = root.querySelector("dialog"), stage = root.querySelector(".stage");
const reveal = root.querySelector(".reveal input"), amplify = root.querySelector(".amplify input");
const steps = root.querySelector(".steps"), stepInput = steps.querySelector("input"), stepOut = steps.querySelector("output");
const sort = root.querySelector(".sort"), hint = root.querySelector(".hint"), modes = root.querySelector(".modes");
const MODES = [["split", "Slider", "v"], ["side", "Side by side", "s"], ["flip", "Flip", "f"], ["difference", "Difference", "d"]];
const group = `view-${Math.random().toString(36).slice(2)}`;
let order = [], enlarged = -1;

for (const [mode, words, key] of MODES) {
  const label = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
  Object.assign(input, { type: "radio", name: group, value: mode, checked: mode === "split" });
  text.textContent = words;
  label.title = `key ${key}`;
  label.append(input, text);
  modes.append(label);
}

function setMode(mode) {
  root.dataset.mode = mode;
  modes.querySelector(`[value=${mode}]`).checked = true;
  hint.hidden = mode !== "flip";
}
function setReveal(percent) {
  reveal.value = percent;
  root.style.setProperty("--reveal", reveal.value);
}
const after = (item) => (Array.isArray(item.b) ? item.b[Math.min(stepInput.value, item.b.length - 1)] : item.b);

function picture(kind) {
  const image = document.createElement("img");
  Object.assign(image, { className: kind, draggable: false, decoding: "async" });
  return image;
}
function blank() {
  const figure = document.createElement("figure"), frame = document.createElement("div"), caption = document.createElement("figcaption");
  frame.className = "frame";
  const larger = document.createElement("button");
  Object.assign(larger, { type: "button", className: "larger", tabIndex: -1, textContent: "⤢" }); // Enter does it by key
  frame.append(picture("a"), picture("b"), larger);
  caption.append(...["before", "", "after"].map((words) => {
    const span = document.createElement("span");
    span.textContent = words;
    return span;
  }));
  figure.append(frame, caption);
  return figure;
}
function show(figure, item, index) {
  const [a, b] = figure.querySelectorAll("img"), label = String(item.label ?? index + 1), next = after(item);
  if (a.getAttribute("src") !== item.a) a.src = item.a;
  if (b.getAttribute("src") !== next) b.src = next;
  figure.querySelector(".larger").setAttribute("aria-label", `Enlarge ${label}`);
  a.alt = `Before: ${label}`;
  b.alt = `After: ${label}`;
  figure.querySelectorAll("figcaption span")[1].textContent = label;
  figure.dataset.index = index;
}

function build() {
  const items = props.value || [], known = props.steps || [];
  order = items.map((_, index) => index);
  steps.hidden = known.length < 2;
  if (known.length) {
    if (Number(stepInput.max) !== known.length - 1) {
      stepInput.max = known.length - 1;
      stepInput.value = known.length - 1;
    }
    stepOut.textContent = String(known[stepInput.value] ?? "");
  }
  root.hidden = items.length === 0;
  while (list.children.length > items.length) list.lastChild.remove();
  while (list.children.length < items.length) list.append(blank());
  items.forEach((item, index) => {
    const figure = list.children[index];
    show(figure, item, index);
    figure.tabIndex = index === 0 ? 0 : -1;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `Pair ${index + 1}: ${String(item.label ?? "")}`);
  });
  if (sort.getAttribute("aria-pressed") === "true") byChange();
}

// Mean absolute difference on a 24 px copy: enough to put the most changed first.
async function change(item) {
  const read = async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 24;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.drawImage(image, 0, 0, 24, 24);
    return pen.getImageData(0, 0, 24, 24).data;
  };
  const [a, b] = await Promise.all([read(item.a), read(after(item))]);
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]), 0) / a.length;
}
async function byChange() {
  const items = props.value || [];
  const changes = await Promise.all(items.map(change));
  order = items.map((_, index) => index).sort((i, j) => changes[j] - changes[i]);
  order.forEach((index, place) => show(list.children[place], items[index], index));
}

function enlarge(figure) {
  enlarged = Number(figure.dataset.index);
  const copy = figure.cloneNode(true);
  copy.removeAttribute("tabindex");
  copy.querySelector(".larger").remove();
  stage.replaceChildren(copy);
  dialog.showModal();
  trigger("full", { index: enlarged });
}

modes.addEventListener("change", (event) => setMode(event.target.value));
reveal.addEventListener("input", () => setReveal(reveal.value));
amplify.addEventListener("input", () => root.style.setProperty("--amplify", amplify.value));
stepInput.addEventListener("input", build);
sort.addEventListener("click", () => {
  const on = sort.getAttribute("aria-pressed") !== "true";
  sort.setAttribute("aria-pressed", String(on));
  if (on) byChange();
  else build();
});
dialog.querySelector(".close").addEventListener("click", () => dialog.close());

// Dragging inside a pair moves the same slider; in the flip view holding shows the after.
let held = null;
const place = (event) => {
  const box = held.getBoundingClientRect();
  setReveal(100 - (100 * (event.clientX - box.left)) / box.width);
};
root.addEventListener("pointerdown", (event) => {
  const frame = event.target.closest(".frame");
  if (!frame || event.button || event.target.closest(".larger")) return;
  held = frame;
  if (root.dataset.mode === "flip") frame.classList.add("flipped");
  if (root.dataset.mode === "split") place(event);
});
window.addEventListener("pointermove", (event) => {
  if (held && root.dataset.mode === "split") place(event);
});
for (const end of ["pointerup", "pointercancel"])
  window.addEventListener(end, () => {
    held?.classList.remove("flipped");
    held = null;
  });
root.addEventListener("dblclick", (event) => {
  const figure = event.target.closest(".list figure");
  if (figure) enlarge(figure);
});

list.addEventListener("click", (event) => {
  if (event.target.closest(".larger")) enlarge(event.target.closest("figure"));
});

function move(figure, by) {
  const next = list.children[Math.max(0, Math.min(list.children.length - 1, [...list.children].indexOf(figure) + by))];
  figure.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
list.addEventListener("keydown", (event) => {
  const figure = event.target.closest("figure");
  if (!figure || event.ctrlKey || event.metaKey || event.altKey) return;
  const columns = getComputedStyle(list).gridTemplateColumns.split(" ").length;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -1e9, End: 1e9 }[event.key];
  if (by) move(figure, by);
  else if (event.key === "Enter") enlarge(figure);
  else if (event.key === " ") figure.querySelector(".frame").classList.add("flipped");
  else return;
  event.preventDefault();
});
list.addEventListener("keyup", (event) => {
  if (event.key === " ") event.target.closest("figure")?.querySelector(".frame").classList.remove("flipped");
});
document.addEventListener("keydown", (event) => {
  const mode = MODES.find(([, , key]) => key === event.key);
  const typing = event.target.closest?.("input:not([type=range]):not([type=radio]), textarea, select, [contenteditable]");
  if (mode && !typing && !event.ctrlKey && !event.metaKey && !event.altKey && root.offsetParent) setMode(mode[0]);
});

// Names in quotes would become events of the component, so these are keys here.
watch(Object.keys({ value: 0, steps: 0 }), build);
watch(Object.keys({ large: 0 }), () => {
  const large = props.large;
  if (!large || large.index !== enlarged || !dialog.open) return;
  const [a, b] = stage.querySelectorAll("img");
  a.src = large.a;
  b.src = large.b;
});
setReveal(50);
root.style.setProperty("--amplify", amplify.value);
build();
