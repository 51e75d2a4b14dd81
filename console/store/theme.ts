// Light or dark: as the system has it, unless the reader chooses.

import { Store } from "./store.ts";

export type Theme = "system" | "light" | "dark";

const key = "millrace.theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export const theme = new Store<Theme>(storedTheme());

/** Call it once, before the page is drawn. */
export function followTheme(): void {
  const apply = () => {
    const isDark = theme.value === "dark" || (theme.value === "system" && prefersDark.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
  };
  apply();
  theme.subscribe(apply);
  prefersDark.addEventListener("change", apply);
}

export function chooseTheme(choice: Theme): void {
  localStorage.setItem(key, choice);
  theme.set(choice);
}

function storedTheme(): Theme {
  const stored = localStorage.getItem(key);
  return stored === "light" || stored === "dark" ? stored : "system";
}
