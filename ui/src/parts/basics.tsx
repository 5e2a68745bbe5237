// The smallest parts: cards, badges, notes, fields, things to copy.
import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";

export function Card(props: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; flush?: boolean; label?: string }): JSX.Element {
  return (
    <section class={`card${props.flush ? " card-flush" : ""}`} aria-label={props.label}>
      {(props.title || props.actions) && (
        <header class="card-head">
          {props.title && <h2>{props.title}</h2>}
          {props.actions && <div class="card-actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

export type Tone = "neutral" | "good" | "warn" | "bad" | "info";

export function Badge({ tone = "neutral", children, title }: { tone?: Tone; children: ComponentChildren; title?: string }): JSX.Element {
  return (
    <span class={`badge badge-${tone}`} title={title}>
      {children}
    </span>
  );
}

export function Note({ tone = "info", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return (
    <div class={`note note-${tone}`} role={tone === "bad" ? "alert" : undefined}>
      {(tone === "bad" || tone === "warn") && <Icon name="warning" />}
      <div>{children}</div>
    </div>
  );
}

export function Failure({ error }: { error: string }): JSX.Element | null {
  return error === "" ? null : <Note tone="bad">{error}</Note>;
}

export function Button(props: {
  children: ComponentChildren;
  onClick?: () => void;
  kind?: "plain" | "primary" | "danger" | "quiet";
  icon?: IconName;
  type?: "button" | "submit";
  disabled?: boolean;
  label?: string;
  small?: boolean;
}): JSX.Element {
  return (
    <button
      type={props.type ?? "button"}
      class={`button button-${props.kind ?? "plain"}${props.small ? " button-small" : ""}`}
      onClick={props.onClick}
      disabled={props.disabled}
      aria-label={props.label}
    >
      {props.icon && <Icon name={props.icon} />}
      <span>{props.children}</span>
    </button>
  );
}

export function IconButton({ icon, label, onClick, pressed }: { icon: IconName; label: string; onClick: () => void; pressed?: boolean }): JSX.Element {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={onClick} aria-pressed={pressed}>
      <Icon name={icon} />
    </button>
  );
}

export function Field(props: { label: string; hint?: ComponentChildren; children: (id: string) => ComponentChildren }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.hint && <p class="hint">{props.hint}</p>}
    </div>
  );
}

export function TextField(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  placeholder?: string;
  type?: "text" | "password" | "number";
  required?: boolean;
  autofocus?: boolean;
  autocomplete?: string;
  mono?: boolean;
}): JSX.Element {
  const attributes = {
    type: props.type ?? "text",
    value: props.value,
    class: props.mono ? "mono" : undefined,
    placeholder: props.placeholder,
    required: props.required,
    autofocus: props.autofocus,
    autocomplete: props.autocomplete ?? "off",
    spellcheck: false,
  } as JSX.IntrinsicElements["input"];
  return (
    <Field label={props.label} hint={props.hint}>
      {(id) => <input {...attributes} id={id} onInput={(event) => props.onInput(event.currentTarget.value)} />}
    </Field>
  );
}

export function TextArea(props: { label: string; value: string; onInput: (value: string) => void; rows?: number; hint?: ComponentChildren; placeholder?: string }): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint}>
      {(id) => (
        <textarea
          id={id}
          class="mono"
          rows={props.rows ?? 5}
          value={props.value}
          placeholder={props.placeholder}
          spellcheck={false}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function Select(props: { label: string; value: string; options: [string, string][]; onInput: (value: string) => void; hint?: ComponentChildren }): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint}>
      {(id) => (
        <select id={id} value={props.value} onInput={(event) => props.onInput(event.currentTarget.value)}>
          {props.options.map(([value, title]) => (
            <option key={value} value={value} selected={value === props.value}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check(props: { label: string; checked: boolean; onInput: (checked: boolean) => void; hint?: string }): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={props.checked} onInput={(event) => props.onInput(event.currentTarget.checked)} />
      <span>
        {props.label}
        {props.hint && <small>{props.hint}</small>}
      </span>
    </label>
  );
}

export function Copyable({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <div class="copyable">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  );
}

export function CopyButton({ text, label, children }: { text: string; label: string; children?: ComponentChildren }): JSX.Element {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Only pages over TLS or on this machine may use the clipboard directly.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class={children ? "button button-plain button-small" : "icon-button"} aria-label={children ? undefined : label} title={label} onClick={() => void copy()}>
      <Icon name={done ? "check" : "copy"} />
      {children && <span>{done ? "Copied" : children}</span>}
    </button>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }): JSX.Element {
  return (
    <p class="loading" role="status">
      Loading {what} …
    </p>
  );
}

/** Names and values, one under the other. */
export function Facts({ of }: { of: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Stat({ label, value, hint, href, tone }: { label: string; value: ComponentChildren; hint?: ComponentChildren; href?: string; tone?: Tone }): JSX.Element {
  const inside = (
    <>
      <span class="stat-label">{label}</span>
      <span class={`stat-value${tone ? ` text-${tone}` : ""}`}>{value}</span>
      {hint !== undefined && <span class="stat-hint">{hint}</span>}
    </>
  );
  return href ? (
    <a class="stat" href={href}>
      {inside}
    </a>
  ) : (
    <div class="stat">{inside}</div>
  );
}
