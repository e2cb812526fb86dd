// The zip goes as it is to /run-files; the same pieces as a model's file, without a name to choose.
const form = element.querySelector(".model-drop"), file = form.querySelector("input"), button = form.querySelector("button");
const bar = form.querySelector("progress"), said = form.querySelector(".said");

function say(words, tone) {
  said.textContent = words;
  said.dataset.tone = tone;
}
file.addEventListener("change", () => (button.disabled = !file.files.length));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!file.files.length) return;
  const request = new XMLHttpRequest();
  request.open("PUT", "./run-files");
  request.upload.addEventListener("progress", (sent) => {
    bar.value = sent.loaded / sent.total;
    say(sent.loaded < sent.total ? `Sending: ${Math.round(100 * bar.value)} %` : "Checking it …", "");
  });
  request.addEventListener("loadend", () => {
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch {}
    bar.hidden = true;
    form.reset();
    if (!answer.job) return say(`Not imported. ${answer.error ?? "The connection was lost."}`, "failed");
    say("It is here. Its erasure is on the Recover page and is not applied.", "done");
    trigger("taken", { job: answer.job });
  });
  button.disabled = true;
  bar.hidden = false;
  bar.value = 0;
  request.send(file.files[0]);
});
