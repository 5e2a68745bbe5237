// The pages there are: what the sidebar and the palette offer, and the right that each takes.
import type { IconName } from "./parts/icons";

export interface NavItem {
  id: string;
  title: string;
  icon: IconName;
  /** A route of the API without which the page is of no use. */
  needs: string;
  group: string;
}

export const NAV: NavItem[] = [
  { id: "overview", title: "Overview", icon: "overview", needs: "GET /api/overview", group: "" },
  { id: "queues", title: "Queues", icon: "queues", needs: "GET /api/queues", group: "Messages" },
  { id: "dead-letters", title: "Dead letters", icon: "dead", needs: "GET /api/dead-letters", group: "Messages" },
  { id: "tail", title: "Live tail", icon: "tail", needs: "GET /api/tap", group: "Messages" },
  { id: "exchanges", title: "Exchanges", icon: "exchanges", needs: "GET /api/exchanges", group: "Routing" },
  { id: "topology", title: "Topology", icon: "topology", needs: "GET /api/bindings/{vhost}", group: "Routing" },
  { id: "connections", title: "Connections", icon: "connections", needs: "GET /api/connections", group: "Clients" },
  { id: "channels", title: "Channels", icon: "channels", needs: "GET /api/channels", group: "Clients" },
  { id: "consumers", title: "Consumers", icon: "consumers", needs: "GET /api/consumers", group: "Clients" },
  { id: "users", title: "Users", icon: "users", needs: "GET /api/users", group: "Administration" },
  { id: "vhosts", title: "Virtual hosts", icon: "vhosts", needs: "GET /api/vhosts", group: "Administration" },
  { id: "policies", title: "Policies", icon: "policies", needs: "GET /api/policies", group: "Administration" },
  { id: "definitions", title: "Definitions", icon: "definitions", needs: "GET /api/definitions", group: "Administration" },
  { id: "audit", title: "Audit log", icon: "audit", needs: "GET /api/audit", group: "Administration" },
];
