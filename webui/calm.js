// Gradio's start-up clock is never stopped: on every open page it asks for sixty frames a second, for nobody to see. It
// is known by reading the time and by having begun before our page stood there; from then on it gets one frame a second.
(() => {
  const soon = window.requestAnimationFrame.bind(window);
  let stands = false; // whether our page is there
  let early = null; // within a callback: whether its line began before
  window.requestAnimationFrame = (callback) => {
    const began = early ?? !stands;
    const run = (time) => {
      early = began;
      try {
        callback(time);
      } finally {
        early = null;
      }
    };
    if (!began || !stands || !String(callback).includes("performance.now()")) return soon(run);
    setTimeout(() => soon(run), 1000);
    return 0;
  };
  window.addEventListener("lethe:stands", () => (stands = true), { once: true });
})();
