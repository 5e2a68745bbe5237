// Live tail: what arrives in a queue or an exchange, as it comes; sampled, with a rate that cannot run away.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { said, withQuery } from "../api";
import { count, moment } from "../format";
import { MessageLine } from "../messages/browser";
import type { Message } from "../messages/message";
import { MessageView } from "../messages/message_view";
import { Badge, Button, Card, Empty, Failure, Select, TextField } from "../parts/basics";
import { listenOn } from "../live";
import { queried, setQuery } from "../router";
import { likelyVhost, vhosts } from "../vhost";

const KEPT = 200;
const LIFE_S = 600;

interface Seen {
  id: number;
  at: number;
  message: Message;
}

export function Tail(): JSX.Element {
  const [vhost, setVhost] = useState(queried("vhost", likelyVhost()));
  const [kind, setKind] = useState(queried("kind", "queue"));
  const [name, setName] = useState(queried("of"));
  const [key, setKey] = useState(queried("key"));
  const [rate, setRate] = useState(queried("rate", "10"));
  const [on, setOn] = useState(false);
  const [paused, setPaused] = useState(false);
  const [ended, setEnded] = useState("");
  const [error, setError] = useState("");
  const [seen, setSeen] = useState<Seen[]>([]);
  const [tally, setTally] = useState({ matched: 0, missed: 0 });
  const [chosen, setChosen] = useState<Seen | null>(null);
  const isPaused = useRef(false);
  isPaused.current = paused;

  useEffect(() => {
    if (!on) return;
    const abort = new AbortController();
    let next = Date.now();
    const path = withQuery("/tap", { vhost, [kind]: name === "" ? undefined : name, key, rate, life_s: LIFE_S, truncate: 20_000 });
    void listenOn(path, abort.signal, (event) => {
      if (event.kind === "tally") setTally(event.data as { matched: number; missed: number });
      else if (event.kind === "end") setEnded("The tail has ended after ten minutes.");
      else if (event.kind === "message" && !isPaused.current) {
        const one = { id: next++, at: Date.now(), message: event.data as Message };
        setSeen((old) => [one, ...old].slice(0, KEPT));
      }
    })
      .catch((failure: unknown) => !abort.signal.aborted && setError(said(failure)))
      .finally(() => !abort.signal.aborted && setOn(false));
    return () => abort.abort();
  }, [on]);

  const start = (): void => {
    setQuery({ vhost, kind, of: name, key, rate });
    setError("");
    setEnded("");
    setPaused(false);
    setOn(true);
  };
  return (
    <>
      <div class="page-head">
        <h1>Live tail</h1>
        {on && <Badge tone={paused ? "warn" : "good"}>{paused ? "paused" : "listening"}</Badge>}
        {on && (
          <span class="muted">
            {count(tally.matched)} matched, {count(tally.missed)} left out by the rate
          </span>
        )}
      </div>
      <Card label="What to watch">
        <form
          class="search-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (on) setOn(false);
            else start();
          }}
        >
          {vhosts.value.length > 1 && <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={setVhost} />}
          <Select
            label="Watch"
            value={kind}
            options={[
              ["queue", "A queue"],
              ["exchange", "An exchange"],
            ]}
            onInput={setKind}
          />
          <TextField label="Name" value={name} onInput={setName} required mono />
          <TextField label="Only keys like" value={key} onInput={setKey} mono placeholder="orders.*" />
          <TextField label="At most a second" type="number" value={rate} onInput={setRate} />
          <Button type="submit" kind={on ? "plain" : "primary"}>
            {on ? "Stop" : "Start"}
          </Button>
          {on && (
            <Button icon={paused ? "play" : "pause"} onClick={() => setPaused(!paused)}>
              {paused ? "Go on" : "Pause"}
            </Button>
          )}
        </form>
      </Card>
      <Failure error={error} />
      {ended !== "" && <p class="muted">{ended}</p>}
      {seen.length === 0 ? (
        <Card>
          <Empty title={on ? "Nothing has come yet" : "Watch what arrives"}>
            <p>{on ? "Messages appear here as they are published." : "Name a queue or an exchange and start. Nothing is taken from it."}</p>
          </Empty>
        </Card>
      ) : (
        <div class="split">
          <ul class="message-list" aria-label="Messages as they came">
            {seen.map((one) => (
              <li key={one.id}>
                <button type="button" aria-pressed={one.id === chosen?.id} onClick={() => (setChosen(one), setPaused(on))}>
                  <MessageLine message={one.message} />
                  <span class="line-foot">{moment(one.at)}</span>
                </button>
              </li>
            ))}
          </ul>
          {chosen ? <MessageView key={chosen.id} vhost={vhost} message={chosen.message} mayPublish={false} /> : <Empty title="Choose a message to see all of it" />}
        </div>
      )}
    </>
  );
}
