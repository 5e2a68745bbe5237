// Server-sent events, read by fetch: the session's header goes with it, and a refusal can be told.
import { ApiError, fetched, refusal } from "./api";

export interface Happening {
  kind: string;
  data: unknown;
}

/** Until it is aborted, or the server has said the end. Raises ApiError. */
export async function listen(path: string, signal: AbortSignal, onEvent: (event: Happening) => void): Promise<void> {
  const response = await fetched("GET", path, { signal, headers: { Accept: "text/event-stream" } });
  if (!response.ok || !response.body) throw refusal(response, await bodyOf(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parsed(block);
      if (event) onEvent(event);
    }
  }
}

function parsed(block: string): Happening | null {
  let kind = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data === "" ? null : { kind, data: JSON.parse(data) as unknown };
}

async function bodyOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/** The same, begun anew after every failure, later and later; a refusal ends it. */
export async function listenOn(path: string, signal: AbortSignal, onEvent: (event: Happening) => void): Promise<void> {
  let pause = 1000;
  while (!signal.aborted) {
    try {
      await listen(path, signal, (event) => {
        pause = 1000;
        onEvent(event);
      });
      return;
    } catch (error) {
      if (signal.aborted || (error instanceof ApiError && error.status !== 0)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 30_000);
  }
}
