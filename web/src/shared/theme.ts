// Runs before the page is painted, so that nobody who has chosen dark sees a flash of light. Loaded as a plain script
// of its own, because the pages' policy allows none inside the HTML.

const stored = localStorage.getItem("tidings.theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function show(): void {
  const choice = document.documentElement.dataset["themeChoice"];
  document.documentElement.dataset["theme"] =
    choice === "light" || choice === "dark" ? choice : prefersDark.matches ? "dark" : "light";
}

document.documentElement.dataset["themeChoice"] = stored === "light" || stored === "dark" ? stored : "system";
show();
prefersDark.addEventListener("change", show);
document.addEventListener("tidings:theme", show);

export {};
