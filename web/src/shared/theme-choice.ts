/** What a person can choose: one of the two looks, or that of the system. */
export type ThemeChoice = "light" | "dark" | "system";

/** The choice of this browser. `theme.js` has read it before the page came up. */
export function themeChoice(): ThemeChoice {
  const choice = document.documentElement.dataset["themeChoice"];
  return choice === "light" || choice === "dark" ? choice : "system";
}

/** Applies a choice at once and keeps it for all pages of this origin. */
export function chooseTheme(choice: ThemeChoice): void {
  localStorage.setItem("tidings.theme", choice);
  document.documentElement.dataset["themeChoice"] = choice;
  document.dispatchEvent(new Event("tidings:theme"));
}
