// A new queue: its kind, and the arguments that matter, each explained.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, put } from "../api";
import { Check, Select, TextArea, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { go } from "../router";
import { likelyVhost, vhosts } from "../vhost";

interface Argument {
  name: string;
  title: string;
  hint: string;
  kind: "number" | "text";
  streams?: boolean;
  queues?: boolean;
}

const ARGUMENTS: Argument[] = [
  { name: "x-message-ttl", title: "Message TTL (ms)", hint: "Messages that wait longer expire.", kind: "number", queues: true },
  { name: "x-max-length", title: "Most messages", hint: "Beyond it the oldest message goes, or as overflow says.", kind: "number", queues: true },
  { name: "x-overflow", title: "Overflow", hint: "drop-head, reject-publish or reject-publish-dlx.", kind: "text", queues: true },
  { name: "x-dead-letter-exchange", title: "Dead-letter exchange", hint: "Where rejected and expired messages go.", kind: "text", queues: true },
  { name: "x-dead-letter-routing-key", title: "Dead-letter routing key", hint: "Instead of the message's own key.", kind: "text", queues: true },
  { name: "x-max-priority", title: "Priorities", hint: "How many levels, 1 to 255; 10 is plenty.", kind: "number", queues: true },
  { name: "x-expires", title: "Expires (ms)", hint: "The queue itself goes when it is not used for so long.", kind: "number", queues: true },
  { name: "x-max-length-bytes", title: "Most octets", hint: "The oldest segments go when the log is larger.", kind: "number", streams: true },
  { name: "x-max-age", title: "Oldest", hint: "Such as 7D or 12h; older segments go.", kind: "text", streams: true },
];

export function CreateQueue({ onClose }: { onClose: () => void }): JSX.Element {
  const [vhost, setVhost] = useState(likelyVhost());
  const [name, setName] = useState("");
  const [type, setType] = useState("classic");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [given, setGiven] = useState<Record<string, string>>({});
  const [more, setMore] = useState("");
  const isStream = type === "stream";
  const submit = async (): Promise<string> => {
    const body: Record<string, unknown> = { "x-queue-type": type };
    for (const one of ARGUMENTS) {
      const text = given[one.name] ?? "";
      if (text !== "" && (isStream ? one.streams : one.queues)) body[one.name] = one.kind === "number" ? Number(text) : text;
    }
    if (more.trim() !== "") Object.assign(body, JSON.parse(more) as object);
    await put(at`/queues/${vhost}/${name}`, { durable: durable || isStream, auto_delete: autoDelete && !isStream, arguments: body });
    setTimeout(() => go(["queues", vhost, name]));
    return `The queue ${name} is there.`;
  };
  return (
    <FormDialog title="Create a queue" action="Create" wide ready={name !== ""} onSubmit={submit} onClose={onClose}>
      <div class="form-row">
        <TextField label="Name" value={name} onInput={setName} required autofocus />
        {vhosts.value.length > 1 && <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={setVhost} />}
        <Select
          label="Kind"
          value={type}
          options={[
            ["classic", "Classic queue"],
            ["stream", "Stream"],
          ]}
          onInput={setType}
          hint={isStream ? "A log that consumers read without taking anything away." : "Each message goes to one consumer."}
        />
      </div>
      {!isStream && (
        <div class="form-row">
          <Check label="Durable" hint="Survives a restart, with its persistent messages." checked={durable} onInput={setDurable} />
          <Check label="Auto-delete" hint="Goes with its last consumer." checked={autoDelete} onInput={setAutoDelete} />
        </div>
      )}
      <div class="form-row">
        {ARGUMENTS.filter((one) => (isStream ? one.streams : one.queues)).map((one) => (
          <TextField key={one.name} label={one.title} hint={one.hint} value={given[one.name] ?? ""} onInput={(text) => setGiven({ ...given, [one.name]: text })} {...(one.kind === "number" ? { type: "number" } : {})} />
        ))}
      </div>
      <TextArea label="Further arguments, as JSON" value={more} onInput={setMore} rows={2} placeholder='{"x-single-active-consumer": true}' />
    </FormDialog>
  );
}
