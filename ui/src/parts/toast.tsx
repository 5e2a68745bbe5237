// Short messages about what has just been done, read out by screen readers.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { said } from "../api";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let next = 0;

export function toast(text: string, bad = false): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
  setTimeout(() => (toasts.value = toasts.value.filter((one) => one.id !== id)), bad ? 9000 : 4000);
}

/** Does something, and says how it went. */
export async function attempt(doing: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await doing();
    toast(done);
    return true;
  } catch (error) {
    toast(said(error), true);
    return false;
  }
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={one.bad ? "toast toast-bad" : "toast"}>
          {one.text}
        </div>
      ))}
    </div>
  );
}
