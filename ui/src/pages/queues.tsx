// All queues: paged, sorted and filtered by the server; many of them purged, paused or deleted at once.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, put, remove, said } from "../api";
import { Button, Card, Empty } from "../parts/basics";
import { ConfirmDialog } from "../parts/dialog";
import { ServerTable } from "../parts/table";
import { queried, setQuery } from "../router";
import { may } from "../session";
import { listPath, vhost, vhosts } from "../vhost";
import { CreateQueue } from "./queue_create";
import { type QueueRow, queueColumns } from "./queue_rows";

export function Queues(): JSX.Element {
  const [version, setVersion] = useState(0);
  const mayCreate = may("PUT /api/queues/{vhost}/{queue}");
  const create = mayCreate && (
    <Button kind="primary" icon="plus" onClick={() => setQuery({ create: "1" })}>
      Create a queue
    </Button>
  );
  return (
    <>
      <div class="page-head">
        <h1>Queues</h1>
      </div>
      <Card flush label="Queues">
        <ServerTable<QueueRow>
          name="queues"
          path={listPath("queues")}
          columns={queueColumns(vhost.value === "" && vhosts.value.length > 1)}
          rowKey={(row) => `${row.vhost} ${row.name}`}
          filterLabel="Filter by name"
          defaultSort="name"
          actions={create}
          version={version}
          bulk={(chosen, done) => <Bulk chosen={chosen} done={done} />}
          empty={
            <Empty title="There is no queue here">
              <p>Queues are declared by clients, or here.</p>
              {create}
            </Empty>
          }
        />
      </Card>
      {queried("create") === "1" && (
        <CreateQueue
          onClose={() => {
            setQuery({ create: undefined });
            setVersion(version + 1);
          }}
        />
      )}
    </>
  );
}

interface Bulky {
  title: string;
  route: string;
  /** To be typed; without it nothing is asked. */
  word?: string;
  act: (row: QueueRow) => Promise<void>;
}

const ACTIONS: Bulky[] = [
  { title: "Pause", route: "PUT /api/queues/{vhost}/{queue}/pause", word: "pause", act: (row) => put(at`/queues/${row.vhost}/${row.name}/pause`) },
  { title: "Resume", route: "PUT /api/queues/{vhost}/{queue}/resume", word: "resume", act: (row) => put(at`/queues/${row.vhost}/${row.name}/resume`) },
  { title: "Purge", route: "DELETE /api/queues/{vhost}/{queue}/contents", word: "purge", act: (row) => remove(at`/queues/${row.vhost}/${row.name}/contents`) },
  { title: "Delete", route: "DELETE /api/queues/{vhost}/{queue}", word: "delete", act: (row) => remove(at`/queues/${row.vhost}/${row.name}`) },
];

function Bulk({ chosen, done }: { chosen: QueueRow[]; done: () => void }): JSX.Element {
  const [doing, setDoing] = useState<Bulky | null>(null);
  const messages = chosen.reduce((sum, row) => sum + row.messages, 0);
  const run = async (action: Bulky): Promise<string> => {
    const failures: string[] = [];
    for (const row of chosen) {
      try {
        await action.act(row);
      } catch (error) {
        failures.push(`${row.name}: ${said(error)}`);
      }
    }
    done();
    if (failures.length > 0) throw new Error(failures.join("; "));
    return `${action.title}: ${chosen.length} queues.`;
  };
  return (
    <>
      {ACTIONS.filter((action) => may(action.route)).map((action) => (
        <Button key={action.title} small kind={action.title === "Delete" || action.title === "Purge" ? "danger" : "plain"} onClick={() => setDoing(action)}>
          {action.title}
        </Button>
      ))}
      {doing && (
        <ConfirmDialog title={`${doing.title} ${chosen.length} queues`} action={doing.title} word={doing.word ?? ""} onConfirm={() => run(doing)} onClose={() => setDoing(null)}>
          <p>
            {doing.title} these queues, which hold {messages} messages:
          </p>
          <ul class="names">
            {chosen.slice(0, 20).map((row) => (
              <li key={`${row.vhost} ${row.name}`}>
                <code>{row.name}</code> <span class="muted">in {row.vhost}</span>
              </li>
            ))}
            {chosen.length > 20 && <li>… and {chosen.length - 20} more</li>}
          </ul>
        </ConfirmDialog>
      )}
    </>
  );
}
