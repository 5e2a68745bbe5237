// Data of a view that stays fresh: fetched at once, again after a while as long as the page is seen, and kept while it is
// being fetched again, so that nothing flickers and no form is reset.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, said } from "./api";

export interface Fetched<T> {
  data: T | undefined;
  error: string;
  loading: boolean;
  reload: () => void;
}

export function useFetched<T>(path: string | null, everyMs = 0): Fetched<T> {
  const [state, setState] = useState<{ path: string | null; data: T | undefined; error: string; loading: boolean }>({
    path,
    data: undefined,
    error: "",
    loading: path !== null,
  });
  const [asked, setAsked] = useState(0);
  const failures = useRef(0);

  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    let timer = 0;
    setState((old) => ({ ...old, path, loading: true, data: old.path === path ? old.data : sameThing(old.path, path) ? old.data : undefined }));

    const fetchOnce = async (): Promise<void> => {
      try {
        const data = await get<T>(path, abort.signal);
        failures.current = 0;
        setState({ path, data, error: "", loading: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        failures.current += 1;
        // That the broker does not answer is said once, above the page.
        const text = error instanceof ApiError && error.status === 0 ? "" : said(error);
        setState((old) => ({ ...old, path, error: text, loading: false }));
      }
      if (everyMs > 0 && !abort.signal.aborted) {
        // A broker that does not answer is asked less and less often.
        const pause = Math.min(everyMs * 2 ** Math.min(failures.current, 3), 30_000);
        timer = window.setTimeout(() => (document.hidden ? waitUntilSeen() : void fetchOnce()), pause);
      }
    };
    const waitUntilSeen = (): void =>
      document.addEventListener("visibilitychange", () => void fetchOnce(), { once: true, signal: abort.signal });

    void fetchOnce();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, asked]);

  const reload = useCallback(() => setAsked((count) => count + 1), []);
  return { data: state.data, error: state.error, loading: state.loading, reload };
}

/** Whether only the query differs: then the old data stay until the new ones are there. */
function sameThing(before: string | null, now: string): boolean {
  return before !== null && before.split("?")[0] === now.split("?")[0];
}
