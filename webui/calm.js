// Gradio runs a clock of sixty frames a second for every part that waits for the server, and one from the start that it
// never stops. We show none of them, so they get no frame: on a busy machine all pages would wait, their clocks would
// take the time the server needs to answer, and they would wait longer. A clock is known by reading the time.
(() => {
  const soon = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => (String(callback).includes("performance.now()") ? 0 : soon(callback));
})();
