// The broker at a glance: what flows, what waits, what needs somebody's attention.
import type { JSX } from "preact";
import { type NodeState } from "../alarms";
import { withQuery } from "../api";
import { useFetched } from "../fetching";
import { age, bytes, count, plural, rate, short } from "../format";
import { Badge, Card, Copyable, Empty, Facts, Failure, Loading, Stat } from "../parts/basics";
import { Chart, type Details, levels, rates, SpanPicker, spanQuery, useSpan } from "../parts/chart";
import { href } from "../router";
import { may } from "../session";
import { type QueueRow, state } from "./queue_rows";

interface OverviewData {
  cluster_name: string;
  node: string;
  rabbitmq_version: string;
  leveret_version?: string;
  queue_totals: Record<string, number> & { messages_ready_details: Details; messages_unacknowledged_details: Details };
  message_stats: Record<string, number | Details>;
  object_totals: Record<string, number>;
  listeners?: { protocol: string; ip_address: string; port: number; tls: boolean }[];
}

export function Overview(): JSX.Element {
  const [span, setSpan] = useSpan();
  const { data, error } = useFetched<OverviewData>(withQuery("/overview", spanQuery(span)), 5000);
  if (!data) return error ? <Failure error={error} /> : <Loading what="the overview" />;
  const details = (name: string): Details | undefined => data.message_stats[`${name}_details`] as Details | undefined;
  const totals = data.object_totals;
  const isSampled = (details("publish")?.samples?.length ?? 0) > 0;
  return (
    <>
      <div class="page-head">
        <h1>{data.cluster_name}</h1>
        <Badge tone="good">running</Badge>
        <span class="toolbar-gap" />
        {isSampled && <SpanPicker span={span} onPick={setSpan} />}
      </div>
      <Failure error={error} />
      <div class="stats">
        <Stat label="Ready" value={count(data.queue_totals["messages_ready"])} hint={plural(totals["queues"] ?? 0, "queue")} href={href(["queues"], { sort: "messages_ready", desc: "1" })} />
        <Stat label="Unacknowledged" value={count(data.queue_totals["messages_unacknowledged"])} hint={plural(totals["consumers"] ?? 0, "consumer")} href={href(["queues"], { sort: "messages_unacknowledged", desc: "1" })} />
        <Stat label="Published" value={rate(details("publish")?.rate ?? 0)} hint={`${short(Number(data.message_stats["publish"] ?? 0))} in all`} />
        <Stat label="Delivered" value={rate(details("deliver_get")?.rate ?? 0)} hint={`${short(Number(data.message_stats["deliver_get"] ?? 0))} in all`} />
        <Stat label="Connections" value={count(totals["connections"])} hint={plural(totals["channels"] ?? 0, "channel")} href={href(["connections"])} />
        <Stat label="Exchanges" value={count(totals["exchanges"])} href={href(["exchanges"])} />
      </div>
      {isSampled && (
        <div class="grid-2">
          <Card label="Message rates">
            <Chart
              title="Message rates"
              unit={(value) => `${short(value)}/s`}
              lines={[
                { label: "Published", color: "--chart-1", points: rates(details("publish")) },
                { label: "Delivered", color: "--chart-2", points: rates(details("deliver_get")) },
                { label: "Acked", color: "--chart-3", points: rates(details("ack")) },
                { label: "Redelivered", color: "--chart-4", points: rates(details("redeliver")) },
              ]}
            />
          </Card>
          <Card label="Messages in queues">
            <Chart
              title="Messages in queues"
              unit={short}
              lines={[
                { label: "Ready", color: "--chart-2", points: levels(data.queue_totals.messages_ready_details) },
                { label: "Unacknowledged", color: "--chart-4", points: levels(data.queue_totals.messages_unacknowledged_details) },
              ]}
            />
          </Card>
        </div>
      )}
      {(totals["queues"] ?? 0) === 0 && <FirstPublish />}
      <div class="grid-3">
        {(totals["queues"] ?? 0) > 0 && <Attention />}
        <DeadLetterCard />
        <Blocked />
        <Health />
        <Card title="This node">
          <Facts
            of={[
              ["Node", data.node],
              ["Version", data.leveret_version ?? "–"],
              ["Compatible with", `RabbitMQ ${data.rabbitmq_version}`],
              ...(data.listeners ?? []).map((one): [string, JSX.Element] => [
                one.protocol,
                <code>
                  {one.ip_address.includes(":") ? `[${one.ip_address}]` : one.ip_address}:{one.port}
                </code>,
              ]),
            ]}
          />
        </Card>
      </div>
    </>
  );
}

const RANKED = "name,vhost,messages,messages_details.rate,oldest_message_age_ms,consumers,state";

/** Queues that grow, and queues whose messages are old. */
function Attention(): JSX.Element {
  const growing = useFetched<{ items: QueueRow[] }>(withQuery("/queues", { page: 1, page_size: 5, sort: "messages_details.rate", sort_reverse: true, columns: RANKED }), 10_000);
  const old = useFetched<{ items: QueueRow[] }>(withQuery("/queues", { page: 1, page_size: 5, sort: "oldest_message_age_ms", sort_reverse: true, columns: RANKED }), 10_000);
  const grow = (growing.data?.items ?? []).filter((one) => (one.messages_details?.rate ?? 0) > 0);
  const aged = (old.data?.items ?? []).filter((one) => (one.oldest_message_age_ms ?? 0) > 0);
  return (
    <>
      <Card title="Queues that grow">
        <Failure error={growing.error} />
        {grow.length === 0 ? <p class="muted">No queue is growing: consumers keep up.</p> : <Ranked rows={grow} figure={(one) => `+${rate(one.messages_details?.rate)}`} />}
      </Card>
      <Card title="Oldest messages">
        <Failure error={old.error} />
        {aged.length === 0 ? <p class="muted">No message is waiting.</p> : <Ranked rows={aged} figure={(one) => age(one.oldest_message_age_ms ?? 0)} />}
      </Card>
    </>
  );
}

function Ranked({ rows, figure }: { rows: QueueRow[]; figure: (row: QueueRow) => string }): JSX.Element {
  return (
    <ul class="rank">
      {rows.map((one) => (
        <li key={`${one.vhost} ${one.name}`}>
          <a href={href(["queues", one.vhost, one.name])}>{one.name}</a>
          {(one.consumers ?? 0) === 0 && <Badge tone="warn">no consumer</Badge>}
          {one.state === "paused" && state(one)}
          <span class="figure">{figure(one)}</span>
        </li>
      ))}
    </ul>
  );
}

interface DeadQueue {
  vhost: string;
  name: string;
  messages: number;
}

function DeadLetterCard(): JSX.Element | null {
  const { data, error } = useFetched<DeadQueue[]>(may("GET /api/dead-letters") ? "/dead-letters" : null, 30_000);
  const full = (data ?? []).filter((one) => one.messages > 0).slice(0, 5);
  return (
    <Card title="Dead letters">
      <Failure error={error} />
      {data && full.length === 0 && <p class="muted">No dead letters.</p>}
      <ul class="rank">
        {full.map((one) => (
          <li key={`${one.vhost} ${one.name}`}>
            <a href={href(["dead-letters"])}>{one.name}</a>
            <span class="figure">{count(one.messages)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Blocked(): JSX.Element | null {
  const { data } = useFetched<{ items: { name: string; user: string; state: string; user_provided_name?: string }[] }>(
    withQuery("/connections", { page: 1, page_size: 5, sort: "state", columns: "name,user,state,user_provided_name" }),
    10_000,
  );
  const held = (data?.items ?? []).filter((one) => one.state === "blocked" || one.state === "blocking" || one.state === "flow");
  if (held.length === 0) return null;
  return (
    <Card title="Publishers that are held up">
      <ul class="rank">
        {held.map((one) => (
          <li key={one.name}>
            <span>{one.user_provided_name ?? one.name}</span>
            <Badge tone="warn">{one.state}</Badge>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Health(): JSX.Element | null {
  const { data, error } = useFetched<NodeState[]>(may("GET /api/nodes") ? "/nodes" : null, 10_000);
  const node = data?.[0];
  if (!node) return error ? <Failure error={error} /> : null;
  return (
    <Card title="Node health">
      <div class="health">
        <Meter label="Memory" used={node.mem_used} limit={node.mem_limit} text={`${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`} alarm={node.mem_alarm} />
        <Meter label="Descriptors" used={node.fd_used} limit={node.fd_total} text={`${count(node.fd_used)} of ${count(node.fd_total)}`} alarm={node.fd_alarm} />
        <Facts
          of={[
            ["Disk free", <span class={node.disk_free_alarm ? "text-bad" : undefined}>{`${bytes(node.disk_free)} (at least ${bytes(node.disk_free_limit)})`}</span>],
            ["Up for", age(node.uptime)],
            ["Data", <code>{node.db_dir}</code>],
          ]}
        />
      </div>
    </Card>
  );
}

function Meter(props: { label: string; used: number; limit: number; text: string; alarm: boolean }): JSX.Element {
  const part = props.limit > 0 ? Math.min(1, props.used / props.limit) : 0;
  const tone = props.alarm || part > 0.95 ? "meter-full" : part > 0.75 ? "meter-high" : undefined;
  return (
    <div>
      <p>
        <span>{props.label}</span>
        <span class="muted">{props.text}</span>
      </p>
      <div class="meter" role="meter" aria-label={props.label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(part * 100)}>
        <span class={tone} style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}

export function FirstPublish(): JSX.Element {
  const python = `from leveret.client import blocking
from leveret.client.topology import Queue

with blocking.connect("amqp://guest:guest@${location.hostname}:5672/") as connection:
    connection.topology.declare(Queue("orders"))
    connection.producer().publish("two coffees, one tea", routing_key="orders")`;
  return (
    <Card>
      <Empty title="There is no queue yet">
        <p>Declare one and publish the first message:</p>
        <Copyable text={python} label="first publish in Python" />
        <p>Any AMQP 0-9-1 client of RabbitMQ does it as well. Or create a queue on the page of queues.</p>
        <a class="button button-primary" href={href(["queues"], { create: "1" })}>
          Create a queue
        </a>
      </Empty>
    </Card>
  );
}
