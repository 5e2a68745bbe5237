// A banner for each alarm of the node: what is wrong, what it does, what helps.
import type { JSX } from "preact";
import { useFetched } from "./fetching";
import { bytes } from "./format";
import { Icon } from "./parts/icons";
import { may } from "./session";

export interface NodeState {
  name: string;
  mem_used: number;
  mem_limit: number;
  mem_alarm: boolean;
  disk_free: number;
  disk_free_limit: number;
  disk_free_alarm: boolean;
  fd_used: number;
  fd_total: number;
  fd_alarm: boolean;
  uptime: number;
  processors: number;
  db_dir: string;
}

const COLUMNS = "name,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total,fd_alarm";

export function Alarms(): JSX.Element | null {
  const { data } = useFetched<NodeState[]>(may("GET /api/nodes") ? `/nodes?columns=${COLUMNS}` : null, 10_000);
  const told = (data ?? []).flatMap(alarmsOf);
  return told.length === 0 ? null : (
    <>
      {told.map((text) => (
        <div key={text} class="banner banner-bad" role="alert">
          <Icon name="warning" /> {text}
        </div>
      ))}
    </>
  );
}

function alarmsOf(node: NodeState): string[] {
  const found: string[] = [];
  if (node.mem_alarm)
    found.push(
      `Memory alarm on ${node.name}: ${bytes(node.mem_used)} used, the limit is ${bytes(node.mem_limit)}. Publishers are blocked. Let consumers catch up, or raise alarms.memory_watermark.`,
    );
  if (node.disk_free_alarm)
    found.push(
      `Disk alarm on ${node.name}: ${bytes(node.disk_free)} free, at least ${bytes(node.disk_free_limit)} are needed. Publishers are blocked. Free some space, or purge queues that nobody needs.`,
    );
  if (node.fd_alarm)
    found.push(
      `Descriptor alarm on ${node.name}: ${node.fd_used} of ${node.fd_total} are used. Close connections, or raise the limit of open files (LimitNOFILE).`,
    );
  return found;
}
