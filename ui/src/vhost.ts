// The virtual host that lists show, or all of them.
import { effect, signal } from "@preact/signals";
import { at, get } from "./api";
import { kept, keep } from "./kept";
import { session } from "./session";

/** Empty for all. */
export const vhost = signal(kept("vhost") ?? "");
export const vhosts = signal<string[]>([]);

effect(() => keep("vhost", vhost.value === "" ? null : vhost.value));

export async function loadVhosts(): Promise<void> {
  try {
    const found = await get<{ name: string }[]>("/vhosts?columns=name");
    vhosts.value = found.map((one) => one.name).sort();
    if (vhost.value !== "" && !vhosts.value.includes(vhost.value)) vhost.value = "";
  } catch {
    // Whoever may not see the list works with all that they see.
    vhosts.value = [];
  }
}

effect(() => {
  if (session.value !== null) void loadVhosts();
});

/** The list of a kind of thing: of the chosen virtual host, or of all. */
export function listPath(kind: string): string {
  return vhost.value === "" ? `/${kind}` : at`/${kind}/${vhost.value}`;
}

/** Where something new is made unless the user says otherwise. */
export function likelyVhost(): string {
  return vhost.value || (vhosts.value.includes("/") ? "/" : (vhosts.value[0] ?? "/"));
}
