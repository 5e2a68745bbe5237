// Light or dark: as the system wishes, unless chosen by hand.
import { effect, signal } from "@preact/signals";
import { kept, keep } from "./kept";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>((kept("theme") as Theme | null) ?? "system");
const media = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(false);

function settle(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && media.matches);
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
}

effect(() => {
  keep("theme", theme.value === "system" ? null : theme.value);
  settle();
});
media.addEventListener("change", settle);

/** The value of a colour token as it is now. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
