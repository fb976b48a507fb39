// Runs before the first paint, so that users of the dark theme see no flash of the light one. A separate plain script,
// because the content security policy forbids inline scripts.

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
