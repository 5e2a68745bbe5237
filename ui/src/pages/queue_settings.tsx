// By which rules a queue lives, and who set each: its declaration, a policy, or a policy of operators.
import type { JSX } from "preact";
import { at, withQuery } from "../api";
import { useFetched } from "../fetching";
import { Badge, Card, Empty, Facts, type Tone } from "../parts/basics";
import { PlainTable } from "../parts/table";
import { may } from "../session";
import type { QueueData } from "./queue";

interface Policy {
  name: string;
  definition: Record<string, unknown>;
}

interface Setting {
  name: string;
  value: unknown;
  source: string;
  tone: Tone;
  note: string;
}

export function QueueSettings({ queue }: { queue: QueueData }): JSX.Element {
  const operators = useFetched<Policy[]>(queue.operator_policy && may("GET /api/operator-policies/{vhost}") ? withQuery(at`/operator-policies/${queue.vhost}`, { name: queue.operator_policy }) : null);
  const operator = operators.data?.find((one) => one.name === queue.operator_policy);
  const rows = settingsOf(queue, operator?.definition ?? {});
  return (
    <div class="grid-2">
      <Card flush title="Rules that count">
        {rows.length === 0 ? (
          <Empty title="No argument and no policy">Everything is as it is by default.</Empty>
        ) : (
          <PlainTable
            label="Rules"
            rows={rows}
            rowKey={(row) => `${row.source} ${row.name}`}
            columns={[
              { id: "name", title: "Rule", show: (row) => <code>{row.name}</code> },
              { id: "value", title: "Value", show: (row) => <code>{typeof row.value === "string" ? row.value : JSON.stringify(row.value)}</code> },
              {
                id: "source",
                title: "Set by",
                show: (row) => (
                  <>
                    <Badge tone={row.tone}>{row.source}</Badge> {row.note !== "" && <span class="cell-sub">{row.note}</span>}
                  </>
                ),
              },
            ]}
          />
        )}
      </Card>
      <Card title="Declaration">
        <Facts
          of={[
            ["Kind", queue.type],
            ["Durable", queue.durable ? "yes" : "no"],
            ["Exclusive", queue.exclusive ? "yes, for one connection" : "no"],
            ["Auto-delete", queue.auto_delete ? "yes" : "no"],
            ["Policy", queue.policy ?? "none"],
            ["Operator policy", queue.operator_policy ?? "none"],
          ]}
        />
      </Card>
    </div>
  );
}

function settingsOf(queue: QueueData, operator: Record<string, unknown>): Setting[] {
  const policy = queue.effective_policy_definition;
  const declared = Object.entries(queue.arguments).map(([name, value]): Setting => {
    const twin = policy[name.replace(/^x-/, "")];
    const lower = typeof twin === "number" && typeof value === "number" && twin < value;
    return { name, value, source: "declaration", tone: "neutral", note: twin === undefined ? "" : lower ? "the policy's lower value counts" : "counts before the policy" };
  });
  const governed = Object.entries(policy).map(([name, value]): Setting => {
    const isOperator = name in operator && JSON.stringify(operator[name]) === JSON.stringify(value);
    return { name, value, source: isOperator ? `operator policy ${queue.operator_policy}` : `policy ${queue.policy ?? queue.operator_policy}`, tone: isOperator ? "warn" : "info", note: "" };
  });
  return [...declared, ...governed];
}
