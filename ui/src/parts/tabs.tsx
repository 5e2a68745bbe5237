// Tabs of a page: links, so that each has an address.
import type { JSX } from "preact";
import { href } from "../router";

export function Tabs({ path, tabs, tab }: { path: string[]; tabs: [string, string][]; tab: string }): JSX.Element {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map(([id, title]) => (
        <a key={id} href={href(id === "overview" ? path : [...path, id])} aria-current={id === tab ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}
