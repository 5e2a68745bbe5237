// JSON with colours: each token a text node of its own, so nothing in it can become markup.
import type { JSX } from "preact";

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
const COLOURED_MAX = 200_000;

export function JsonView({ text }: { text: string }): JSX.Element {
  return (
    <pre class="body-view" tabIndex={0} aria-label="Body">
      {text.length > COLOURED_MAX ? text : coloured(text)}
    </pre>
  );
}

function coloured(text: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    parts.push(text.slice(end, match.index));
    const [whole, quoted, colon, number] = match;
    const kind = quoted !== undefined ? (colon !== undefined ? "key" : "text") : number !== undefined ? "number" : "word";
    parts.push(
      <span class={`json-${kind}`}>{quoted ?? whole}</span>,
      colon ?? "",
    );
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}
