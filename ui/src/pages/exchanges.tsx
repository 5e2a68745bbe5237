// Exchanges: all of them, and a new one.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, put } from "../api";
import { exchangeName, rate } from "../format";
import { Badge, Button, Card, Check, Empty, Select, TextArea, TextField } from "../parts/basics";
import type { Details } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { ServerTable } from "../parts/table";
import { go, href } from "../router";
import { may } from "../session";
import { likelyVhost, listPath, vhosts } from "../vhost";

export interface ExchangeRow {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  internal: boolean;
  arguments: Record<string, unknown>;
  policy?: string;
  effective_policy_definition: Record<string, unknown>;
  message_stats?: Record<string, number | Details>;
}

export function exchangeRate(row: ExchangeRow, name: string): number {
  return (row.message_stats?.[`${name}_details`] as Details | undefined)?.rate ?? 0;
}

export function exchangeFeatures(row: ExchangeRow): JSX.Element {
  return (
    <span class="badges">
      <Badge tone="info">{row.type}</Badge>
      {!row.durable && <Badge>transient</Badge>}
      {row.auto_delete && <Badge>auto-delete</Badge>}
      {row.internal && <Badge title="Takes messages of other exchanges only">internal</Badge>}
      {"alternate-exchange" in row.arguments && <Badge title={`What it cannot route goes to ${String(row.arguments["alternate-exchange"])}`}>alternate</Badge>}
    </span>
  );
}

export function Exchanges(): JSX.Element {
  const [creating, setCreating] = useState(false);
  const [version, setVersion] = useState(0);
  return (
    <>
      <div class="page-head">
        <h1>Exchanges</h1>
      </div>
      <Card flush label="Exchanges">
        <ServerTable<ExchangeRow>
          name="exchanges"
          path={listPath("exchanges")}
          rowKey={(row) => `${row.vhost} ${row.name}`}
          filterLabel="Filter by name"
          defaultSort="name"
          version={version}
          actions={
            may("PUT /api/exchanges/{vhost}/{exchange}") && (
              <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
                Create an exchange
              </Button>
            )
          }
          columns={[
            {
              id: "name",
              title: "Name",
              sort: "name",
              show: (row) => (
                <>
                  <a class="cell-main" href={href(["exchanges", row.vhost, row.name || "amq.default"])}>
                    {exchangeName(row.name)}
                  </a>
                  {vhosts.value.length > 1 && <span class="cell-sub">{row.vhost}</span>}
                </>
              ),
            },
            { id: "features", title: "Features", sort: "type", show: exchangeFeatures },
            { id: "in", title: "In", sort: "message_stats.publish_in_details.rate", numeric: true, show: (row) => rate(exchangeRate(row, "publish_in")) },
            { id: "out", title: "Out", sort: "message_stats.publish_out_details.rate", numeric: true, show: (row) => rate(exchangeRate(row, "publish_out")) },
            { id: "policy", title: "Policy", sort: "policy", show: (row) => row.policy ?? "" },
          ]}
          empty={<Empty title="There is no exchange here" />}
        />
      </Card>
      {creating && <CreateExchange onClose={() => (setCreating(false), setVersion(version + 1))} />}
    </>
  );
}

const TYPES: [string, string][] = [
  ["topic", "topic: by patterns of words"],
  ["direct", "direct: by the same key"],
  ["fanout", "fanout: to all"],
  ["headers", "headers: by what headers say"],
  ["x-delayed-message", "x-delayed-message: after a while"],
  ["x-consistent-hash", "x-consistent-hash: spread by key"],
  ["x-message-deduplication", "x-message-deduplication: each once"],
  ["x-random", "x-random: to one of them"],
];

function CreateExchange({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [home, setHome] = useState(likelyVhost());
  const [type, setType] = useState("topic");
  const [durable, setDurable] = useState(true);
  const [alternate, setAlternate] = useState("");
  const [more, setMore] = useState("");
  const submit = async (): Promise<string> => {
    const given = { ...(alternate ? { "alternate-exchange": alternate } : {}), ...(more.trim() ? (JSON.parse(more) as object) : {}) };
    await put(at`/exchanges/${home}/${name}`, { type, durable, arguments: given });
    setTimeout(() => go(["exchanges", home, name]));
    return `The exchange ${name} is there.`;
  };
  return (
    <FormDialog title="Create an exchange" action="Create" wide ready={name !== ""} onSubmit={submit} onClose={onClose}>
      <div class="form-row">
        <TextField label="Name" value={name} onInput={setName} autofocus required />
        {vhosts.value.length > 1 && <Select label="Virtual host" value={home} options={vhosts.value.map((one) => [one, one])} onInput={setHome} />}
        <Select label="Type" value={type} options={TYPES} onInput={setType} />
      </div>
      <Check label="Durable" hint="Survives a restart." checked={durable} onInput={setDurable} />
      <TextField label="Alternate exchange" value={alternate} onInput={setAlternate} mono hint="Gets what no binding takes; without it such messages are gone." />
      <TextArea label="Further arguments, as JSON" value={more} onInput={setMore} rows={2} placeholder='{"x-delayed-type": "direct"}' />
    </FormDialog>
  );
}
