// Where the user is: the part of the address behind #. Names are percent-encoded, filters stand in the query, so every
// view can be linked to and comes back as it was.
import { signal } from "@preact/signals";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path === "" ? [] : path.split("/").map(decoded), query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal<Place>(parse(location.hash));

addEventListener("hashchange", () => {
  place.value = parse(location.hash);
});

export type Query = Record<string, string | undefined>;

export function href(path: string[], query: Query = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "");
  const words = given.length > 0 ? `?${new URLSearchParams(given)}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${words}`;
}

export function go(path: string[], query: Query = {}): void {
  location.hash = href(path, query);
}

/** Changes filters of this view; what is undefined or empty leaves the address. */
export function setQuery(changes: Query): void {
  // The address itself: the event that tells of its change comes later.
  const { path, query } = parse(location.hash);
  const made = href(path, { ...Object.fromEntries(query), ...changes });
  history.replaceState(null, "", made);
  place.value = parse(made);
}

export function queried(name: string, otherwise = ""): string {
  return place.value.query.get(name) ?? otherwise;
}
