// Sends dead letters back: which, where to, how fast; first as a dry run that moves nothing.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, post, said } from "../api";
import { count } from "../format";
import { Button, Failure, Note, Select, TextField } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { toast } from "../parts/toast";
import { may } from "../session";
import type { DeadQueue } from "./dead_letters";

export interface Task {
  id: string;
  vhost: string;
  queue: string;
  state: string;
  mode: string;
  exchange: string;
  routing_key: string;
  dry_run: boolean;
  matched: number;
  moved: number;
  skipped: number;
  failed: number;
  remaining: number;
  last_error: string | null;
}

export function ReplayDialog({ queue, reason = "", source = "", onClose }: { queue: DeadQueue; reason?: string; source?: string; onClose: () => void }): JSX.Element {
  // Where to is written in a message's headers: to trust these takes a policymaker.
  const mayOrigin = may("PUT /api/policies/{vhost}/{name}");
  const [mode, setMode] = useState(mayOrigin ? "original_queue" : "target");
  const [target, setTarget] = useState("");
  const [wantedReason, setReason] = useState(reason);
  const [wantedSource, setSource] = useState(source);
  const [body, setBody] = useState("");
  const [limit, setLimit] = useState("");
  const [rate, setRate] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState<Task | null>(null);

  const start = async (dryRun: boolean): Promise<Task> =>
    post<Task>(at`/queues/${queue.vhost}/${queue.name}/reprocess`, {
      mode,
      ...(mode === "target" ? { exchange: "", routing_key: target } : {}),
      filter: { ...(wantedReason ? { reason: wantedReason } : {}), ...(wantedSource ? { queue: wantedSource } : {}), ...(body ? { body_contains: body } : {}) },
      ...(limit === "" ? {} : { limit: Number(limit) }),
      ...(rate === "" ? {} : { rate: Number(rate) }),
      dry_run: dryRun,
    });
  const run = async (dryRun: boolean): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      const task = await start(dryRun);
      if (dryRun) setTried(task);
      else {
        toast(task.state === "running" ? "The replay goes on: its progress is shown on this page." : `${count(task.moved)} messages were sent back${task.failed > 0 ? `, ${count(task.failed)} could not be` : ""}.`, task.failed > 0);
        onClose();
      }
    } catch (failure) {
      setError(said(failure));
    }
    setBusy(false);
  };
  const change = (set: (value: string) => void) => (value: string) => {
    set(value);
    setTried(null);
  };
  const isReady = mode !== "target" || target !== "";
  return (
    <Dialog title={`Replay dead letters of ${queue.name}`} onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(tried === null);
        }}
      >
        <div class="dialog-body">
          <div class="form-row">
            <Select
              label="Where to"
              value={mode}
              options={[
                ...((mayOrigin
                  ? [
                      ["original_queue", "The queue each died in"],
                      ["original_exchange", "The exchange it was published to"],
                    ]
                  : []) as [string, string][]),
                ["target", "One queue"],
              ]}
              onInput={change(setMode)}
            />
            {mode === "target" && <TextField label="Queue" value={target} onInput={change(setTarget)} mono />}
          </div>
          <div class="form-row">
            <TextField label="Only those that died in" value={wantedSource} onInput={change(setSource)} mono placeholder="any queue" />
            <Select
              label="Only with the reason"
              value={wantedReason}
              options={[
                ["", "Any reason"],
                ["rejected", "rejected"],
                ["expired", "expired"],
                ["maxlen", "maxlen"],
                ["delivery_limit", "delivery_limit"],
              ]}
              onInput={change(setReason)}
            />
            <TextField label="Body contains" value={body} onInput={change(setBody)} />
          </div>
          <div class="form-row">
            <TextField label="At most" type="number" value={limit} onInput={change(setLimit)} placeholder="all" />
            <TextField label="Messages a second" type="number" value={rate} onInput={change(setRate)} placeholder="as fast as possible" hint="Spares consumers that have just come back." />
          </div>
          {tried && (
            <Note tone={tried.failed > 0 || tried.last_error ? "warn" : "good"}>
              Dry run: {count(tried.matched)} messages match, {count(tried.failed)} could not be sent back. Nothing was moved.
              {tried.last_error && ` ${tried.last_error}`}
            </Note>
          )}
          <Failure error={error} />
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button disabled={busy || !isReady} onClick={() => void run(true)}>
            Dry run
          </Button>
          <Button kind="primary" disabled={busy || !isReady || tried === null || tried.matched === 0} onClick={() => void run(false)}>
            Replay
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
