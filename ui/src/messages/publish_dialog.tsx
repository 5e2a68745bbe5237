// Publishes a message: a new one, or an edited copy of one that was looked at.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, post } from "../api";
import { Select, TextArea, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import type { Message } from "./message";

export interface Draft {
  exchange: string;
  routing_key: string;
  properties: object;
  payload: string;
  payload_encoding: "string" | "base64";
}

export function PublishDialog({ vhost, message, onClose }: { vhost: string; message: Draft | Message; onClose: () => void }): JSX.Element {
  const [exchange, setExchange] = useState(message.exchange);
  const [key, setKey] = useState(message.routing_key);
  const [properties, setProperties] = useState(JSON.stringify(message.properties, null, 2));
  const [payload, setPayload] = useState(message.payload);
  const [encoding, setEncoding] = useState<string>(message.payload_encoding);
  const submit = async (): Promise<string> => {
    const made: unknown = JSON.parse(properties === "" ? "{}" : properties);
    const name = exchange === "" ? "amq.default" : exchange;
    const { routed } = await post<{ routed: boolean }>(at`/exchanges/${vhost}/${name}/publish`, {
      routing_key: key,
      properties: made,
      payload,
      payload_encoding: encoding,
    });
    if (!routed) throw new Error("Published, but no queue took it: nothing is bound that matches. Simulate the route to see why.");
    return "Published, and routed to a queue.";
  };
  return (
    <FormDialog title="Publish a message" action="Publish" wide onSubmit={submit} onClose={onClose}>
      <div class="form-row">
        <TextField label="Exchange" value={exchange} onInput={setExchange} hint="Empty for the default exchange, which routes to the queue that the key names." />
        <TextField label="Routing key" value={key} onInput={setKey} mono />
        <Select
          label="Body is"
          value={encoding}
          options={[
            ["string", "Text"],
            ["base64", "Base64"],
          ]}
          onInput={setEncoding}
        />
      </div>
      <TextArea label="Body" value={payload} onInput={setPayload} rows={8} />
      <TextArea label="Properties, as JSON" value={properties} onInput={setProperties} rows={5} hint='Such as {"delivery_mode": 2, "content_type": "application/json", "headers": {"tries": 1}}' />
    </FormDialog>
  );
}
