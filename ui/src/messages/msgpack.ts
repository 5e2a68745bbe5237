// Reads MessagePack. Everything is checked against the end of the octets, and nesting is bounded: bodies come from anybody.
const DEPTH_MAX = 64;

export function unpack(octets: Uint8Array): unknown {
  const reader = new Reader(octets);
  const value = reader.value(0);
  if (reader.at !== octets.length) throw new Error("there is more behind it");
  return value;
}

class Reader {
  at = 0;
  private readonly view: DataView;

  constructor(private readonly octets: Uint8Array) {
    this.view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
  }

  value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw new Error("nested too deeply");
    const kind = this.view.getUint8(this.skip(1));
    if (kind <= 0x7f) return kind;
    if (kind >= 0xe0) return kind - 0x100;
    if (kind <= 0x8f) return this.map(kind & 0x0f, depth);
    if (kind <= 0x9f) return this.list(kind & 0x0f, depth);
    if (kind <= 0xbf) return this.text(kind & 0x1f);
    return this.marked(kind, depth);
  }

  private marked(kind: number, depth: number): unknown {
    switch (kind) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.binary(this.size(kind - 0xc4));
      case 0xc7: case 0xc8: case 0xc9: return this.extension(this.size(kind - 0xc7));
      case 0xca: return this.view.getFloat32(this.skip(4));
      case 0xcb: return this.view.getFloat64(this.skip(8));
      case 0xcc: return this.view.getUint8(this.skip(1));
      case 0xcd: return this.view.getUint16(this.skip(2));
      case 0xce: return this.view.getUint32(this.skip(4));
      case 0xcf: return whole(this.view.getBigUint64(this.skip(8)));
      case 0xd0: return this.view.getInt8(this.skip(1));
      case 0xd1: return this.view.getInt16(this.skip(2));
      case 0xd2: return this.view.getInt32(this.skip(4));
      case 0xd3: return whole(this.view.getBigInt64(this.skip(8)));
      case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return this.extension(1 << (kind - 0xd4));
      case 0xd9: case 0xda: case 0xdb: return this.text(this.size(kind - 0xd9));
      case 0xdc: case 0xdd: return this.list(this.size(kind - 0xdc + 1), depth);
      case 0xde: case 0xdf: return this.map(this.size(kind - 0xde + 1), depth);
      default: throw new Error("no MessagePack");
    }
  }

  /** The place of the next octets, which are then read. */
  private skip(many: number): number {
    const place = this.at;
    if (place + many > this.octets.length) throw new Error("it ends too early");
    this.at += many;
    return place;
  }

  private size(power: number): number {
    if (power === 0) return this.view.getUint8(this.skip(1));
    return power === 1 ? this.view.getUint16(this.skip(2)) : this.view.getUint32(this.skip(4));
  }

  private text(length: number): string {
    const place = this.skip(length);
    return new TextDecoder("utf-8", { fatal: true }).decode(this.octets.subarray(place, place + length));
  }

  private binary(length: number): string {
    const place = this.skip(length);
    return `0x${[...this.octets.subarray(place, place + length)].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
  }

  private extension(length: number): unknown {
    const type = this.view.getInt8(this.skip(1));
    return { extension: type, octets: this.binary(length) };
  }

  private list(length: number, depth: number): unknown[] {
    if (length > this.octets.length) throw new Error("it ends too early");
    return Array.from({ length }, () => this.value(depth + 1));
  }

  private map(length: number, depth: number): Record<string, unknown> {
    if (length > this.octets.length) throw new Error("it ends too early");
    const made: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
    for (let index = 0; index < length; index += 1) {
      const key = this.value(depth + 1);
      made[typeof key === "string" ? key : JSON.stringify(key)] = this.value(depth + 1);
    }
    return made;
  }
}

function whole(value: bigint): number | string {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value.toString();
}
