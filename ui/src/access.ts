// What the user may do with one queue or exchange, as the server says.
import { withQuery } from "./api";
import { useFetched } from "./fetching";
import { may } from "./session";

export interface Allowed {
  configure: boolean;
  write: boolean;
  read: boolean;
}

const NOTHING: Allowed = { configure: false, write: false, read: false };

/** Nothing, until the server has answered. An empty name is the default exchange. */
export function useAllowed(vhost: string, name: string): Allowed {
  const { data } = useFetched<Allowed>(may("GET /api/access-check") ? withQuery("/access-check", { vhost, name }) : null);
  return data ?? NOTHING;
}
