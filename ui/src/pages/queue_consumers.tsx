// Who reads a queue, and who holds which messages since when.
import type { JSX } from "preact";
import { at } from "../api";
import { useFetched } from "../fetching";
import { age, bytes, count } from "../format";
import { Badge, Card, Empty, Failure } from "../parts/basics";
import { PlainTable } from "../parts/table";
import { href } from "../router";
import type { ConsumerRow } from "./queue";

interface Unacked {
  consumer_tag: string | null;
  channel: string | null;
  user: string;
  since: number;
  delivery_tag: number | null;
  lease_expires_at: number | null;
  payload_bytes: number;
  redelivered: boolean;
  position: number;
  routing_key?: string;
}

export function QueueConsumers({ vhost, name, consumers, unacked }: { vhost: string; name: string; consumers: ConsumerRow[]; unacked: number }): JSX.Element {
  const held = useFetched<Unacked[]>(`${at`/queues/${vhost}/${name}/unacked`}?count=200`, 5000);
  return (
    <>
      <Card flush title={`Consumers (${count(consumers.length)})`}>
        {consumers.length === 0 ? (
          <Empty title="Nobody reads this queue" />
        ) : (
          <PlainTable
            label="Consumers"
            rows={consumers}
            rowKey={(row) => `${row.channel_details.name} ${row.consumer_tag}`}
            columns={[
              { id: "tag", title: "Consumer", show: (row) => <code>{row.consumer_tag}</code> },
              { id: "user", title: "User", show: (row) => row.channel_details.user },
              { id: "connection", title: "Connection", show: (row) => <a href={href(["connections", row.channel_details.connection_name])}>{row.channel_details.connection_name}</a> },
              { id: "state", title: "State", show: (row) => <Badge tone={row.active ? "good" : "neutral"}>{row.activity_status.replaceAll("_", " ")}</Badge> },
              { id: "prefetch", title: "Prefetch", numeric: true, show: (row) => (row.prefetch_count === 0 ? "no limit" : count(row.prefetch_count)) },
              { id: "unacked", title: "Unacked", numeric: true, show: (row) => (row.ack_required ? count(row.messages_unacknowledged) : "no acks") },
            ]}
          />
        )}
      </Card>
      <Card flush title={`Unacknowledged (${count(unacked)})`}>
        <Failure error={held.error} />
        {held.data?.length === 0 && <Empty title="No consumer holds a message" />}
        {(held.data?.length ?? 0) > 0 && (
          <PlainTable
            label="Unacknowledged messages"
            rows={held.data ?? []}
            rowKey={(row) => String(row.position)}
            columns={[
              { id: "key", title: "Routing key", show: (row) => <code>{row.routing_key ?? "–"}</code> },
              { id: "holder", title: "Held by", show: (row) => (row.lease_expires_at ? `${row.user} (HTTP lease)` : `${row.user} · ${row.consumer_tag || "get"}`) },
              { id: "since", title: "For", numeric: true, show: (row) => age(Date.now() - row.since) },
              { id: "size", title: "Size", numeric: true, show: (row) => bytes(row.payload_bytes) },
              { id: "again", title: "", show: (row) => (row.redelivered ? <Badge tone="warn">redelivered</Badge> : "") },
            ]}
          />
        )}
      </Card>
    </>
  );
}
