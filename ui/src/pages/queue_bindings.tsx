// What leads to a queue; new bindings, and the end of old ones.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Allowed } from "../access";
import { at, post, remove } from "../api";
import { useFetched } from "../fetching";
import { exchangeName } from "../format";
import { Button, Card, Failure, TextArea, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { PlainTable } from "../parts/table";
import { attempt } from "../parts/toast";
import { href } from "../router";

export interface Binding {
  source: string;
  vhost: string;
  destination: string;
  destination_type: "queue" | "exchange";
  routing_key: string;
  arguments: Record<string, unknown>;
  properties_key: string;
}

export function QueueBindings({ vhost, name, allowed }: { vhost: string; name: string; allowed: Allowed }): JSX.Element {
  const [adding, setAdding] = useState(false);
  const { data, error, reload } = useFetched<Binding[]>(at`/queues/${vhost}/${name}/bindings`, 10_000);
  return (
    <Card flush title="What leads here" actions={allowed.write && <Button small icon="plus" onClick={() => setAdding(true)}>Bind</Button>}>
      <Failure error={error} />
      <PlainTable
        label="Bindings"
        rows={data ?? []}
        rowKey={(row) => `${row.source} ${row.properties_key}`}
        columns={[
          { id: "source", title: "From exchange", show: (row) => (row.source === "" ? <span class="muted">(default)</span> : <a href={href(["exchanges", vhost, row.source])}>{exchangeName(row.source)}</a>) },
          { id: "key", title: "Routing key", show: (row) => <code>{row.routing_key || "–"}</code> },
          { id: "arguments", title: "Arguments", show: (row) => (Object.keys(row.arguments).length > 0 ? <code>{JSON.stringify(row.arguments)}</code> : "") },
          {
            id: "actions",
            title: "",
            numeric: true,
            show: (row) =>
              row.source !== "" &&
              allowed.write && (
                <Button small kind="danger" onClick={() => void attempt(() => remove(at`/bindings/${vhost}/e/${row.source}/q/${name}/${row.properties_key}`), "The binding is gone.").then(reload)}>
                  Unbind
                </Button>
              ),
          },
        ]}
      />
      {adding && (
        <BindDialog
          vhost={vhost}
          queue={name}
          onClose={() => {
            setAdding(false);
            reload();
          }}
        />
      )}
    </Card>
  );
}

function BindDialog({ vhost, queue, onClose }: { vhost: string; queue: string; onClose: () => void }): JSX.Element {
  const [exchange, setExchange] = useState("");
  const [key, setKey] = useState("");
  const [more, setMore] = useState("");
  const submit = async (): Promise<string> => {
    await post(at`/bindings/${vhost}/e/${exchange}/q/${queue}`, { routing_key: key, arguments: more.trim() === "" ? {} : (JSON.parse(more) as object) });
    return `Messages of ${exchange} come here now.`;
  };
  return (
    <FormDialog title={`Bind ${queue}`} action="Bind" ready={exchange !== ""} onSubmit={submit} onClose={onClose}>
      <TextField label="Exchange" value={exchange} onInput={setExchange} autofocus mono />
      <TextField label="Routing key" value={key} onInput={setKey} mono hint="For a topic exchange a pattern: * is one word, # any number." />
      <TextArea label="Arguments, as JSON" value={more} onInput={setMore} rows={2} placeholder='{"x-match": "all", "kind": "invoice"}' />
    </FormDialog>
  );
}
