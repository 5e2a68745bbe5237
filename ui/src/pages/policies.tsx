// Policies, and what one would change before it is set.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, post, put, remove, said } from "../api";
import { count, plural } from "../format";
import { Badge, Button, Card, Copyable, Empty, Failure, Note, Select, TextArea, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { PlainTable, ServerTable } from "../parts/table";
import { attempt } from "../parts/toast";
import { may } from "../session";
import { likelyVhost, listPath, vhosts } from "../vhost";

interface Policy {
  name: string;
  vhost: string;
  pattern: string;
  definition: Record<string, unknown>;
  priority: number;
  "apply-to": string;
}

interface Applied {
  policy: string | null;
  definition: Record<string, unknown>;
}

interface Preview {
  matched: number;
  changed: number;
  changes: { kind: string; name: string; before: Applied; after: Applied }[];
}

export function Policies(): JSX.Element {
  const [editing, setEditing] = useState<Policy | "new" | null>(null);
  const [version, setVersion] = useState(0);
  const mayChange = may("PUT /api/policies/{vhost}/{name}");
  const close = (): void => {
    setEditing(null);
    setVersion(version + 1);
  };
  return (
    <>
      <div class="page-head">
        <h1>Policies</h1>
      </div>
      <Card flush label="Policies">
        <ServerTable<Policy>
          name="policies"
          path={listPath("policies")}
          everyMs={15_000}
          rowKey={(row) => `${row.vhost} ${row.name}`}
          filterLabel="Filter by name"
          defaultSort="name"
          version={version}
          actions={
            mayChange && (
              <Button kind="primary" icon="plus" onClick={() => setEditing("new")}>
                Set a policy
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
                  {vhosts.value.length > 1 && <span class="cell-sub">{row.vhost}</span>}
                </>
              ),
            },
            { id: "pattern", title: "Pattern", sort: "pattern", show: (row) => <code>{row.pattern}</code> },
            { id: "to", title: "Applies to", sort: "apply-to", show: (row) => <Badge>{row["apply-to"]}</Badge> },
            { id: "definition", title: "Definition", show: (row) => <code>{JSON.stringify(row.definition)}</code> },
            { id: "priority", title: "Priority", sort: "priority", numeric: true, show: (row) => count(row.priority) },
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
                    <Button small kind="danger" onClick={() => void attempt(() => remove(at`/policies/${row.vhost}/${row.name}`), `The policy ${row.name} is gone.`).then(close)}>
                      Clear
                    </Button>
                  </span>
                ),
            },
          ]}
          empty={
            <Empty title="There is no policy">
              <p>A policy changes many queues at once, without a new declaration. From the command line:</p>
              <Copyable text={`leveretctl set_policy short '^orders' '{"max-length": 10000}' --apply-to queues`} label="first policy" />
            </Empty>
          }
        />
      </Card>
      {editing && <PolicyDialog {...(editing === "new" ? {} : { policy: editing })} onClose={close} />}
    </>
  );
}

function PolicyDialog({ policy, onClose }: { policy?: Policy; onClose: () => void }): JSX.Element {
  const [vhost, setVhost] = useState(policy?.vhost ?? likelyVhost());
  const [name, setName] = useState(policy?.name ?? "");
  const [pattern, setPattern] = useState(policy?.pattern ?? "");
  const [to, setTo] = useState(policy?.["apply-to"] ?? "queues");
  const [priority, setPriority] = useState(String(policy?.priority ?? 0));
  const [definition, setDefinition] = useState(JSON.stringify(policy?.definition ?? { "max-length": 10000 }, null, 2));
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState("");
  const body = (): object => ({ pattern, "apply-to": to, priority: Number(priority), definition: JSON.parse(definition) as object });
  const look = async (): Promise<void> => {
    try {
      setError("");
      setPreview(await post<Preview>(at`/policies/${vhost}/${name}/preview`, body()));
    } catch (failure) {
      setPreview(null);
      setError(said(failure));
    }
  };
  const submit = async (): Promise<string> => {
    await put(at`/policies/${vhost}/${name}`, body());
    return `The policy ${name} counts from now on.`;
  };
  return (
    <FormDialog title={policy ? `Change ${policy.name}` : "Set a policy"} action="Set the policy" wide ready={name !== "" && pattern !== ""} onSubmit={submit} onClose={onClose}>
      <div class="form-row">
        <TextField label="Name" value={name} onInput={setName} autofocus />
        {vhosts.value.length > 1 && <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={setVhost} />}
        <TextField label="Pattern" value={pattern} onInput={setPattern} mono placeholder="^orders\." />
      </div>
      <div class="form-row">
        <Select
          label="Applies to"
          value={to}
          options={["queues", "exchanges", "all", "classic_queues", "streams"].map((one) => [one, one.replaceAll("_", " ")])}
          onInput={setTo}
        />
        <TextField label="Priority" type="number" value={priority} onInput={setPriority} hint="Of several that match, the highest applies, alone." />
      </div>
      <TextArea label="Definition, as JSON" value={definition} onInput={setDefinition} rows={4} hint="Such as max-length, message-ttl, dead-letter-exchange, expires, overflow, retry-delays." />
      <div>
        <Button disabled={name === "" || pattern === ""} onClick={() => void look()}>
          Preview
        </Button>
      </div>
      <Failure error={error} />
      {preview && (
        <>
          <Note tone={preview.changed > 0 ? "warn" : "neutral"}>
            It would apply to {plural(preview.matched, "thing")} and change {count(preview.changed)}. Nothing has changed yet.
          </Note>
          {preview.changes.length > 0 && (
            <PlainTable
              label="What would change"
              rows={preview.changes}
              rowKey={(row) => `${row.kind} ${row.name}`}
              columns={[
                { id: "name", title: "Name", show: (row) => <span class="cell-main">{row.name}</span> },
                { id: "before", title: "Before", show: (row) => <Shown applied={row.before} /> },
                { id: "after", title: "After", show: (row) => <Shown applied={row.after} /> },
              ]}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}

function Shown({ applied }: { applied: Applied }): JSX.Element {
  return applied.policy === null && Object.keys(applied.definition).length === 0 ? (
    <span class="muted">no policy</span>
  ) : (
    <>
      {applied.policy && <Badge tone="info">{applied.policy}</Badge>} <code>{JSON.stringify(applied.definition)}</code>
    </>
  );
}
