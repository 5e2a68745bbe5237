// One message, whole: body, headers, properties, the way it died, and what can be done with it.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { bytes, count, exchangeName, moment } from "../format";
import { Badge, Button, CopyButton, Facts, Note } from "../parts/basics";
import { session } from "../session";
import { type Decoded, decode, type View } from "./decode";
import { JsonView } from "./json_view";
import { type Death, deathsOf, type Message, octetsOf } from "./message";
import { PublishDialog } from "./publish_dialog";
import { asCurl, asPython } from "./snippets";

const TITLES: Record<View, string> = { json: "JSON", msgpack: "MessagePack", text: "Text", hex: "Hex" };

export function MessageView({ vhost, message, mayPublish, loadWhole }: { vhost: string; message: Message; mayPublish: boolean; loadWhole?: () => void }): JSX.Element {
  const [publishing, setPublishing] = useState(false);
  const deaths = deathsOf(message);
  const headers = Object.entries(message.properties.headers ?? {}).filter(([name]) => name !== "x-death" || deaths.length === 0);
  const properties = Object.entries(message.properties).filter(([name]) => name !== "headers");
  return (
    <div class="message">
      <div class="message-actions">
        {mayPublish && (
          <Button small kind="primary" onClick={() => setPublishing(true)}>
            Publish a copy
          </Button>
        )}
        <CopyButton text={message.payload} label="Copy the body">
          Body
        </CopyButton>
        <CopyButton text={asCurl(vhost, message, session.value?.name ?? "guest")} label="Copy as curl">
          As curl
        </CopyButton>
        <CopyButton text={asPython(vhost, message)} label="Copy as Python">
          As Python
        </CopyButton>
      </div>
      <Body message={message} {...(loadWhole ? { loadWhole } : {})} />
      {deaths.length > 0 && <Deaths deaths={deaths} />}
      <div class="grid-2">
        <section>
          <h3>Message</h3>
          <Facts
            of={[
              ["Exchange", exchangeName(message.exchange)],
              ["Routing key", <code>{message.routing_key}</code>],
              ["Size", bytes(message.payload_bytes)],
              ...(message.stream_offset !== undefined ? [["Offset", count(message.stream_offset)] as [string, string]] : message.position !== undefined ? [["Position", count(message.position)] as [string, string]] : []),
              ...(message.arrived_at ? [["Arrived", moment(message.arrived_at)] as [string, string]] : []),
              ...(message.delivery_count ? [["Delivered before", `${message.delivery_count} times`] as [string, string]] : []),
              ...properties.map(([name, value]): [string, JSX.Element] => [name.replaceAll("_", " "), <code>{shown(value)}</code>]),
            ]}
          />
        </section>
        <section>
          <h3>Headers</h3>
          {headers.length === 0 ? <p class="muted">None.</p> : <Facts of={headers.map(([name, value]): [string, JSX.Element] => [name, <code>{shown(value)}</code>])} />}
        </section>
      </div>
      {publishing && <PublishDialog vhost={vhost} message={message} onClose={() => setPublishing(false)} />}
    </div>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Body({ message, loadWhole }: { message: Message; loadWhole?: () => void }): JSX.Element {
  const [decoded, setDecoded] = useState<Decoded | null>(null);
  const [chosen, setChosen] = useState<View | null>(null);
  useEffect(() => {
    let live = true;
    void decode(octetsOf(message), message.properties.content_type, message.properties.content_encoding).then((made) => live && setDecoded(made));
    return () => {
      live = false;
    };
  }, [message.payload]);
  if (!decoded) return <p class="loading">Decoding …</p>;
  const view = chosen !== null && decoded.views[chosen] !== undefined ? chosen : decoded.best;
  const text = decoded.views[view] ?? "";
  const got = octetsOf(message).length;
  return (
    <section class="body">
      <div class="body-head">
        <div class="segmented" role="group" aria-label="How the body is shown">
          {(Object.keys(TITLES) as View[])
            .filter((one) => decoded.views[one] !== undefined)
            .map((one) => (
              <button key={one} type="button" aria-pressed={one === view} onClick={() => setChosen(one)}>
                {TITLES[one]}
              </button>
            ))}
        </div>
        {decoded.compression !== "" && <Badge tone="info">{decoded.compression}</Badge>}
        <span class="muted">{bytes(message.payload_bytes)}</span>
      </div>
      {got < message.payload_bytes && (
        <Note tone="neutral">
          The first {bytes(got)} of {bytes(message.payload_bytes)}.{" "}
          {loadWhole && (
            <button type="button" class="link" onClick={loadWhole}>
              Load all of it
            </button>
          )}
        </Note>
      )}
      {view === "json" || view === "msgpack" ? (
        <JsonView text={text} />
      ) : (
        <pre class={`body-view${view === "hex" ? " body-hex" : ""}`} tabIndex={0} aria-label="Body">
          {text === "" ? "(empty)" : text}
        </pre>
      )}
    </section>
  );
}

function Deaths({ deaths }: { deaths: Death[] }): JSX.Element {
  return (
    <section>
      <h3>How it died</h3>
      <ol class="timeline">
        {[...deaths].reverse().map((death, index) => (
          <li key={index}>
            <b>{death.queue}</b> <Badge tone={death.reason === "rejected" ? "bad" : "warn"}>{death.reason}</Badge>
            <span class="muted">
              {" "}
              {count(death.count)} {death.count === 1 ? "time" : "times"}, first {when(death.time)}; exchange {exchangeName(death.exchange)}
              {death["routing-keys"] && `, key ${death["routing-keys"].join(", ")}`}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function when(time: number | string | undefined): string {
  if (time === undefined) return "at an unknown time";
  return typeof time === "number" ? moment(time * 1000) : time;
}
