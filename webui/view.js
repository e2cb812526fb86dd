// Builds the nodes of `props.value`. Text becomes text nodes; tags and attributes are taken from lists.
const SVG = new Set("svg path polyline line circle rect g text".split(" "));
const TAGS = new Set((
  "a article b br button code dd details div dl dt em figcaption figure footer h1 h2 h3 h4 hr img kbd li ol p pre " +
  "progress section small span strong summary table tbody td th thead time tr ul").split(" "));
const ATTRIBUTES = new Set((
  "alt class colspan d datetime disabled download height hidden id max open points r role scope tabindex title type " +
  "value viewBox width x x1 x2 y y1 y2 cx cy rx loading preserveAspectRatio text-anchor").split(" "));
const CHECKED = {
  href: (text) => /^(\.\/|#|\?)/.test(text),
  src: (text) => /^data:image\/(webp|png|jpeg|svg\+xml)[;,]/.test(text),
};
const root = element.querySelector(".view");

function allowed(name, text) {
  if (CHECKED[name]) return CHECKED[name](text);
  return ATTRIBUTES.has(name) || /^(aria|data)-[a-z0-9-]+$/.test(name);
}

function dress(dom, attributes) {
  for (const { name } of [...dom.attributes])
    if (!(name in attributes) && name !== "open") dom.removeAttribute(name);
  for (const [name, text] of Object.entries(attributes))
    if (allowed(name, text) && dom.getAttribute(name) !== text) dom.setAttribute(name, text);
  if (dom.localName === "button") dom.type = "button";
}

function make(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const tag = node[0];
  const dom = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(TAGS.has(tag) ? tag : "span");
  dress(dom, node[1]);
  fill(dom, node.slice(2));
  return dom;
}

function fill(parent, nodes) {
  nodes.forEach((node, index) => {
    const old = parent.childNodes[index];
    if (!old) parent.append(make(node));
    else if (typeof node === "string" && old.nodeType === Node.TEXT_NODE) {
      if (old.data !== node) old.data = node;
    } else if (typeof node !== "string" && old.localName === node[0]) {
      dress(old, node[1]);
      fill(old, node.slice(2));
    } else old.replaceWith(make(node));
  });
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
}

function isNode(value) {
  return Array.isArray(value) && typeof value[0] === "string" && value[1] !== null && typeof value[1] === "object" &&
    !Array.isArray(value[1]);
}

let titled = false;
function draw() {
  if (window.lethe) window.lethe.heard = performance.now();
  const value = props.value;
  fill(root, value === null || value === undefined || value === "" ? [] : isNode(value) ? [value] : value);
  const title = root.querySelector("[data-title]");
  if (title || titled) window.lethe?.title(title ? title.dataset.title : "");
  titled = Boolean(title);
  const go = root.querySelector("[data-go]");
  if (go && go.dataset.go.startsWith("./")) window.location.assign(new URL(go.dataset.go, document.baseURI));
}

function calm(button) {
  if (button.dataset.asked) button.textContent = button.dataset.asked;
  delete button.dataset.asked;
}

root.addEventListener("click", (event) => {
  const button = event.target.closest("[data-on]");
  if (!button || button.disabled || !events.includes(button.dataset.on)) return;
  if (button.dataset.confirm && !button.dataset.asked) {
    button.dataset.asked = button.textContent;
    button.textContent = button.dataset.confirm;
    setTimeout(() => calm(button), 5000);
    return;
  }
  delete button.dataset.asked;
  if (button.dataset.busy) {
    button.textContent = button.dataset.busy;
    button.disabled = true;
  }
  trigger(button.dataset.on, { ...button.dataset });
});
if (events.includes("attach")) window.addEventListener("lethe:back", () => trigger("attach"));
watch("value", draw);
draw();
