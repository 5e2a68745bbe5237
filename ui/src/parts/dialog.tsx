// Dialogs: the browser's own, which keep the focus and close with Escape.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { said } from "../api";
import { Button, Failure, IconButton, TextField } from "./basics";
import { toast } from "./toast";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }): JSX.Element {
  const made = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = made.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog ref={made} class={props.wide ? "dialog dialog-wide" : "dialog"} aria-labelledby={titleId} onClose={props.onClose}>
      <header>
        <h2 id={titleId}>{props.title}</h2>
        <IconButton icon="close" label="Close" onClick={props.onClose} />
      </header>
      {props.children}
    </dialog>
  );
}

/** A form in a dialog. What goes wrong is shown in it, and nothing that was typed is lost. */
export function FormDialog(props: {
  title: string;
  action: string;
  danger?: boolean;
  ready?: boolean;
  wide?: boolean;
  onSubmit: () => Promise<string | void>;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      const done = await props.onSubmit();
      if (done) toast(done);
      props.onClose();
    } catch (failure) {
      setError(said(failure));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.wide ?? false}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div class="dialog-body">
          {props.children}
          <Failure error={error} />
        </div>
        <footer>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" kind={props.danger ? "danger" : "primary"} disabled={busy || props.ready === false}>
            {props.action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** For what cannot be undone: the name, or a word, is typed first. */
export function ConfirmDialog(props: {
  title: string;
  action: string;
  word: string;
  children: ComponentChildren;
  onConfirm: () => Promise<string | void>;
  onClose: () => void;
}): JSX.Element {
  const [typed, setTyped] = useState("");
  return (
    <FormDialog title={props.title} action={props.action} danger ready={typed === props.word} onSubmit={props.onConfirm} onClose={props.onClose}>
      {props.children}
      <TextField label={`Type ${props.word} to confirm`} value={typed} onInput={setTyped} autofocus mono />
    </FormDialog>
  );
}
