// Dead letters: where they are, where they came from and why; sent back after a dry run, or discarded.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAllowed } from "../access";
import { ask, at, remove } from "../api";
import { useFetched } from "../fetching";
import { age, count, exchangeName, plural } from "../format";
import { Badge, Button, Card, Copyable, Empty, Failure, Loading } from "../parts/basics";
import { ConfirmDialog } from "../parts/dialog";
import { PlainTable } from "../parts/table";
import { attempt } from "../parts/toast";
import { href } from "../router";
import { may } from "../session";
import { vhost } from "../vhost";
import { ReplayDialog, type Task } from "./replay_dialog";

interface Group {
  queue: string;
  exchange: string;
  reason: string;
  count: number;
  first_death_s: number | null;
  last_death_s: number | null;
  replayed: number;
}

export interface DeadQueue {
  vhost: string;
  name: string;
  messages: number;
  sampled: number;
  groups: Group[];
}

export function DeadLetters(): JSX.Element {
  const path = vhost.value === "" ? "/dead-letters" : at`/dead-letters/${vhost.value}`;
  const { data, error, reload } = useFetched<DeadQueue[]>(path, 10_000);
  const tasks = useFetched<Task[]>("/tasks", 2000);
  return (
    <>
      <div class="page-head">
        <h1>Dead letters</h1>
      </div>
      <Failure error={error} />
      {!data && !error && <Loading what="dead letters" />}
      {data?.length === 0 && <NoDeadLetters />}
      {(tasks.data?.length ?? 0) > 0 && <Tasks tasks={tasks.data ?? []} reload={tasks.reload} />}
      {data?.map((one) => <DeadCard key={`${one.vhost} ${one.name}`} queue={one} onChange={() => (reload(), tasks.reload())} />)}
      <Schedules />
    </>
  );
}

function NoDeadLetters(): JSX.Element {
  const policy = `curl -u guest ${location.origin}/api/policies/%2F/dead-letters -X PUT \\\n  -d '{"pattern": "^orders", "apply-to": "queues", "definition": {"dead-letter-exchange": "", "dead-letter-routing-key": "orders.dead"}}'`;
  return (
    <Card>
      <Empty title="There is no queue for dead letters">
        <p>Messages that are rejected, expire or overflow are deleted, unless their queue has a dead-letter exchange. A policy gives it one:</p>
        <Copyable text={policy} label="policy for dead letters" />
      </Empty>
    </Card>
  );
}

function DeadCard({ queue, onChange }: { queue: DeadQueue; onChange: () => void }): JSX.Element {
  const [replaying, setReplaying] = useState<Group | "all" | null>(null);
  const [discarding, setDiscarding] = useState(false);
  const allowed = useAllowed(queue.vhost, queue.name);
  const inspect = href(["queues", queue.vhost, queue.name, "messages"]);
  return (
    <Card
      flush
      label={queue.name}
      title={
        <>
          <a href={href(["queues", queue.vhost, queue.name])}>{queue.name}</a>{" "}
          <Badge tone={queue.messages > 0 ? "bad" : "good"}>{plural(queue.messages, "message")}</Badge>
        </>
      }
      actions={
        queue.messages > 0 &&
        allowed.read && (
          <>
            <a class="button button-small" href={inspect}>
              Inspect
            </a>
            <Button small kind="primary" onClick={() => setReplaying("all")}>
              Replay
            </Button>
            <Button small kind="danger" onClick={() => setDiscarding(true)}>
              Discard
            </Button>
          </>
        )
      }
    >
      {queue.groups.length > 0 ? (
        <PlainTable
          label={`Dead letters in ${queue.name}`}
          rows={queue.groups}
          rowKey={(row) => `${row.queue} ${row.exchange} ${row.reason}`}
          columns={[
            { id: "queue", title: "Died in", show: (row) => <span class="cell-main">{row.queue}</span> },
            { id: "reason", title: "Reason", show: (row) => <Badge tone={row.reason === "rejected" ? "bad" : "warn"}>{row.reason}</Badge> },
            { id: "exchange", title: "Exchange", show: (row) => exchangeName(row.exchange) },
            { id: "count", title: queue.sampled < queue.messages ? `Of ${count(queue.sampled)} sampled` : "Messages", numeric: true, show: (row) => count(row.count) },
            { id: "first", title: "First", numeric: true, show: (row) => ago(row.first_death_s) },
            { id: "last", title: "Last", numeric: true, show: (row) => ago(row.last_death_s) },
            { id: "replayed", title: "Replayed before", numeric: true, show: (row) => count(row.replayed) },
            {
              id: "actions",
              title: "",
              numeric: true,
              show: (row) =>
                allowed.read && (
                  <Button small onClick={() => setReplaying(row)} label={`Replay these: ${row.reason} in ${row.queue}`}>
                    Replay these
                  </Button>
                ),
            },
          ]}
        />
      ) : (
        <p class="muted">{queue.messages > 0 ? "No message here says where it died." : "It is empty."}</p>
      )}
      {replaying && (
        <ReplayDialog
          queue={queue}
          {...(replaying === "all" ? {} : { reason: replaying.reason, source: replaying.queue })}
          onClose={() => {
            setReplaying(null);
            onChange();
          }}
        />
      )}
      {discarding && (
        <ConfirmDialog
          title={`Discard dead letters of ${queue.name}`}
          action="Discard"
          word={queue.name}
          onConfirm={async () => {
            const reply = await ask("DELETE", at`/queues/${queue.vhost}/${queue.name}/contents`);
            return `${reply.headers.get("Messages-Deleted") ?? "All"} messages are gone.`;
          }}
          onClose={() => {
            setDiscarding(false);
            onChange();
          }}
        >
          <p>All {count(queue.messages)} messages in it are deleted for good. To keep some of them, replay those first.</p>
        </ConfirmDialog>
      )}
    </Card>
  );
}

function ago(seconds: number | null): string {
  return seconds === null ? "–" : `${age(Date.now() - seconds * 1000)} ago`;
}

function Tasks({ tasks, reload }: { tasks: Task[]; reload: () => void }): JSX.Element {
  return (
    <Card flush title="Replays">
      <PlainTable
        label="Replays"
        rows={tasks}
        rowKey={(row) => row.id}
        columns={[
          { id: "queue", title: "Queue", show: (row) => <span class="cell-main">{row.queue}</span> },
          { id: "state", title: "State", show: (row) => <Badge tone={row.state === "running" ? "info" : row.failed > 0 || row.last_error ? "bad" : "good"}>{row.dry_run ? `dry run, ${row.state}` : row.state}</Badge> },
          { id: "mode", title: "To", show: (row) => (row.mode === "target" ? `${exchangeName(row.exchange)} ${row.routing_key}` : row.mode.replaceAll("_", " ")) },
          { id: "matched", title: "Matched", numeric: true, show: (row) => count(row.matched) },
          { id: "moved", title: "Moved", numeric: true, show: (row) => count(row.moved) },
          { id: "failed", title: "Failed", numeric: true, show: (row) => count(row.failed) },
          { id: "error", title: "Last error", show: (row) => row.last_error ?? "" },
          {
            id: "actions",
            title: "",
            numeric: true,
            show: (row) => (
              <Button small onClick={() => void attempt(() => remove(at`/tasks/${row.id}`), row.state === "running" ? "The replay is cancelled." : "It is off the list.").then(reload)}>
                {row.state === "running" ? "Cancel" : "Dismiss"}
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}

interface Schedule {
  vhost: string;
  queue: string;
  every_s: number;
  archive_after_s: number | null;
  set_by: string;
  next_at: string;
}

function Schedules(): JSX.Element | null {
  const { data } = useFetched<Schedule[]>(may("GET /api/dead-letter-schedules") ? "/dead-letter-schedules" : null, 30_000);
  if (!data || data.length === 0) return null;
  return (
    <Card flush title="Retried by themselves">
      <PlainTable
        label="Schedules"
        rows={data}
        rowKey={(row) => `${row.vhost} ${row.queue}`}
        columns={[
          { id: "queue", title: "Queue", show: (row) => <a href={href(["queues", row.vhost, row.queue])}>{row.queue}</a> },
          { id: "every", title: "Every", numeric: true, show: (row) => age(row.every_s * 1000) },
          { id: "archive", title: "Archived after", numeric: true, show: (row) => (row.archive_after_s ? age(row.archive_after_s * 1000) : "never") },
          { id: "next", title: "Next", show: (row) => new Date(row.next_at).toLocaleString() },
          { id: "by", title: "Set by", show: (row) => row.set_by },
        ]}
      />
    </Card>
  );
}
