// One exchange: what it leads to, what leads to it, and where a message would go.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAllowed } from "../access";
import { at, post, remove, said, withQuery } from "../api";
import { useFetched } from "../fetching";
import { exchangeName, short } from "../format";
import { PublishDialog } from "../messages/publish_dialog";
import { Badge, Button, Card, Empty, Facts, Failure, Loading, Note, TextField } from "../parts/basics";
import { Chart, type Details, rates, SpanPicker, spanQuery, useSpan } from "../parts/chart";
import { ConfirmDialog } from "../parts/dialog";
import { PlainTable } from "../parts/table";
import { go, href } from "../router";
import { exchangeFeatures, type ExchangeRow } from "./exchanges";
import type { Binding } from "./queue_bindings";

export function Exchange({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const [span, setSpan] = useSpan();
  const [open, setOpen] = useState<"publish" | "delete" | null>(null);
  const { data, error } = useFetched<ExchangeRow>(withQuery(at`/exchanges/${vhost}/${name}`, spanQuery(span)), 5000);
  const out = useFetched<Binding[]>(at`/exchanges/${vhost}/${name}/bindings/source`, 10_000);
  const into = useFetched<Binding[]>(at`/exchanges/${vhost}/${name}/bindings/destination`, 10_000);
  const allowed = useAllowed(vhost, name === "amq.default" ? "" : name);
  if (!data) return error ? error === "Not Found" ? <Empty title={`There is no exchange ${name}`} /> : <Failure error={error} /> : <Loading what={name} />;
  const details = (of: string): Details | undefined => data.message_stats?.[`${of}_details`] as Details | undefined;
  const isOwn = data.name !== "" && !data.name.startsWith("amq.");
  return (
    <>
      <div class="page-head">
        <p class="crumbs">
          <a href={href(["exchanges"])}>Exchanges</a> in virtual host <code>{vhost}</code>
        </p>
        <h1>{exchangeName(data.name)}</h1>
        {exchangeFeatures(data)}
        <span class="toolbar-gap" />
        <SpanPicker span={span} onPick={setSpan} />
        {allowed.write && !data.internal && (
          <Button kind="primary" onClick={() => setOpen("publish")}>
            Publish
          </Button>
        )}
        {allowed.configure && isOwn && (
          <Button kind="danger" onClick={() => setOpen("delete")}>
            Delete
          </Button>
        )}
      </div>
      <Failure error={error} />
      <div class="grid-2">
        <Card label="Rates">
          <Chart
            title="Message rates"
            unit={(value) => `${short(value)}/s`}
            lines={[
              { label: "In", color: "--chart-1", points: rates(details("publish_in")) },
              { label: "Out", color: "--chart-2", points: rates(details("publish_out")) },
            ]}
          />
        </Card>
        <Simulation vhost={vhost} exchange={name} />
      </div>
      <Card flush title="Leads to">
        <Failure error={out.error} />
        {out.data?.length === 0 ? <Empty title={data.name === "" ? "To every queue, by its name" : "To nothing: what is published here is gone"} /> : <BindingTable rows={out.data ?? []} vhost={vhost} side="destination" />}
      </Card>
      {(into.data?.length ?? 0) > 0 && (
        <Card flush title="Gets messages from">
          <BindingTable rows={into.data ?? []} vhost={vhost} side="source" />
        </Card>
      )}
      {(Object.keys(data.arguments).length > 0 || data.policy) && (
        <Card title="Arguments and policy">
          <Facts
            of={[
              ...Object.entries(data.arguments).map(([key, value]): [string, JSX.Element] => [key, <code>{typeof value === "string" ? value : JSON.stringify(value)}</code>]),
              ...(data.policy ? [[`Policy ${data.policy}`, <code>{JSON.stringify(data.effective_policy_definition)}</code>] as [string, JSX.Element]] : []),
            ]}
          />
        </Card>
      )}
      {open === "publish" && <PublishDialog vhost={vhost} message={{ exchange: data.name, routing_key: "", properties: { delivery_mode: 2 }, payload: "", payload_encoding: "string" }} onClose={() => setOpen(null)} />}
      {open === "delete" && (
        <ConfirmDialog
          title={`Delete ${name}`}
          action="Delete"
          word={name}
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await remove(at`/exchanges/${vhost}/${name}`);
            go(["exchanges"]);
            return `The exchange ${name} is gone.`;
          }}
        >
          <p>Its bindings go with it. Publishers that still use it get an error that closes their channel.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function BindingTable({ rows, vhost, side }: { rows: Binding[]; vhost: string; side: "source" | "destination" }): JSX.Element {
  const target = (row: Binding): JSX.Element => {
    const isQueue = side === "destination" && row.destination_type === "queue";
    const name = row[side];
    return (
      <>
        <a class="cell-main" href={href([isQueue ? "queues" : "exchanges", vhost, name || "amq.default"])}>
          {exchangeName(name)}
        </a>{" "}
        <Badge>{isQueue ? "queue" : "exchange"}</Badge>
      </>
    );
  };
  return (
    <PlainTable
      label={side === "source" ? "Sources" : "Destinations"}
      rows={rows}
      rowKey={(row) => `${row.source} ${row.destination_type} ${row.destination} ${row.properties_key}`}
      columns={[
        { id: "target", title: side === "source" ? "From" : "To", show: target },
        { id: "key", title: "Routing key", show: (row) => <code>{row.routing_key || "–"}</code> },
        { id: "arguments", title: "Arguments", show: (row) => (Object.keys(row.arguments).length > 0 ? <code>{JSON.stringify(row.arguments)}</code> : "") },
      ]}
    />
  );
}

interface Trace {
  routed: boolean;
  queues: string[];
  reason: string;
  steps: { exchange: string; type: string; via: string; bindings: number; matched: { routing_key: string; destination: string; destination_type: string }[]; alternate: string | null; note: string }[];
}

function Simulation({ vhost, exchange }: { vhost: string; exchange: string }): JSX.Element {
  const [key, setKey] = useState("");
  const [headers, setHeaders] = useState("");
  const [found, setFound] = useState<Trace | null>(null);
  const [error, setError] = useState("");
  const run = async (): Promise<void> => {
    try {
      setError("");
      setFound(await post<Trace>("/simulate-route", { vhost, exchange, routing_key: key, headers: headers.trim() ? (JSON.parse(headers) as object) : {} }));
    } catch (failure) {
      setError(said(failure));
    }
  };
  return (
    <Card title="Where would a message go?">
      <form
        class="search-form"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <TextField label="Routing key" value={key} onInput={setKey} mono />
        <TextField label="Headers, as JSON" value={headers} onInput={setHeaders} mono placeholder='{"kind": "invoice"}' />
        <Button type="submit" kind="primary">
          Simulate
        </Button>
      </form>
      <Failure error={error} />
      {found && (
        <div class="trace" role="status">
          <Note tone={found.routed ? "good" : "warn"}>{found.routed ? `It would reach ${found.queues.join(", ")}.` : `It would reach no queue: ${found.reason}`}</Note>
          <ol class="timeline">
            {found.steps.map((step, index) => (
              <li key={index}>
                <b>{exchangeName(step.exchange)}</b> <Badge tone="info">{step.type}</Badge> <span class="muted">{step.via}; {step.matched.length} of {step.bindings} bindings match</span>
                {step.matched.slice(0, 10).map((match, at) => (
                  <div key={at}>
                    <code>{match.routing_key || "(no key)"}</code> → {match.destination} <span class="muted">({match.destination_type})</span>
                  </div>
                ))}
                {step.note && <div class="text-warn">{step.note}</div>}
              </li>
            ))}
          </ol>
        </div>
      )}
    </Card>
  );
}
