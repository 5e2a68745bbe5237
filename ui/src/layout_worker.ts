// Lays out the topology graph away from the page's own thread.
import { Graph, layout } from "@dagrejs/dagre";

export interface LayoutRequest {
  id: number;
  nodes: { id: string; width: number; height: number }[];
  edges: { from: string; to: string }[];
}

export interface LayoutReply {
  id: number;
  nodes: { id: string; x: number; y: number }[];
  edges: { from: string; to: string; points: { x: number; y: number }[] }[];
  width: number;
  height: number;
}

self.onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { id, nodes, edges } = event.data;
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 110, marginx: 20, marginy: 20 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: node.width, height: node.height });
  for (const edge of edges) graph.setEdge(edge.from, edge.to);
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const reply: LayoutReply = {
    id,
    nodes: nodes.map((node) => {
      const made = graph.node(node.id) as { x: number; y: number };
      return { id: node.id, x: made.x, y: made.y };
    }),
    edges: edges.map((edge) => {
      const made = graph.edge(edge.from, edge.to) as { points?: { x: number; y: number }[] };
      return { ...edge, points: made.points ?? [] };
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
  self.postMessage(reply);
};
