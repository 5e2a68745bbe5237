// What lists say of a queue.
import type { JSX } from "preact";
import { age, bytes, count, rate } from "../format";
import { Badge } from "../parts/basics";
import type { Details } from "../parts/chart";
import type { Column } from "../parts/table";
import { href } from "../router";

export interface QueueRow {
  name: string;
  vhost: string;
  type: string;
  state: string;
  durable: boolean;
  auto_delete: boolean;
  exclusive: boolean;
  policy: string | null;
  messages: number;
  messages_ready: number;
  messages_unacknowledged: number;
  messages_details?: Details;
  message_bytes?: number;
  consumers: number;
  oldest_message_age_ms?: number | null;
  message_stats?: Record<string, number | Details>;
}

export function state(queue: { state: string }): JSX.Element {
  return <Badge tone={queue.state === "running" ? "good" : "warn"}>{queue.state}</Badge>;
}

export function features(queue: QueueRow): JSX.Element {
  return (
    <span class="badges">
      <Badge tone={queue.type === "stream" ? "info" : "neutral"}>{queue.type}</Badge>
      {!queue.durable && <Badge title="Gone after a restart">transient</Badge>}
      {queue.exclusive && <Badge title="For one connection alone">exclusive</Badge>}
      {queue.auto_delete && <Badge title="Deleted when its last consumer goes">auto-delete</Badge>}
      {queue.state !== "running" && state(queue)}
    </span>
  );
}

function rateOf(queue: QueueRow, name: string): number {
  return (queue.message_stats?.[`${name}_details`] as Details | undefined)?.rate ?? 0;
}

export function queueColumns(withVhost: boolean): Column<QueueRow>[] {
  return [
    {
      id: "name",
      title: "Name",
      sort: "name",
      show: (row) => (
        <>
          <a class="cell-main" href={href(["queues", row.vhost, row.name])}>
            {row.name}
          </a>
          {withVhost && <span class="cell-sub">{row.vhost}</span>}
        </>
      ),
    },
    { id: "features", title: "Features", show: features },
    { id: "messages", title: "Messages", sort: "messages", numeric: true, show: (row) => count(row.messages) },
    { id: "ready", title: "Ready", sort: "messages_ready", numeric: true, show: (row) => count(row.messages_ready), extra: true },
    { id: "unacked", title: "Unacked", sort: "messages_unacknowledged", numeric: true, show: (row) => count(row.messages_unacknowledged) },
    { id: "consumers", title: "Consumers", sort: "consumers", numeric: true, show: (row) => count(row.consumers) },
    { id: "publish", title: "In", sort: "message_stats.publish_details.rate", numeric: true, show: (row) => rate(rateOf(row, "publish")) },
    { id: "deliver", title: "Out", sort: "message_stats.deliver_get_details.rate", numeric: true, show: (row) => rate(rateOf(row, "deliver_get")) },
    { id: "age", title: "Oldest", sort: "oldest_message_age_ms", numeric: true, show: (row) => (row.oldest_message_age_ms ? age(row.oldest_message_age_ms) : "–") },
    { id: "bytes", title: "Size", sort: "message_bytes", numeric: true, show: (row) => bytes(row.message_bytes), extra: true },
    { id: "policy", title: "Policy", sort: "policy", show: (row) => row.policy ?? "", extra: true },
  ];
}
