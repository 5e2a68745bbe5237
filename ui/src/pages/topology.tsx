// The topology of a virtual host: exchanges, queues, bindings, with the traffic on them.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { at } from "../api";
import { useFetched } from "../fetching";
import { exchangeName, rate, short } from "../format";
import type { LayoutReply, LayoutRequest } from "../layout_worker";
import { Card, Check, Empty, Failure, Loading, Note, Select } from "../parts/basics";
import { go, queried, setQuery } from "../router";
import { likelyVhost, vhosts } from "../vhost";
import { type ExchangeRow, exchangeRate } from "./exchanges";
import type { Binding } from "./queue_bindings";
import type { QueueRow } from "./queue_rows";

const NODES_MAX = 500;
const HEIGHT = 44;

interface Node {
  id: string;
  kind: "exchange" | "queue";
  name: string;
  title: string;
  sub: string;
  width: number;
  traffic: number;
  warn: boolean;
}

interface Edge {
  from: string;
  to: string;
  keys: string[];
}

interface Page<T> {
  items: T[];
  filtered_count: number;
}

export function Topology(): JSX.Element {
  const vhost = queried("vhost", likelyVhost());
  const search = queried("name");
  const showLone = queried("lone") === "1";
  const exchanges = useFetched<Page<ExchangeRow>>(`${at`/exchanges/${vhost}`}?page=1&page_size=500`, 10_000);
  const queues = useFetched<Page<QueueRow>>(`${at`/queues/${vhost}`}?page=1&page_size=500&columns=name,messages,consumers,message_stats.publish_details.rate`, 10_000);
  const bindings = useFetched<Page<Binding>>(`${at`/bindings/${vhost}`}?page=1&page_size=500`, 30_000);
  const error = exchanges.error || queues.error || bindings.error;
  const graph = useMemo(
    () => (exchanges.data && queues.data && bindings.data ? graphOf(exchanges.data.items, queues.data.items, bindings.data.items, showLone) : null),
    [exchanges.data, queues.data, bindings.data, showLone],
  );
  const isCut = [exchanges.data, queues.data, bindings.data].some((one) => (one?.filtered_count ?? 0) > 500);
  return (
    <>
      <div class="page-head">
        <h1>Topology</h1>
        <span class="toolbar-gap" />
        <input type="search" class="topology-search" aria-label="Find a name" placeholder="Find a name" value={search} onInput={(event) => setQuery({ name: event.currentTarget.value })} />
        {vhosts.value.length > 1 && <Select label="Virtual host" value={vhost} options={vhosts.value.map((one) => [one, one])} onInput={(chosen) => setQuery({ vhost: chosen })} />}
        <Check label="What is bound to nothing, too" checked={showLone} onInput={(checked) => setQuery({ lone: checked ? "1" : undefined })} />
      </div>
      <Failure error={error} />
      {isCut && <Note tone="warn">There is more here than a picture can hold: the first 500 of each kind are drawn.</Note>}
      {!graph && !error && <Loading what="the topology" />}
      {graph && graph.nodes.length === 0 && (
        <Card>
          <Empty title="Nothing is bound here">Bind a queue to an exchange, and it appears.</Empty>
        </Card>
      )}
      {graph && graph.nodes.length > 0 && <Drawing nodes={graph.nodes} edges={graph.edges} vhost={vhost} search={search} />}
    </>
  );
}

function graphOf(exchanges: ExchangeRow[], queues: QueueRow[], bindings: Binding[], showLone: boolean): { nodes: Node[]; edges: Edge[] } {
  const nodes = new Map<string, Node>();
  for (const one of exchanges) {
    // What other exchanges hand on is counted where it leaves.
    const traffic = Math.max(exchangeRate(one, "publish_in"), exchangeRate(one, "publish_out"));
    nodes.set(`e ${one.name}`, node("exchange", one.name, `${one.type} · ${rate(exchangeRate(one, "publish_in"))}`, traffic, false));
  }
  for (const one of queues) {
    const traffic = (one.message_stats?.["publish_details"] as { rate: number } | undefined)?.rate ?? 0;
    nodes.set(`q ${one.name}`, node("queue", one.name, `${short(one.messages)} waiting · ${one.consumers} consumers`, traffic, one.messages > 0 && one.consumers === 0));
  }
  const edges = new Map<string, Edge>();
  const add = (from: string, to: string, key: string): void => {
    if (!nodes.has(from) || !nodes.has(to)) return;
    const edge = edges.get(`${from}\n${to}`) ?? { from, to, keys: [] };
    edge.keys.push(key);
    edges.set(`${from}\n${to}`, edge);
  };
  for (const one of bindings) {
    if (one.source !== "") add(`e ${one.source}`, `${one.destination_type === "queue" ? "q" : "e"} ${one.destination}`, one.routing_key);
  }
  for (const one of exchanges) {
    const alternate = one.arguments["alternate-exchange"];
    if (typeof alternate === "string") add(`e ${one.name}`, `e ${alternate}`, "(what nobody takes)");
  }
  const bound = new Set([...edges.values()].flatMap((edge) => [edge.from, edge.to]));
  const shown = [...nodes.values()].filter((one) => bound.has(one.id) || (showLone && one.name !== ""));
  return { nodes: shown.slice(0, NODES_MAX), edges: [...edges.values()] };
}

function node(kind: "exchange" | "queue", name: string, sub: string, traffic: number, warn: boolean): Node {
  const title = exchangeName(name);
  const width = Math.min(260, Math.max(130, 26 + 7.4 * Math.max(Math.min(title.length, 32), sub.length * 0.84)));
  return { id: `${kind === "queue" ? "q" : "e"} ${name}`, kind, name, title, sub, width, traffic, warn };
}

/** One worker for the page; its address is the only thing that Trusted Types let through. */
const worker = (() => {
  let made: Worker | null = null;
  return (): Worker => {
    if (made === null) {
      const policy = window.trustedTypes?.createPolicy("leveret-worker", { createScriptURL: (address) => (address === LAYOUT_WORKER ? address : "") });
      made = new Worker((policy ? policy.createScriptURL(LAYOUT_WORKER) : LAYOUT_WORKER) as string, { type: "module" });
    }
    return made;
  };
})();

let nextRequest = 0;

function useLayout(nodes: Node[], edges: Edge[]): LayoutReply | null {
  const [made, setMade] = useState<LayoutReply | null>(null);
  const shape = JSON.stringify([nodes.map((one) => one.id), edges.map((one) => [one.from, one.to])]);
  useEffect(() => {
    const known = new Set(nodes.map((one) => one.id));
    const request: LayoutRequest = {
      id: nextRequest++,
      nodes: nodes.map((one) => ({ id: one.id, width: one.width, height: HEIGHT })),
      edges: edges.filter((one) => known.has(one.from) && known.has(one.to)).map(({ from, to }) => ({ from, to })),
    };
    const answered = (event: MessageEvent<LayoutReply>): void => {
      if (event.data.id === request.id) setMade(event.data);
    };
    worker().addEventListener("message", answered);
    worker().postMessage(request);
    return () => worker().removeEventListener("message", answered);
  }, [shape]);
  return made;
}

function Drawing({ nodes, edges, vhost, search }: { nodes: Node[]; edges: Edge[]; vhost: string; search: string }): JSX.Element {
  const layout = useLayout(nodes, edges);
  const frame = useRef<HTMLDivElement>(null);
  if (!layout) return <Loading what="the drawing" />;
  const byId = new Map(nodes.map((one) => [one.id, one]));
  const places = new Map(layout.nodes.map((one) => [one.id, one]));
  const most = Math.max(1, ...nodes.map((one) => one.traffic));
  const isHit = (one: Node): boolean => search !== "" && one.name.toLowerCase().includes(search.toLowerCase());
  const open = (one: Node): void => go([one.kind === "queue" ? "queues" : "exchanges", vhost, one.name || "amq.default"]);
  return (
    <div class="card topology" ref={frame} tabIndex={0} role="region" aria-label="Topology">
      <svg width={layout.width} height={layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0 8 4 0 8z" class="arrow" />
          </marker>
        </defs>
        {layout.edges.map((edge, index) => {
          const target = byId.get(edge.to);
          const keys = edges.find((one) => one.from === edge.from && one.to === edge.to)?.keys ?? [];
          const middle = edge.points[Math.floor(edge.points.length / 2)];
          const flow = target?.traffic ?? 0;
          const label = keys.length > 1 ? `${keys.length} keys` : (keys[0] ?? "");
          return (
            <g key={index} class={flow > 0 ? "edge edge-live" : "edge"}>
              <path d={curve(edge.points)} marker-end="url(#arrow)" stroke-width={1 + 3 * (flow / most)} />
              {middle && label !== "" && (
                <text x={middle.x} y={middle.y - 6}>
                  {label.length > 22 ? `${label.slice(0, 21)}…` : label}
                  <title>{keys.slice(0, 30).join("\n")}</title>
                </text>
              )}
            </g>
          );
        })}
        {nodes.map((one) => {
          const spot = places.get(one.id);
          if (!spot) return null;
          return (
            <g
              key={one.id}
              class={`node node-${one.kind}${one.warn ? " node-warn" : ""}${isHit(one) ? " node-hit" : ""}${search !== "" && !isHit(one) ? " node-dim" : ""}`}
              transform={`translate(${spot.x - one.width / 2} ${spot.y - HEIGHT / 2})`}
              role="link"
              tabIndex={0}
              onClick={() => open(one)}
              onKeyDown={(event) => event.key === "Enter" && open(one)}
            >
              <rect width={one.width} height={HEIGHT} rx={one.kind === "queue" ? 8 : 22} />
              <text x={one.width / 2} y={19} class="node-title">
                {one.title.length > 32 ? `${one.title.slice(0, 31)}…` : one.title}
              </text>
              <text x={one.width / 2} y={34} class="node-sub">
                {one.sub}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, index) => {
    const before = points[index] ?? first;
    const bend = (before.x + point.x) / 2;
    path += ` C${bend} ${before.y} ${bend} ${point.y} ${point.x} ${point.y}`;
  });
  return path;
}
