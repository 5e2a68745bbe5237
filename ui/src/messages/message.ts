// A message as the API shows it, and its octets.
export interface Message {
  payload: string;
  payload_bytes: number;
  payload_encoding: "string" | "base64";
  exchange: string;
  routing_key: string;
  properties: Properties;
  redelivered?: boolean;
  position?: number;
  delivery_count?: number;
  arrived_at?: number;
  stream_offset?: number;
  consumer_tag?: string;
  channel?: string;
  user?: string;
  since?: number;
}

export interface Properties {
  headers?: Record<string, unknown>;
  content_type?: string;
  content_encoding?: string;
  [name: string]: unknown;
}

export function octetsOf(message: Pick<Message, "payload" | "payload_encoding">): Uint8Array<ArrayBuffer> {
  if (message.payload_encoding === "string") return new TextEncoder().encode(message.payload);
  return Uint8Array.from(atob(message.payload), (letter) => letter.charCodeAt(0));
}

export interface Death {
  queue: string;
  exchange: string;
  reason: string;
  count: number;
  time?: number | string;
  "routing-keys"?: string[];
}

export function deathsOf(message: Message): Death[] {
  const found = message.properties.headers?.["x-death"];
  return Array.isArray(found) ? (found as Death[]) : [];
}
