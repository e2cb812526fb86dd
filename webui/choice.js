// Native inputs under pictures: the browser brings keys and semantics.
const root = element.querySelector(".picture-choice"), options = root.querySelector(".options");
const group = `choice-${Math.random().toString(36).slice(2)}`;
root.querySelector("legend").textContent = props.legend;

const chosen = () => (props.several ? new Set(props.value || []) : new Set(props.value ? [props.value] : []));
function build() {
  const items = props.items || [], now = chosen();
  while (options.children.length > items.length) options.lastChild.remove();
  while (options.children.length < items.length) {
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = props.several ? "checkbox" : "radio";
    input.name = group;
    label.append(input, document.createElement("img"), document.createElement("span"));
    options.append(label);
  }
  items.forEach((item, index) => {
    const [input, image, words] = options.children[index].children;
    input.value = item.id;
    input.checked = now.has(item.id);
    input.disabled = !item.id;
    if (image.getAttribute("src") !== item.src) image.src = item.src;
    image.alt = "";
    image.draggable = false;
    words.textContent = item.label ?? "";
  });
}
options.addEventListener("change", () => {
  const ids = [...options.querySelectorAll("input:checked")].map((input) => input.value);
  props.value = props.several ? ids : (ids[0] ?? "");
  trigger("change");
});
watch(Object.keys({ items: 0, value: 0 }), build); // names in quotes would become events of the component
build();
