// What the browser remembers of a user's taste: theme, columns, virtual host. Never data, never secrets.
const PREFIX = "leveret.";

export function kept(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function keep(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage may be switched off; then the choice lasts as long as the page.
  }
}
