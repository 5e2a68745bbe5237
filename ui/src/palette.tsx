// The palette: Ctrl-K, a few letters, Enter. Pages at once; queues and exchanges as the server finds them.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, withQuery } from "./api";
import { NAV } from "./nav";
import { Icon, type IconName } from "./parts/icons";
import { go } from "./router";
import { may } from "./session";

export const paletteOpen = signal(false);

interface Hit {
  key: string;
  title: string;
  hint: string;
  icon: IconName;
  path: string[];
}

interface Named {
  name: string;
  vhost: string;
}

const FOUND_MAX = 8;

export function Palette(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Hit[]>([]);
  const [at, setAt] = useState(0);
  const pages: Hit[] = NAV.filter((item) => may(item.needs) && item.title.toLowerCase().includes(text.toLowerCase())).map((item) => ({
    key: `page ${item.id}`,
    title: item.title,
    hint: "Page",
    icon: item.icon,
    path: [item.id],
  }));
  const hits = [...pages, ...found];
  const close = (): void => {
    paletteOpen.value = false;
  };
  const open = (hit: Hit | undefined): void => {
    if (!hit) return;
    close();
    go(hit.path);
  };

  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    setAt(0);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      if (text !== "") void search(text, abort.signal).then((some) => !abort.signal.aborted && setFound(some), () => undefined);
      else setFound([]);
    }, 120);
    return () => (clearTimeout(timer), abort.abort());
  }, [text]);

  const key = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((at + step + hits.length) % Math.max(1, hits.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(hits[at]);
    }
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Jump to" onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-hits"
        aria-activedescendant={hits[at] ? `hit-${at}` : undefined}
        aria-label="Page, queue or exchange"
        placeholder="Page, queue or exchange …"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={key}
        autofocus
        spellcheck={false}
      />
      <ul id="palette-hits" role="listbox" aria-label="What was found">
        {hits.map((hit, index) => (
          <li key={hit.key} id={`hit-${index}`} role="option" aria-selected={index === at} onClick={() => open(hit)}>
            <Icon name={hit.icon} />
            <span class="hit-title">{hit.title}</span>
            <span class="hit-hint">{hit.hint}</span>
          </li>
        ))}
      </ul>
      {hits.length === 0 && <p class="hint">Nothing has “{text}” in its name.</p>}
    </dialog>
  );
}

async function search(text: string, abort: AbortSignal): Promise<Hit[]> {
  const query = { name: text, page: 1, page_size: FOUND_MAX, columns: "name,vhost" };
  const [queues, exchanges] = await Promise.all([
    get<{ items: Named[] }>(withQuery("/queues", query), abort),
    get<{ items: Named[] }>(withQuery("/exchanges", query), abort),
  ]);
  return [
    ...queues.items.map((one) => hit("queue", "queues", one, ["queues", one.vhost, one.name])),
    ...(NAV.some((item) => item.id === "exchanges")
      ? exchanges.items.filter((one) => one.name !== "").map((one) => hit("exchange", "exchanges", one, ["exchanges", one.vhost, one.name]))
      : []),
  ];
}

function hit(kind: string, icon: IconName, one: Named, path: string[]): Hit {
  return { key: `${kind} ${one.vhost} ${one.name}`, title: one.name, hint: `${kind} in ${one.vhost}`, icon, path };
}
