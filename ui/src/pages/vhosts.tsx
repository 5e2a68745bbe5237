// Virtual hosts.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, put, remove } from "../api";
import { count } from "../format";
import { Badge, Button, Card, Check, Empty, TextField } from "../parts/basics";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { ServerTable } from "../parts/table";
import { may } from "../session";
import { loadVhosts } from "../vhost";

interface Vhost {
  name: string;
  description: string;
  tags: string[];
  tracing: boolean;
  protected_from_deletion: boolean;
  messages?: number;
  messages_ready?: number;
  messages_unacknowledged?: number;
}

export function Vhosts(): JSX.Element {
  const [editing, setEditing] = useState<Vhost | "new" | null>(null);
  const [deleting, setDeleting] = useState<Vhost | null>(null);
  const [version, setVersion] = useState(0);
  const mayChange = may("PUT /api/vhosts/{vhost}");
  const close = (): void => {
    setEditing(null);
    setDeleting(null);
    setVersion(version + 1);
    void loadVhosts();
  };
  return (
    <>
      <div class="page-head">
        <h1>Virtual hosts</h1>
      </div>
      <Card flush label="Virtual hosts">
        <ServerTable<Vhost>
          name="vhosts"
          path="/vhosts"
          everyMs={10_000}
          rowKey={(row) => row.name}
          filterLabel="Filter by name"
          defaultSort="name"
          version={version}
          actions={
            mayChange && (
              <Button kind="primary" icon="plus" onClick={() => setEditing("new")}>
                Add a virtual host
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
                  <span class="cell-main">{row.name}</span>
                  {row.description && <span class="cell-sub">{row.description}</span>}
                </>
              ),
            },
            {
              id: "state",
              title: "State",
              show: (row) => (
                <span class="badges">
                  {row.tracing && <Badge tone="warn">traced</Badge>}
                  {row.protected_from_deletion && <Badge tone="info">protected</Badge>}
                </span>
              ),
            },
            { id: "ready", title: "Ready", sort: "messages_ready", numeric: true, show: (row) => count(row.messages_ready) },
            { id: "unacked", title: "Unacked", sort: "messages_unacknowledged", numeric: true, show: (row) => count(row.messages_unacknowledged) },
            {
              id: "actions",
              title: "",
              numeric: true,
              show: (row) =>
                mayChange && (
                  <span class="cell-actions">
                    <Button small onClick={() => setEditing(row)}>
                      Change
                    </Button>
                    {!row.protected_from_deletion && (
                      <Button small kind="danger" onClick={() => setDeleting(row)}>
                        Delete
                      </Button>
                    )}
                  </span>
                ),
            },
          ]}
          empty={<Empty title="You may enter no virtual host" />}
        />
      </Card>
      {editing && <VhostDialog {...(editing === "new" ? {} : { vhost: editing })} onClose={close} />}
      {deleting && (
        <ConfirmDialog
          title={`Delete ${deleting.name}`}
          action="Delete"
          word={deleting.name}
          onClose={close}
          onConfirm={async () => {
            await remove(at`/vhosts/${deleting.name}`);
            return `The virtual host ${deleting.name} is gone.`;
          }}
        >
          <p>All of its queues, their {count(deleting.messages)} messages, exchanges, bindings, policies and permissions go with it; its connections are closed.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function VhostDialog({ vhost, onClose }: { vhost?: Vhost; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(vhost?.name ?? "");
  const [description, setDescription] = useState(vhost?.description ?? "");
  const [tracing, setTracing] = useState(vhost?.tracing ?? false);
  const [isProtected, setProtected] = useState(vhost?.protected_from_deletion ?? false);
  const submit = async (): Promise<string> => {
    await put(at`/vhosts/${name}`, { description, tracing, protected_from_deletion: isProtected });
    return vhost ? `${name} is changed.` : `${name} is there. Give users permissions in it.`;
  };
  return (
    <FormDialog title={vhost ? `Change ${name}` : "Add a virtual host"} action={vhost ? "Change" : "Add"} ready={name !== ""} onSubmit={submit} onClose={onClose}>
      {!vhost && <TextField label="Name" value={name} onInput={setName} autofocus />}
      <TextField label="Description" value={description} onInput={setDescription} />
      <Check label="Protected from deletion" checked={isProtected} onInput={setProtected} />
      <Check label="Traced" hint="A copy of each message goes to amq.rabbitmq.trace; it costs." checked={tracing} onInput={setTracing} />
    </FormDialog>
  );
}
