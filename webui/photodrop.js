// The photo goes as text in the event itself: it never becomes a file on the server.
const root = element.querySelector(".photo-drop"), file = root.querySelector("input"), said = root.querySelector(".said");
root.querySelector(".words").textContent = props.words;
file.multiple = props.several;

function say(words) {
  said.textContent = words;
}
async function send(chosen) {
  const photos = [];
  for (const photo of chosen) {
    if (photo.size > 10e6) return say(`${photo.name} is larger than 10 MB. Use a smaller copy.`);
    const bytes = new Uint8Array(await photo.arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    photos.push(btoa(text));
  }
  say("");
  if (photos.length) trigger("taken", { photos });
}
file.addEventListener("change", async () => {
  await send([...file.files].slice(0, props.several ? 8 : 1));
  file.value = ""; // the same photo may be chosen again
});
root.addEventListener("dragover", (event) => {
  event.preventDefault();
  root.classList.add("over");
});
root.addEventListener("dragleave", () => root.classList.remove("over"));
root.addEventListener("drop", (event) => {
  event.preventDefault();
  root.classList.remove("over");
  send([...event.dataTransfer.files].slice(0, props.several ? 8 : 1));
});
