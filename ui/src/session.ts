// Who is logged in, and what the server lets them do. Rights come from the server's table of routes: a button asks
// `may("DELETE /api/queues/{vhost}/{queue}")` and is not there if the answer is no.
import { computed, signal } from "@preact/signals";
import { ApiError, ask, get, onSessionEnd, reachable, remove } from "./api";

export interface Session {
  name: string;
  tags: string[];
  ends_in_s: number | null;
  may: string[];
}

export const session = signal<Session | null>(null);
/** Until the server has said whether there is a session. */
export const starting = signal(true);
export const loginReason = signal("");

const allowed = computed(() => new Set(session.value?.may ?? []));

export function may(route: string): boolean {
  return allowed.value.has(route);
}

onSessionEnd.call = (reason) => {
  if (session.value !== null) loginReason.value = reason || "Log in again.";
  session.value = null;
};

export async function resume(): Promise<void> {
  try {
    session.value = await get<Session>("/session");
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) {
      setTimeout(() => void resume(), 2000);
      return;
    }
    session.value = null;
  }
  starting.value = false;
}

export async function logIn(credentials: { username: string; password: string } | { token: string }): Promise<void> {
  const reply = await ask<Session>("POST", "/session", { body: credentials });
  loginReason.value = "";
  session.value = reply.body;
  reachable.value = true;
}

export async function logOut(): Promise<void> {
  try {
    await remove("/session");
  } finally {
    loginReason.value = "";
    session.value = null;
  }
}
