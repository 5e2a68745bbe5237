// The audit log: who changed what, over HTTP, AMQP and streams.
import type { JSX } from "preact";
import { moment } from "../format";
import { Badge, Card, Empty, Select } from "../parts/basics";
import { ServerTable } from "../parts/table";
import { queried, setQuery } from "../router";

interface Noted {
  timestamp: number;
  user: string;
  peer: string;
  via: string;
  action: string;
  names: Record<string, unknown>;
  outcome: string;
  status?: number;
}

export function Audit(): JSX.Element {
  const outcome = queried("outcome");
  return (
    <>
      <div class="page-head">
        <h1>Audit log</h1>
        <span class="toolbar-gap" />
        <Select
          label="Outcome"
          value={outcome}
          options={[
            ["", "All"],
            ["done", "Done"],
            ["refused", "Refused"],
            ["failed", "Failed"],
          ]}
          onInput={(chosen) => setQuery({ outcome: chosen, page: undefined })}
        />
      </div>
      <Card flush label="Audit log">
        <ServerTable<Noted>
          name="audit"
          path="/audit"
          query={{ outcome: outcome || undefined }}
          everyMs={5000}
          rowKey={(row) => `${row.timestamp} ${row.user} ${row.action} ${JSON.stringify(row.names)}`}
          filterLabel="Filter by action"
          columns={[
            { id: "time", title: "When", sort: "timestamp", show: (row) => <span class="nowrap">{moment(row.timestamp)}</span> },
            { id: "user", title: "User", sort: "user", show: (row) => <b>{row.user || "–"}</b> },
            { id: "action", title: "Action", sort: "action", show: (row) => <code>{row.action}</code> },
            { id: "names", title: "What", show: (row) => Object.entries(row.names).map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ") },
            { id: "outcome", title: "Outcome", show: (row) => <Badge tone={row.outcome === "done" ? "good" : row.outcome === "refused" ? "warn" : "bad"}>{row.status ? `${row.outcome} (${row.status})` : row.outcome}</Badge> },
            { id: "via", title: "Via", show: (row) => `${row.via} ${row.peer}` },
          ]}
          empty={<Empty title="Nobody has changed anything since the log began" />}
        />
      </Card>
    </>
  );
}
