// Loaded before the page is drawn, so that a chosen theme does not flash.
(() => {
  const chosen = localStorage.getItem("tacit-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("tacit-theme", root.dataset.theme);
    });
  });
})();
