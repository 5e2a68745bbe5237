// Definitions: all of them as a file, and a file of them imported after a look at what it would change.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { fetched, post, refusal, said } from "../api";
import { count, plural } from "../format";
import { Badge, Button, Card, Failure, Field, Note } from "../parts/basics";
import { toast } from "../parts/toast";

interface Step {
  kind: string;
  vhost?: string;
  name: string;
  fields?: string[];
}

interface Plan {
  create: Step[];
  change: Step[];
  unchanged: number;
  problems: { place: string; reason: string }[];
  notices: { place: string; reason: string }[];
}

export function Definitions(): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [file, setFile] = useState("");
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const attempt = async (doing: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await doing();
    } catch (failure) {
      setError(said(failure));
    }
    setBusy(false);
  };
  const choose = (chosen: File | undefined): void => {
    setPlan(null);
    setText(null);
    if (!chosen) return;
    void attempt(async () => {
      const read = await chosen.text();
      setFile(chosen.name);
      setText(read);
      setPlan(await post<Plan>("/definitions/diff", JSON.parse(read)));
    });
  };
  const apply = (): Promise<void> =>
    attempt(async () => {
      await post("/definitions", JSON.parse(text ?? "{}"));
      toast(`The definitions of ${file} are imported.`);
      setPlan(null);
      setText(null);
    });
  return (
    <>
      <div class="page-head">
        <h1>Definitions</h1>
      </div>
      <div class="grid-2">
        <Card title="Export">
          <p class="muted">Users, virtual hosts, permissions, policies, limits, queues, exchanges and bindings; no messages. RabbitMQ reads it, too.</p>
          <p class="card-foot">
            <Button kind="primary" icon="definitions" disabled={busy} onClick={() => void attempt(download)}>
              Download
            </Button>
          </p>
        </Card>
        <Card title="Import">
          <Field label="File with definitions" hint="Of Leveret or RabbitMQ. What it would change is shown before anything happens.">
            {(id) => <input id={id} type="file" accept="application/json,.json" onInput={(event) => choose(event.currentTarget.files?.[0])} />}
          </Field>
        </Card>
      </div>
      <Failure error={error} />
      {plan && (
        <Card title={`What ${file} would change`}>
          <div class="diff">
            <Note tone={plan.problems.length > 0 ? "bad" : plan.create.length + plan.change.length > 0 ? "warn" : "good"}>
              {plan.problems.length > 0 ? `${plural(plan.problems.length, "problem")}: nothing of it can be imported as it is.` : `${count(plan.create.length)} would be created, ${count(plan.change.length)} changed; ${count(plan.unchanged)} are there already.`}
            </Note>
            <ul class="diff-list">
              {plan.problems.map((one, index) => (
                <li key={`p${index}`}>
                  <Badge tone="bad">problem</Badge> <code>{one.place}</code> {one.reason}
                </li>
              ))}
              {plan.notices.map((one, index) => (
                <li key={`n${index}`}>
                  <Badge tone="info">note</Badge> <code>{one.place}</code> {one.reason}
                </li>
              ))}
              {plan.create.slice(0, 300).map((one, index) => (
                <StepLine key={`c${index}`} step={one} word="create" />
              ))}
              {plan.change.slice(0, 300).map((one, index) => (
                <StepLine key={`h${index}`} step={one} word="change" />
              ))}
            </ul>
            {plan.problems.length === 0 && plan.create.length + plan.change.length > 0 && (
              <div>
                <Button kind="primary" disabled={busy} onClick={() => void apply()}>
                  Import: {plural(plan.create.length + plan.change.length, "change")}
                </Button>
              </div>
            )}
          </div>
        </Card>
      )}
    </>
  );
}

function StepLine({ step, word }: { step: Step; word: string }): JSX.Element {
  return (
    <li>
      <Badge tone={word === "create" ? "good" : "warn"}>{word}</Badge> {step.kind} <b>{step.name}</b>
      {step.vhost && <span class="muted">in {step.vhost}</span>}
      {step.fields && <code>{step.fields.join(", ")}</code>}
    </li>
  );
}

async function download(): Promise<void> {
  const response = await fetched("GET", "/definitions");
  if (!response.ok) throw refusal(response, null);
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = `leveret-definitions-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  URL.revokeObjectURL(address);
}
