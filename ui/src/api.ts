// Requests to the HTTP API. The session is a cookie that scripts cannot read; the header tells the server that a page of
// its own asks.
import { signal } from "@preact/signals";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly error: string,
    reason: string,
  ) {
    super(reason);
  }
}

/** Whether the broker answers at all. */
export const reachable = signal(true);
/** Called when the server no longer knows the session. */
export const onSessionEnd: { call: (reason: string) => void } = { call: () => undefined };

export interface Reply<T> {
  body: T;
  status: number;
  headers: Headers;
}

interface Options {
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** A path of the API; names in it are encoded: at`/queues/${vhost}/${queue}`. */
export function at(fixed: TemplateStringsArray, ...names: string[]): string {
  return fixed.map((part, index) => part + (index < names.length ? encodeURIComponent(names[index] ?? "") : "")).join("");
}

export function withQuery(path: string, query: Record<string, string | number | boolean | undefined>): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") words.set(name, String(value));
  const text = words.toString();
  return text === "" ? path : `${path}?${text}`;
}

export async function ask<T>(method: string, path: string, options: Options = {}): Promise<Reply<T>> {
  const response = await fetched(method, path, options);
  const text = await response.text();
  const body: unknown = text === "" ? null : isJson(response) ? JSON.parse(text) : text;
  if (!response.ok) throw refusal(response, body);
  return { body: body as T, status: response.status, headers: response.headers };
}

export async function fetched(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { "X-Requested-With": "leveret-ui", ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const response = await fetch(`/api${path}`, {
      method,
      headers,
      credentials: "same-origin",
      ...(options.body !== undefined ? { body: JSON.stringify(options.body) } : {}),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    reachable.value = true;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.value = false;
    throw new ApiError(0, "unreachable", "The broker does not answer.");
  }
}

export function refusal(response: Response, body: unknown): ApiError {
  const told = (typeof body === "object" && body !== null ? body : {}) as { error?: string; reason?: unknown };
  const reason =
    typeof told.reason === "string" ? told.reason : told.reason !== undefined ? JSON.stringify(told.reason) : response.statusText;
  const error = new ApiError(response.status, told.error ?? "", reason || `the server answered ${response.status}`);
  const isChallenge = response.status === 401 && (body === null || error.error === "session_ended");
  if (isChallenge) onSessionEnd.call(error.error === "session_ended" ? "Your session has ended. Log in again." : "");
  return error;
}

function isJson(response: Response): boolean {
  return (response.headers.get("Content-Type") ?? "").startsWith("application/json");
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask<T>("GET", path, signal ? { signal } : {})).body;
}

export const put = async (path: string, body: unknown = {}): Promise<void> => void (await ask("PUT", path, { body }));
export const remove = async (path: string, headers?: Record<string, string>): Promise<void> =>
  void (await ask("DELETE", path, headers ? { headers } : {}));

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  return (await ask<T>("POST", path, { body })).body;
}

export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
