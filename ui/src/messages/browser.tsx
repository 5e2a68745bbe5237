// Looks into a queue without taking anything: page by page from the oldest, the newest, or what a search finds.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, at, get, said, withQuery } from "../api";
import { age, bytes, count } from "../format";
import { Badge, Button, Copyable, Empty, Failure, Loading, TextField } from "../parts/basics";
import { queried, setQuery } from "../router";
import { deathsOf, type Message } from "./message";
import { MessageView } from "./message_view";

const PAGE = 20;
const TRUNCATE = 50_000;

interface Found {
  messages: Message[];
  /** What a search looked at; null without one. */
  scanned: number | null;
  complete: boolean;
  last: string | null;
}

interface Wanted {
  order: string;
  offset: string;
  after: string;
  key: string;
  body: string;
  header: string;
  state: string;
}

function wanted(): Wanted {
  const of = (name: string, otherwise = ""): string => queried(name, otherwise);
  return { order: of("order", "oldest"), offset: of("offset"), after: of("after"), key: of("key"), body: of("body"), header: of("header"), state: of("state", "ready") };
}

function isSearch(want: Wanted): boolean {
  return want.key !== "" || want.body !== "" || want.header !== "";
}

function headerFilter(text: string): string | undefined {
  if (text === "") return undefined;
  const [name = "", value = ""] = text.split(/=(.*)/s);
  let meant: unknown = value;
  if (/^(-?\d+(\.\d+)?|true|false|null)$/.test(value)) meant = JSON.parse(value);
  return JSON.stringify({ [name.trim()]: meant });
}

export function Browser({ vhost, queue, ready, isStream, mayPublish }: { vhost: string; queue: string; ready: number; isStream: boolean; mayPublish: boolean }): JSX.Element {
  const want = wanted();
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState("");
  const [chosen, setChosen] = useState(0);
  const [asked, setAsked] = useState(0);
  const newest = want.order === "newest" && !isSearch(want);
  const key = JSON.stringify(want);

  useEffect(() => {
    const abort = new AbortController();
    setError("");
    void look(vhost, queue, want, isStream, newest ? ready : null, abort.signal).then(
      (made) => {
        setFound(newest ? { ...made, messages: [...made.messages].reverse() } : made);
        setChosen(0);
      },
      (failure: unknown) => !abort.signal.aborted && (setError(said(failure)), setFound(null)),
    );
    return () => abort.abort();
  }, [key, asked, vhost, queue]);

  const loadWhole = async (message: Message): Promise<void> => {
    const place = message.stream_offset ?? message.position ?? 0;
    const whole = await get<Message[]>(withQuery(at`/queues/${vhost}/${queue}/peek`, isStream ? { offset: place, count: 1 } : { after: Math.max(0, place - 1), count: 1 }));
    const first = whole[0];
    if (first && found) setFound({ ...found, messages: found.messages.map((one) => (one === message ? first : one)) });
  };
  const messages = found?.messages ?? [];
  const shown = messages[chosen];
  return (
    <div class="browser">
      <SearchForm want={want} isStream={isStream} onReload={() => setAsked(asked + 1)} />
      <Failure error={error} />
      {!found && error === "" && <Loading what="messages" />}
      {found && <Scanned found={found} want={want} />}
      {found && messages.length === 0 && (isSearch(want) ? <Empty title="No message matches">{!found.complete && <p>Nothing so far: go on to look further.</p>}</Empty> : <NoMessages vhost={vhost} queue={queue} />)}
      {messages.length > 0 && (
        <div class="split">
          <ul class="message-list" aria-label="Messages">
            {messages.map((message, index) => (
              <li key={`${message.position} ${index}`}>
                <button type="button" aria-pressed={index === chosen} onClick={() => setChosen(index)}>
                  <MessageLine message={message} />
                </button>
              </li>
            ))}
          </ul>
          {shown && <MessageView key={`${shown.position} ${chosen}`} vhost={vhost} message={shown} mayPublish={mayPublish} loadWhole={() => void loadWhole(shown)} />}
        </div>
      )}
      {found && !isSearch(want) && <Steps want={want} found={found} ready={ready} isStream={isStream} />}
    </div>
  );
}

async function look(vhost: string, queue: string, want: Wanted, isStream: boolean, newestOf: number | null, signal: AbortSignal): Promise<Found> {
  const query: Record<string, string | number | undefined> = {
    count: PAGE,
    truncate: TRUNCATE,
    routing_key: want.key || undefined,
    body_contains: want.body || undefined,
    headers: headerFilter(want.header),
  };
  if (want.state === "unacked" && !isStream) query["state"] = "unacked";
  if (isStream && want.after !== "") query["offset"] = Number(want.after) + 1;
  else if (isStream) query["offset"] = want.order === "newest" && newestOf !== null && want.offset === "" ? "last" : want.offset || undefined;
  else if (want.after !== "") query["after"] = want.after;
  else if (newestOf !== null) query["offset"] = Math.max(0, newestOf - PAGE - Number(want.offset || 0));
  else query["offset"] = want.offset || undefined;
  const reply = await ask<Message[]>("GET", withQuery(at`/queues/${vhost}/${queue}/peek`, query), { signal });
  const scanned = reply.headers.get("Leveret-Scanned");
  return {
    messages: reply.body,
    scanned: scanned === null ? null : Number(scanned),
    complete: reply.headers.get("Leveret-Complete") !== "false",
    last: reply.headers.get("Leveret-Last-Position"),
  };
}

function SearchForm({ want, isStream, onReload }: { want: Wanted; isStream: boolean; onReload: () => void }): JSX.Element {
  const [body, setBody] = useState(want.body);
  const [key, setKey] = useState(want.key);
  const [header, setHeader] = useState(want.header);
  const [offset, setOffset] = useState(want.offset);
  const pick = (order: string): void => setQuery({ order, offset: undefined, after: undefined });
  return (
    <form
      class="search-form"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery({ body, key, header, after: undefined, offset: isStream ? offset : undefined });
        onReload();
      }}
    >
      <TextField label="Body contains" value={body} onInput={setBody} />
      <TextField label="Routing key" value={key} onInput={setKey} mono />
      <TextField label="Header" value={header} onInput={setHeader} placeholder="name=value" mono />
      {isStream && <TextField label="From" value={offset} onInput={setOffset} placeholder="first, 1h, 120, 2026-01-31T12:00" mono />}
      <Button type="submit" icon="search">
        Search
      </Button>
      <div class="segmented" role="group" aria-label="Order">
        <button type="button" aria-pressed={want.order !== "newest"} onClick={() => pick("oldest")}>
          Oldest
        </button>
        <button type="button" aria-pressed={want.order === "newest"} onClick={() => pick("newest")}>
          Newest
        </button>
      </div>
    </form>
  );
}

function Scanned({ found, want }: { found: Found; want: Wanted }): JSX.Element | null {
  if (found.scanned === null) return null;
  return (
    <p class="scanned" role="status">
      Looked at {count(found.scanned)} messages, found {count(found.messages.length)}
      {found.complete ? ": that is the whole queue." : "."}
      {!found.complete && found.last !== null && want.state === "ready" && (
        <Button small onClick={() => setQuery({ after: found.last ?? undefined })}>
          Go on from there
        </Button>
      )}
      <Button small kind="quiet" onClick={() => setQuery({ key: undefined, body: undefined, header: undefined, after: undefined })}>
        Clear the search
      </Button>
    </p>
  );
}

function Steps({ want, found, ready, isStream }: { want: Wanted; found: Found; ready: number; isStream: boolean }): JSX.Element | null {
  const last = found.messages[found.messages.length - 1];
  if (isStream) {
    const next = last?.stream_offset;
    return next === undefined || want.order === "newest" ? null : (
      <div class="steps">
        <Button onClick={() => setQuery({ offset: String(next + 1) })}>Further</Button>
      </div>
    );
  }
  const offset = Number(want.offset || 0);
  return (
    <div class="steps">
      <Button icon="left" disabled={offset === 0} onClick={() => setQuery({ offset: offset <= PAGE ? undefined : String(offset - PAGE) })}>
        Back
      </Button>
      <span class="muted">
        {count(offset + 1)}–{count(offset + found.messages.length)} of {count(ready)} {want.order === "newest" ? "from the end" : ""}
      </span>
      <Button disabled={found.messages.length < PAGE || offset + PAGE >= ready} onClick={() => setQuery({ offset: String(offset + PAGE) })}>
        Further
      </Button>
    </div>
  );
}

export function MessageLine({ message }: { message: Message }): JSX.Element {
  const deaths = deathsOf(message);
  return (
    <>
      <span class="line-head">
        <b>{message.routing_key || "(no key)"}</b>
        {message.redelivered && <Badge tone="warn">redelivered</Badge>}
        {deaths[0] && <Badge tone="bad">{deaths[0].reason}</Badge>}
      </span>
      <span class="line-body">{message.payload_encoding === "string" ? message.payload.slice(0, 120) || "(empty)" : "binary"}</span>
      <span class="line-foot">
        {message.stream_offset !== undefined ? `#${count(message.stream_offset)} · ` : ""}
        {bytes(message.payload_bytes)}
        {message.arrived_at ? ` · ${age(Date.now() - message.arrived_at)} ago` : ""}
      </span>
    </>
  );
}

function NoMessages({ vhost, queue }: { vhost: string; queue: string }): JSX.Element {
  const body = JSON.stringify({ routing_key: queue, properties: { delivery_mode: 2 }, payload: "hello", payload_encoding: "string" });
  const command = `curl -u guest ${location.origin}/api/exchanges/${encodeURIComponent(vhost)}/amq.default/publish \\\n  -H 'Content-Type: application/json' -d '${body.replaceAll("'", `'\\''`)}'`;
  return (
    <Empty title="No message waits here">
      <p>Publish one, and look again:</p>
      <Copyable text={command} label="publish by curl" />
    </Empty>
  );
}
