// From octets to what a person can read: unpacked if they are compressed, then JSON, MessagePack, text or hex.
import { unpack } from "./msgpack";

export type View = "json" | "msgpack" | "text" | "hex";

export interface Decoded {
  /** What fits, the best first. */
  views: Partial<Record<View, string>>;
  best: View;
  compression: string;
}

const UNPACKED_BYTES_MAX = 4 * 1024 * 1024;
const HEX_BYTES_MAX = 16 * 1024;

export async function decode(octets: Uint8Array<ArrayBuffer>, contentType = "", contentEncoding = ""): Promise<Decoded> {
  const [plain, compression] = await decompressed(octets, contentEncoding);
  const views: Partial<Record<View, string>> = {};
  const text = textOf(plain);
  if (text !== null) {
    const json = jsonOf(text);
    if (json !== null) views.json = json;
    views.text = text;
  }
  if (text === null || /msgpack/.test(contentType)) {
    try {
      views.msgpack = JSON.stringify(unpack(plain), null, 2);
    } catch {
      // It is something else.
    }
  }
  views.hex = hexOf(plain);
  const best: View = views.msgpack !== undefined && text === null ? "msgpack" : views.json !== undefined ? "json" : views.text !== undefined ? "text" : "hex";
  return { views, best, compression };
}

function textOf(octets: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(octets);
    // Control characters that no text has.
    return /[\u0000-\u0008\u000e-\u001a]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function jsonOf(text: string): string | null {
  if (!/^\s*[[{"]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

function hexOf(octets: Uint8Array): string {
  const lines: string[] = [];
  const shown = octets.subarray(0, HEX_BYTES_MAX);
  for (let at = 0; at < shown.length; at += 16) {
    const row = [...shown.subarray(at, at + 16)];
    const hex = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${letters}`);
  }
  if (octets.length > HEX_BYTES_MAX) lines.push(`… ${octets.length - HEX_BYTES_MAX} octets more`);
  return lines.join("\n");
}

async function decompressed(octets: Uint8Array<ArrayBuffer>, encoding: string): Promise<[Uint8Array<ArrayBuffer>, string]> {
  const isGzip = octets[0] === 0x1f && octets[1] === 0x8b;
  const isZlib = octets[0] === 0x78 && octets.length > 2 && ((octets[0] << 8) + (octets[1] ?? 0)) % 31 === 0;
  const format = isGzip ? "gzip" : isZlib || encoding === "deflate" ? "deflate" : null;
  if (format === null) return [octets, ""];
  try {
    const reader = new Blob([octets]).stream().pipeThrough(new DecompressionStream(format)).getReader();
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value as Uint8Array<ArrayBuffer>);
      size += part.value.length;
      // A few octets can hold gigabytes.
      if (size > UNPACKED_BYTES_MAX) break;
    }
    void reader.cancel();
    return [new Uint8Array(await new Blob(parts).arrayBuffer()), size > UNPACKED_BYTES_MAX ? `${format}, the beginning of it` : format];
  } catch {
    return [octets, ""];
  }
}
