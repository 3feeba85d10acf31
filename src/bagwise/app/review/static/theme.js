// Before anything is drawn, so that a dark page never flashes white.
(() => {
  try {
    const chosen = localStorage.getItem("bagwise-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // storage is switched off: the system decides
  }
})();
