// Connections: who is there, who is slow, who is blocked; one of them with its channels; its end, with a reason.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, remove } from "../api";
import { useFetched } from "../fetching";
import { bytes, count, moment, since } from "../format";
import { Badge, Button, Card, Copyable, Empty, Facts, Failure, Loading, TextField, type Tone } from "../parts/basics";
import type { Details } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { PlainTable, ServerTable } from "../parts/table";
import { go, href } from "../router";
import { session } from "../session";
import { vhost } from "../vhost";
import { type ChannelRow, channelColumns } from "./channels";

interface ConnectionRow {
  name: string;
  user_provided_name?: string;
  user: string;
  vhost: string;
  protocol: string;
  state: string;
  ssl: boolean;
  channels: number;
  connected_at: number;
  peer_host: string;
  peer_port: number;
  auth_mechanism: string;
  timeout: number;
  frame_max: number;
  recv_oct_details?: Details;
  send_oct_details?: Details;
  send_pend: number;
  client_properties: Record<string, unknown>;
}

function stateTone(state: string): Tone {
  return state === "running" ? "good" : state === "blocked" || state === "blocking" || state === "flow" ? "warn" : "neutral";
}

function bytesRate(details: Details | undefined): string {
  return details && details.rate > 0 ? `${bytes(Math.round(details.rate))}/s` : "0 B/s";
}

export function Connections(): JSX.Element {
  return (
    <>
      <div class="page-head">
        <h1>Connections</h1>
      </div>
      <Card flush label="Connections">
        <ServerTable<ConnectionRow>
          name="connections"
          path={vhost.value === "" ? "/connections" : at`/vhosts/${vhost.value}/connections`}
          filterLabel="Filter by name"
          defaultSort="name"
          rowKey={(row) => row.name}
          columns={[
            {
              id: "name",
              title: "Client",
              sort: "name",
              show: (row) => (
                <>
                  <a class="cell-main" href={href(["connections", row.name])}>
                    {row.user_provided_name ?? row.name}
                  </a>
                  <span class="cell-sub">{row.user_provided_name ? row.name : `in ${row.vhost}`}</span>
                </>
              ),
            },
            { id: "user", title: "User", sort: "user", show: (row) => row.user },
            { id: "state", title: "State", sort: "state", show: (row) => <Badge tone={stateTone(row.state)}>{row.state}</Badge> },
            { id: "protocol", title: "Protocol", sort: "protocol", show: (row) => (row.ssl ? `${row.protocol}, TLS` : row.protocol) },
            { id: "channels", title: "Channels", sort: "channels", numeric: true, show: (row) => count(row.channels) },
            { id: "in", title: "In", sort: "recv_oct_details.rate", numeric: true, show: (row) => bytesRate(row.recv_oct_details) },
            { id: "out", title: "Out", sort: "send_oct_details.rate", numeric: true, show: (row) => bytesRate(row.send_oct_details) },
            { id: "pending", title: "Unread", sort: "send_pend", numeric: true, show: (row) => bytes(row.send_pend), extra: true },
            { id: "since", title: "For", sort: "connected_at", numeric: true, show: (row) => since(row.connected_at) },
          ]}
          empty={<NoClients />}
        />
      </Card>
    </>
  );
}

function NoClients(): JSX.Element {
  return (
    <Empty title="No client is connected">
      <p>Point any client of RabbitMQ at this address:</p>
      <Copyable text={`amqp://guest:guest@${location.hostname}:5672/`} label="address for clients" />
    </Empty>
  );
}

export function Connection({ name }: { name: string }): JSX.Element {
  const [closing, setClosing] = useState(false);
  const { data, error } = useFetched<ConnectionRow>(at`/connections/${name}`, 5000);
  const channels = useFetched<ChannelRow[]>(at`/connections/${name}/channels`, 5000);
  if (!data) return error ? error === "Not Found" ? <Empty title="This connection is closed" /> : <Failure error={error} /> : <Loading what="the connection" />;
  const mayClose = data.user === session.value?.name || (session.value?.tags.includes("administrator") ?? false);
  return (
    <>
      <div class="page-head">
        <p class="crumbs">
          <a href={href(["connections"])}>Connections</a> in virtual host <code>{data.vhost}</code>
        </p>
        <h1>{data.user_provided_name ?? data.name}</h1>
        <Badge tone={stateTone(data.state)}>{data.state}</Badge>
        <span class="toolbar-gap" />
        {mayClose && (
          <Button kind="danger" onClick={() => setClosing(true)}>
            Close
          </Button>
        )}
      </div>
      {error !== "" && error !== "Not Found" && <Failure error={error} />}
      <div class="grid-2">
        <Card title="Connection">
          <Facts
            of={[
              ["Name", <code>{data.name}</code>],
              ["User", data.user],
              ["Protocol", data.ssl ? `${data.protocol}, TLS` : data.protocol],
              ["From", `${data.peer_host}:${data.peer_port}`],
              ["Since", moment(data.connected_at)],
              ["Login by", data.auth_mechanism],
              ["Heartbeat", `${data.timeout} s`],
              ["Traffic", `${bytesRate(data.recv_oct_details)} in, ${bytesRate(data.send_oct_details)} out`],
              ["Not read by the client yet", bytes(data.send_pend)],
            ]}
          />
        </Card>
        <Card title="What the client says of itself">
          <Facts of={Object.entries(data.client_properties).map(([key, value]): [string, JSX.Element] => [key, <code>{typeof value === "string" ? value : JSON.stringify(value)}</code>])} />
        </Card>
      </div>
      <Card flush title={`Channels (${count(data.channels)})`}>
        <PlainTable label="Channels" rows={channels.data ?? []} columns={channelColumns(false)} rowKey={(row) => row.name} />
      </Card>
      {closing && <CloseDialog name={data.name} onClose={() => setClosing(false)} />}
    </>
  );
}

function CloseDialog({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const submit = async (): Promise<string> => {
    await remove(at`/connections/${name}`, reason === "" ? undefined : { "X-Reason": reason.replace(/[^\x20-\x7e]/g, "?") });
    go(["connections"]);
    return "The connection is closed.";
  };
  return (
    <FormDialog title="Close the connection" action="Close it" danger onSubmit={submit} onClose={onClose}>
      <p>The client is told, and most clients come back at once. What it had not acknowledged goes back to its queues.</p>
      <TextField label="Reason" value={reason} onInput={setReason} hint="The client is told so, and the log." autofocus />
    </FormDialog>
  );
}

