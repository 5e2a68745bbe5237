// Users: their tags, their permissions, and what they come to.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, put, remove, said, withQuery, get } from "../api";
import { useFetched } from "../fetching";
import { Badge, Button, Card, Empty, Failure, Loading, Note, Select, TextField } from "../parts/basics";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { PlainTable, ServerTable } from "../parts/table";
import { attempt } from "../parts/toast";
import { go, href } from "../router";
import { session } from "../session";
import { likelyVhost, vhosts } from "../vhost";

interface User {
  name: string;
  tags: string[];
  limits: Record<string, number>;
  hashing_algorithm: string;
}

interface Permission {
  user: string;
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

interface TopicPermission {
  user: string;
  vhost: string;
  exchange: string;
  write: string;
  read: string;
}

function tags(user: User): JSX.Element {
  return <span class="badges">{user.tags.length === 0 ? <span class="muted">none</span> : user.tags.map((tag) => <Badge key={tag} tone={tag === "administrator" ? "warn" : "info"}>{tag}</Badge>)}</span>;
}

export function Users(): JSX.Element {
  const [adding, setAdding] = useState(false);
  const [version, setVersion] = useState(0);
  return (
    <>
      <div class="page-head">
        <h1>Users</h1>
      </div>
      <Card flush label="Users">
        <ServerTable<User>
          name="users"
          path="/users"
          everyMs={15_000}
          rowKey={(row) => row.name}
          filterLabel="Filter by name"
          defaultSort="name"
          version={version}
          actions={
            <Button kind="primary" icon="plus" onClick={() => setAdding(true)}>
              Add a user
            </Button>
          }
          columns={[
            { id: "name", title: "Name", sort: "name", show: (row) => <a class="cell-main" href={href(["users", row.name])}>{row.name}</a> },
            { id: "tags", title: "Tags", show: tags },
            { id: "limits", title: "Limits", show: (row) => Object.entries(row.limits).map(([name, value]) => `${name} ${value}`).join(", ") },
            { id: "hash", title: "Password hash", show: (row) => <code>{row.hashing_algorithm}</code>, extra: true },
          ]}
          empty={<Empty title="There is no user" />}
        />
      </Card>
      {adding && <UserDialog onClose={() => (setAdding(false), setVersion(version + 1))} />}
    </>
  );
}

const TAGS: [string, string][] = [
  ["", "none: clients only"],
  ["management", "management: sees what it may use"],
  ["policymaker", "policymaker: policies, too"],
  ["monitoring", "monitoring: sees everything"],
  ["administrator", "administrator: may everything"],
];

function UserDialog({ onClose, user }: { onClose: () => void; user?: User }): JSX.Element {
  const [name, setName] = useState(user?.name ?? "");
  const [password, setPassword] = useState("");
  const [tag, setTag] = useState(user?.tags.join(",") ?? "management");
  const options = TAGS.some(([value]) => value === tag) ? TAGS : [...TAGS, [tag, tag] as [string, string]];
  const submit = async (): Promise<string> => {
    await put(at`/users/${name}`, { password, tags: tag });
    return user ? `The password and the tags of ${name} are changed.` : `${name} is there. Give permissions next.`;
  };
  return (
    <FormDialog title={user ? `Change ${name}` : "Add a user"} action={user ? "Change" : "Add"} ready={name !== "" && password !== ""} onSubmit={submit} onClose={onClose}>
      {!user && <TextField label="Name" value={name} onInput={setName} autofocus />}
      <TextField label="Password" type="password" value={password} onInput={setPassword} autocomplete="new-password" />
      <Select label="Tag" value={tag} options={options} onInput={setTag} />
    </FormDialog>
  );
}

export function UserPage({ name }: { name: string }): JSX.Element {
  const [open, setOpen] = useState<"change" | "permission" | "topic" | "delete" | null>(null);
  const { data, error, reload } = useFetched<User>(at`/users/${name}`);
  const permissions = useFetched<Permission[]>(at`/users/${name}/permissions`);
  const topics = useFetched<TopicPermission[]>(at`/users/${name}/topic-permissions`);
  if (!data) return error ? <Failure error={error === "Not Found" ? `There is no user ${name}.` : error} /> : <Loading what={name} />;
  const close = (): void => {
    setOpen(null);
    reload();
    permissions.reload();
    topics.reload();
  };
  return (
    <>
      <div class="page-head">
        <p class="crumbs">
          <a href={href(["users"])}>Users</a>
        </p>
        <h1>{name}</h1>
        {tags(data)}
        <span class="toolbar-gap" />
        <Button onClick={() => setOpen("change")}>Password and tags</Button>
        {name !== session.value?.name && (
          <Button kind="danger" onClick={() => setOpen("delete")}>
            Delete
          </Button>
        )}
      </div>
      <Card flush title="Permissions" actions={<Button small icon="plus" onClick={() => setOpen("permission")}>Set a permission</Button>}>
        <Failure error={permissions.error} />
        {permissions.data?.length === 0 ? (
          <Empty title="None: this user may enter no virtual host" />
        ) : (
          <PlainTable
            label="Permissions"
            rows={permissions.data ?? []}
            rowKey={(row) => row.vhost}
            columns={[
              { id: "vhost", title: "Virtual host", show: (row) => <span class="cell-main">{row.vhost}</span> },
              { id: "configure", title: "Configure", show: (row) => <code>{row.configure}</code> },
              { id: "write", title: "Write", show: (row) => <code>{row.write}</code> },
              { id: "read", title: "Read", show: (row) => <code>{row.read}</code> },
              { id: "actions", title: "", numeric: true, show: (row) => <Button small kind="danger" onClick={() => void attempt(() => remove(at`/permissions/${row.vhost}/${name}`), "The permission is gone.").then(permissions.reload)}>Clear</Button> },
            ]}
          />
        )}
      </Card>
      <Card flush title="Topic permissions" actions={<Button small icon="plus" onClick={() => setOpen("topic")}>Set a topic permission</Button>}>
        {topics.data?.length === 0 ? (
          <p class="muted">None: routing keys are not looked at.</p>
        ) : (
          <PlainTable
            label="Topic permissions"
            rows={topics.data ?? []}
            rowKey={(row) => `${row.vhost} ${row.exchange}`}
            columns={[
              { id: "vhost", title: "Virtual host", show: (row) => row.vhost },
              { id: "exchange", title: "Exchange", show: (row) => row.exchange },
              { id: "write", title: "Write keys", show: (row) => <code>{row.write}</code> },
              { id: "read", title: "Read keys", show: (row) => <code>{row.read}</code> },
              { id: "actions", title: "", numeric: true, show: (row) => <Button small kind="danger" onClick={() => void attempt(() => remove(at`/topic-permissions/${row.vhost}/${name}/${row.exchange}`), "The permission is gone.").then(topics.reload)}>Clear</Button> },
            ]}
          />
        )}
      </Card>
      <Probe user={name} />
      {open === "change" && <UserDialog user={data} onClose={close} />}
      {open === "permission" && <PermissionDialog user={name} onClose={close} />}
      {open === "topic" && <PermissionDialog user={name} topic onClose={close} />}
      {open === "delete" && (
        <ConfirmDialog
          title={`Delete ${name}`}
          action="Delete"
          word={name}
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await remove(at`/users/${name}`);
            go(["users"]);
            return `${name} is gone.`;
          }}
        >
          <p>The user goes with all permissions; its connections are closed.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function PermissionDialog({ user, topic, onClose }: { user: string; topic?: boolean; onClose: () => void }): JSX.Element {
  const [vhost, setVhost] = useState(likelyVhost());
  const [exchange, setExchange] = useState("amq.topic");
  const [configure, setConfigure] = useState(".*");
  const [write, setWrite] = useState(".*");
  const [read, setRead] = useState(".*");
  const submit = async (): Promise<string> => {
    if (topic) await put(at`/topic-permissions/${vhost}/${user}`, { exchange, write, read });
    else await put(at`/permissions/${vhost}/${user}`, { configure, write, read });
    return "The permission counts from now on.";
  };
  return (
    <FormDialog title={topic ? "Set a topic permission" : "Set a permission"} action="Set" onSubmit={submit} onClose={onClose}>
      <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={setVhost} />
      {topic ? <TextField label="Exchange" value={exchange} onInput={setExchange} mono /> : <TextField label="Configure" value={configure} onInput={setConfigure} mono hint="Names that may be declared and deleted, as a regular expression; ^$ for none." />}
      <TextField label="Write" value={write} onInput={setWrite} mono hint={topic ? "Routing keys that may be published." : "Names that may be published to."} />
      <TextField label="Read" value={read} onInput={setRead} mono hint={topic ? "Routing keys that may be bound." : "Names that may be consumed from."} />
    </FormDialog>
  );
}

interface Checked {
  enter: boolean;
  configure: boolean;
  write: boolean;
  read: boolean;
}

function Probe({ user }: { user: string }): JSX.Element {
  const [vhost, setVhost] = useState(likelyVhost());
  const [name, setName] = useState("");
  const [found, setFound] = useState<Checked | null>(null);
  const [error, setError] = useState("");
  const run = async (): Promise<void> => {
    try {
      setError("");
      setFound(await get<Checked>(withQuery("/access-check", { user, vhost, name })));
    } catch (failure) {
      setError(said(failure));
    }
  };
  return (
    <Card title={`What may ${user} do?`}>
      <form
        class="search-form"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {vhosts.value.length > 1 && <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={setVhost} />}
        <TextField label="Queue or exchange" value={name} onInput={setName} mono required />
        <Button type="submit">Check</Button>
      </form>
      <Failure error={error} />
      {found && (
        <p class="probe" role="status">
          {(["enter", "configure", "write", "read"] as const).map((kind) => (
            <Badge key={kind} tone={found[kind] ? "good" : "bad"}>
              {found[kind] ? "may" : "may not"} {kind}
            </Badge>
          ))}
        </p>
      )}
      {!found && <Note tone="neutral">As the broker decides it: by permissions, as they are now.</Note>}
    </Card>
  );
}
