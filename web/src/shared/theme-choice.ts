/** The theme setting: light, dark, or that of the system. */
export type ThemeChoice = "light" | "dark" | "system";

/** The setting of this browser. `theme.js` has applied it before the page loads. */
export function themeChoice(): ThemeChoice {
  const choice = document.documentElement.dataset["themeChoice"];
  return choice === "light" || choice === "dark" ? choice : "system";
}

/** Applies a setting at once and stores it for all pages of this origin. */
export function chooseTheme(choice: ThemeChoice): void {
  localStorage.setItem("tidings.theme", choice);
  document.documentElement.dataset["themeChoice"] = choice;
  document.dispatchEvent(new Event("tidings:theme"));
}
