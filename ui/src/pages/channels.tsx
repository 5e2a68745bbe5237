// Channels, and consumers: who holds how much.
import type { JSX } from "preact";
import { at } from "../api";
import { count, rate } from "../format";
import { Badge, Card, Empty } from "../parts/basics";
import type { Details } from "../parts/chart";
import { type Column, ServerTable } from "../parts/table";
import { href } from "../router";
import { listPath, vhost } from "../vhost";
import type { ConsumerRow } from "./queue";

export interface ChannelRow {
  name: string;
  number: number;
  user: string;
  vhost: string;
  state: string;
  confirm: boolean;
  transactional: boolean;
  prefetch_count: number;
  consumer_count: number;
  messages_unacknowledged: number;
  messages_unconfirmed: number;
  connection_details: { name: string };
  message_stats?: Record<string, number | Details>;
}

function rateOf(row: ChannelRow, name: string): string {
  return rate((row.message_stats?.[`${name}_details`] as Details | undefined)?.rate ?? 0);
}

export function channelColumns(withConnection: boolean): Column<ChannelRow>[] {
  return [
    {
      id: "name",
      title: "Channel",
      sort: "name",
      show: (row) => (withConnection ? <a class="cell-main" href={href(["connections", row.connection_details.name])}>{row.name}</a> : <span class="cell-main">{row.number}</span>),
    },
    { id: "user", title: "User", sort: "user", show: (row) => row.user },
    {
      id: "mode",
      title: "Mode",
      show: (row) => (
        <span class="badges">
          <Badge tone={row.state === "running" ? "good" : "neutral"}>{row.state}</Badge>
          {row.confirm && <Badge tone="info">confirms</Badge>}
          {row.transactional && <Badge tone="info">transactions</Badge>}
        </span>
      ),
    },
    { id: "consumers", title: "Consumers", sort: "consumer_count", numeric: true, show: (row) => count(row.consumer_count) },
    { id: "prefetch", title: "Prefetch", sort: "prefetch_count", numeric: true, show: (row) => (row.prefetch_count === 0 ? "–" : count(row.prefetch_count)) },
    { id: "unacked", title: "Unacked", sort: "messages_unacknowledged", numeric: true, show: (row) => count(row.messages_unacknowledged) },
    { id: "unconfirmed", title: "Unconfirmed", sort: "messages_unconfirmed", numeric: true, show: (row) => count(row.messages_unconfirmed) },
    { id: "publish", title: "In", sort: "message_stats.publish_details.rate", numeric: true, show: (row) => rateOf(row, "publish") },
    { id: "deliver", title: "Out", sort: "message_stats.deliver_get_details.rate", numeric: true, show: (row) => rateOf(row, "deliver_get") },
  ];
}

export function Channels(): JSX.Element {
  return (
    <>
      <div class="page-head">
        <h1>Channels</h1>
      </div>
      <Card flush label="Channels">
        <ServerTable<ChannelRow>
          name="channels"
          path={vhost.value === "" ? "/channels" : at`/vhosts/${vhost.value}/channels`}
          columns={channelColumns(true)}
          rowKey={(row) => row.name}
          filterLabel="Filter by name"
          defaultSort="messages_unacknowledged"
          defaultDescending
          empty={<Empty title="No channel is open" />}
        />
      </Card>
    </>
  );
}

export function Consumers(): JSX.Element {
  return (
    <>
      <div class="page-head">
        <h1>Consumers</h1>
      </div>
      <Card flush label="Consumers">
        <ServerTable<ConsumerRow>
          name="consumers"
          path={listPath("consumers")}
          rowKey={(row) => `${row.channel_details.name} ${row.consumer_tag}`}
          filterLabel="Filter by tag"
          defaultSort="queue.name"
          columns={[
            { id: "queue", title: "Queue", sort: "queue.name", show: (row) => <a class="cell-main" href={href(["queues", row.queue.vhost, row.queue.name])}>{row.queue.name}</a> },
            { id: "tag", title: "Consumer", sort: "consumer_tag", show: (row) => <code>{row.consumer_tag}</code> },
            { id: "user", title: "User", sort: "channel_details.user", show: (row) => row.channel_details.user },
            { id: "connection", title: "Connection", sort: "channel_details.connection_name", show: (row) => <a href={href(["connections", row.channel_details.connection_name])}>{row.channel_details.connection_name}</a> },
            { id: "state", title: "State", sort: "activity_status", show: (row) => <Badge tone={row.active ? "good" : "neutral"}>{row.activity_status.replaceAll("_", " ")}</Badge> },
            { id: "prefetch", title: "Prefetch", sort: "prefetch_count", numeric: true, show: (row) => (row.prefetch_count === 0 ? "no limit" : count(row.prefetch_count)) },
            { id: "unacked", title: "Unacked", sort: "messages_unacknowledged", numeric: true, show: (row) => (row.ack_required ? count(row.messages_unacknowledged) : "no acks") },
          ]}
          empty={<Empty title="Nobody consumes" />}
        />
      </Card>
    </>
  );
}
