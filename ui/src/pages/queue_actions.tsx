// What can be done with a queue: publish, pause, move, purge, delete. What the user may not do is not there.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Allowed } from "../access";
import { ask, at, post, put, remove } from "../api";
import { count } from "../format";
import { PublishDialog } from "../messages/publish_dialog";
import { Button, TextField } from "../parts/basics";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { attempt } from "../parts/toast";
import { go } from "../router";
import type { QueueData } from "./queue";

export function QueueActions({ queue, allowed, onChange }: { queue: QueueData; allowed: Allowed; onChange: () => void }): JSX.Element {
  const [open, setOpen] = useState<"publish" | "move" | "purge" | "delete" | null>(null);
  const close = (): void => {
    setOpen(null);
    onChange();
  };
  const { vhost, name } = queue;
  const isPaused = queue.state === "paused";
  const isStream = queue.type === "stream";
  const turn = (): Promise<boolean> =>
    attempt(() => put(at`/queues/${vhost}/${name}/${isPaused ? "resume" : "pause"}`), isPaused ? "Consumers get messages again." : "Consumers get nothing until the queue is resumed.");
  return (
    <div class="card-actions">
      {allowed.write && (
        <Button kind="primary" onClick={() => setOpen("publish")}>
          Publish
        </Button>
      )}
      {allowed.configure && !isStream && (
        <Button icon={isPaused ? "play" : "pause"} onClick={() => void turn().then(onChange)}>
          {isPaused ? "Resume" : "Pause"}
        </Button>
      )}
      {allowed.read && !isStream && queue.messages_ready > 0 && <Button onClick={() => setOpen("move")}>Move</Button>}
      {allowed.read && !isStream && (
        <Button kind="danger" onClick={() => setOpen("purge")}>
          Purge
        </Button>
      )}
      {allowed.configure && (
        <Button kind="danger" onClick={() => setOpen("delete")}>
          Delete
        </Button>
      )}
      {open === "publish" && <PublishDialog vhost={vhost} message={{ exchange: "", routing_key: name, properties: { delivery_mode: 2 }, payload: "", payload_encoding: "string" }} onClose={close} />}
      {open === "move" && <MoveDialog queue={queue} onClose={close} />}
      {open === "purge" && (
        <ConfirmDialog
          title={`Purge ${name}`}
          action="Purge"
          word={name}
          onClose={close}
          onConfirm={async () => {
            const reply = await ask("DELETE", at`/queues/${vhost}/${name}/contents`);
            return `${reply.headers.get("Messages-Deleted") ?? "All"} messages are gone.`;
          }}
        >
          <p>
            All {count(queue.messages_ready)} messages that wait in it are deleted for good. The {count(queue.messages_unacknowledged)} that consumers hold stay.
          </p>
        </ConfirmDialog>
      )}
      {open === "delete" && (
        <ConfirmDialog
          title={`Delete ${name}`}
          action="Delete"
          word={name}
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await remove(at`/queues/${vhost}/${name}`);
            go(["queues"]);
            return `The queue ${name} is gone.`;
          }}
        >
          <p>
            The queue goes with its {count(queue.messages)} messages, its bindings and its {count(queue.consumers)} consumers.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function MoveDialog({ queue, onClose }: { queue: QueueData; onClose: () => void }): JSX.Element {
  const [target, setTarget] = useState("");
  const [limit, setLimit] = useState("");
  const submit = async (): Promise<string> => {
    const task = await post<{ moved: number; state: string; last_error: string }>(at`/queues/${queue.vhost}/${queue.name}/reprocess`, {
      mode: "target",
      exchange: "",
      routing_key: target,
      ...(limit === "" ? {} : { limit: Number(limit) }),
    });
    if (task.last_error) throw new Error(task.last_error);
    return task.state === "running" ? "Messages are being moved." : `${count(task.moved)} messages were moved to ${target}.`;
  };
  return (
    <FormDialog title={`Move messages of ${queue.name}`} action="Move" ready={target !== ""} onSubmit={submit} onClose={onClose}>
      <p>Messages are moved in their order, each in one step: none is lost and none is there twice.</p>
      <TextField label="To the queue" value={target} onInput={setTarget} autofocus mono />
      <TextField label="At most" value={limit} onInput={setLimit} type="number" hint="Empty for all of them." />
    </FormDialog>
  );
}
