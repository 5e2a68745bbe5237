// One queue: how it goes, what is in it, who reads it, what leads to it, by which rules it lives.
import type { JSX } from "preact";
import { useAllowed } from "../access";
import { at, withQuery } from "../api";
import { useFetched } from "../fetching";
import { age, bytes, count, rate, short } from "../format";
import { Browser } from "../messages/browser";
import { Card, Empty, Failure, Loading, Note, Stat } from "../parts/basics";
import { Chart, type Details, levels, rates, SpanPicker, spanQuery, useSpan } from "../parts/chart";
import { Tabs } from "../parts/tabs";
import { href } from "../router";
import { QueueActions } from "./queue_actions";
import { QueueBindings } from "./queue_bindings";
import { QueueConsumers } from "./queue_consumers";
import { features, type QueueRow } from "./queue_rows";
import { QueueSettings } from "./queue_settings";
import { StreamTracking } from "./stream_tracking";

export interface QueueData extends QueueRow {
  arguments: Record<string, unknown>;
  operator_policy: string | null;
  effective_policy_definition: Record<string, unknown>;
  messages_ready_details?: Details;
  messages_unacknowledged_details?: Details;
  consumer_details?: ConsumerRow[];
  delayed?: { count: number; bytes: number; next_due_ms: number | null };
  messages_quarantined?: number;
}

export interface ConsumerRow {
  consumer_tag: string;
  active: boolean;
  activity_status: string;
  ack_required: boolean;
  exclusive: boolean;
  prefetch_count: number;
  messages_unacknowledged: number;
  queue: { name: string; vhost: string };
  channel_details: { name: string; connection_name: string; user: string; peer_host: string };
}

export function Queue({ vhost, name, tab }: { vhost: string; name: string; tab: string }): JSX.Element {
  const [span, setSpan] = useSpan();
  const { data, error, reload } = useFetched<QueueData>(withQuery(at`/queues/${vhost}/${name}`, spanQuery(span)), 5000);
  const allowed = useAllowed(vhost, name);
  if (!data) return error ? <Missing name={name} error={error} /> : <Loading what={name} />;
  const isStream = data.type === "stream";
  const tabs: [string, string][] = [
    ["overview", "Overview"],
    ["messages", "Messages"],
    ["consumers", `Consumers (${count(data.consumers)})`],
    ["bindings", "Bindings"],
    ["settings", "Settings"],
    ...(isStream ? ([["tracking", "Stored offsets"]] as [string, string][]) : []),
  ];
  return (
    <>
      <div class="page-head">
        <p class="crumbs">
          <a href={href(["queues"])}>Queues</a> in virtual host <code>{vhost}</code>
        </p>
        <h1>{name}</h1>
        {features(data)}
        <span class="toolbar-gap" />
        <QueueActions queue={data} allowed={allowed} onChange={reload} />
      </div>
      <Failure error={error} />
      {data.state === "paused" && <Note tone="warn">This queue is paused: consumers get nothing until it is resumed.</Note>}
      <Tabs path={["queues", vhost, name]} tabs={tabs} tab={tab} />
      {tab === "overview" && <Glance data={data} span={span} onSpan={setSpan} isStream={isStream} />}
      {tab === "messages" &&
        (allowed.read ? (
          <Browser vhost={vhost} queue={name} ready={data.messages_ready} isStream={isStream} mayPublish={allowed.write} />
        ) : (
          <Note tone="warn">What is in this queue is shown to users with the permission read on it.</Note>
        ))}
      {tab === "consumers" && <QueueConsumers vhost={vhost} name={name} consumers={data.consumer_details ?? []} unacked={data.messages_unacknowledged} />}
      {tab === "bindings" && <QueueBindings vhost={vhost} name={name} allowed={allowed} />}
      {tab === "settings" && <QueueSettings queue={data} />}
      {tab === "tracking" && <StreamTracking vhost={vhost} name={name} />}
    </>
  );
}

function Missing({ name, error }: { name: string; error: string }): JSX.Element {
  return error === "Not Found" ? (
    <Empty title={`There is no queue ${name}`}>
      <p>It was deleted, or it has another name.</p>
      <a class="button" href={href(["queues"])}>
        To the queues
      </a>
    </Empty>
  ) : (
    <Failure error={error} />
  );
}

function Glance({ data, span, onSpan, isStream }: { data: QueueData; span: string; onSpan: (span: string) => void; isStream: boolean }): JSX.Element {
  const details = (of: string): Details | undefined => data.message_stats?.[`${of}_details`] as Details | undefined;
  return (
    <>
      <div class="stats">
        <Stat label={isStream ? "Messages" : "Ready"} value={count(data.messages_ready)} hint={bytes(data.message_bytes)} />
        {!isStream && <Stat label="Unacknowledged" value={count(data.messages_unacknowledged)} />}
        <Stat label="In" value={rate(details("publish")?.rate ?? 0)} />
        <Stat label="Out" value={rate(details("deliver_get")?.rate ?? 0)} />
        <Stat label="Consumers" value={count(data.consumers)} {...(data.consumers === 0 && data.messages > 0 ? { tone: "warn" as const, hint: "nobody reads it" } : {})} />
        {!isStream && <Stat label="Oldest message" value={data.oldest_message_age_ms ? age(data.oldest_message_age_ms) : "–"} />}
        {(data.delayed?.count ?? 0) > 0 && <Stat label="Delayed" value={count(data.delayed?.count)} hint={data.delayed?.next_due_ms ? `next in ${age(data.delayed.next_due_ms - Date.now())}` : ""} />}
        {(data.messages_quarantined ?? 0) > 0 && <Stat label="Unreadable" value={count(data.messages_quarantined)} tone="bad" />}
      </div>
      <div class="page-head">
        <span class="toolbar-gap" />
        <SpanPicker span={span} onPick={onSpan} />
      </div>
      <div class="grid-2">
        <Card label="Rates">
          <Chart
            title="Message rates"
            unit={(value) => `${short(value)}/s`}
            lines={[
              { label: "In", color: "--chart-1", points: rates(details("publish")) },
              { label: "Out", color: "--chart-2", points: rates(details("deliver_get")) },
              { label: "Acked", color: "--chart-3", points: rates(details("ack")) },
              { label: "Redelivered", color: "--chart-4", points: rates(details("redeliver")) },
            ]}
          />
        </Card>
        <Card label="Messages">
          <Chart
            title="Messages"
            unit={short}
            lines={[
              { label: "Ready", color: "--chart-2", points: levels(data.messages_ready_details) },
              { label: "Unacknowledged", color: "--chart-4", points: levels(data.messages_unacknowledged_details) },
            ]}
          />
        </Card>
      </div>
    </>
  );
}
