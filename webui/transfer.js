// The file goes as it is to the form's address, a model with the name it shall have; XMLHttpRequest tells how much of it
// has gone.
const form = element.querySelector(".model-drop"), file = form.querySelector("[type=file]"), name = form.elements.name;
const button = form.querySelector("button"), bar = form.querySelector("progress"), said = form.querySelector(".said");

function say(words, tone) {
  said.textContent = words;
  said.dataset.tone = tone;
}
function choose() {
  const chosen = file.files[0];
  button.disabled = !chosen;
  if (chosen && name && !name.value)
    name.value = chosen.name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "");
}
file.addEventListener("change", choose);
form.addEventListener("dragover", (event) => event.preventDefault());
form.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) {
    file.files = event.dataTransfer.files;
    choose();
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const chosen = file.files[0];
  if (!chosen || (name && !name.value)) return say("Choose a file and give it a name.", "failed");
  const query = name ? `?${new URLSearchParams({ file: chosen.name, licence: form.elements.licence.value })}` : "";
  const request = new XMLHttpRequest();
  request.open("PUT", form.dataset.to + (name ? `/${encodeURIComponent(name.value)}` : "") + query);
  request.upload.addEventListener("progress", (sent) => {
    bar.value = sent.loaded / sent.total;
    say(sent.loaded < sent.total ? `Sending: ${Math.round(100 * bar.value)} %` : "Reading it without running anything in it …", "");
  });
  request.addEventListener("loadend", () => {
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch {}
    bar.hidden = true;
    button.disabled = false;
    if (!answer.name) return say(`Not imported. ${answer.error ?? "The connection was lost."}`, "failed");
    say(`${answer.name} is here.${form.dataset.after}`, "done");
    form.reset();
    choose();
    trigger("taken", { name: answer.name });
  });
  button.disabled = true;
  bar.hidden = false;
  bar.value = 0;
  request.send(chosen);
});
