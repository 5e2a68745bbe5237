// The same message as a command, and as a program.
import type { Message } from "./message";

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function asCurl(vhost: string, message: Message, user: string): string {
  const exchange = message.exchange === "" ? "amq.default" : message.exchange;
  const body = { routing_key: message.routing_key, properties: message.properties, payload: message.payload, payload_encoding: message.payload_encoding };
  const address = `${location.origin}/api/exchanges/${encodeURIComponent(vhost)}/${encodeURIComponent(exchange)}/publish`;
  return `curl -u ${quoted(user)} ${quoted(address)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}

/** A literal of Python. Strings and numbers are those of JSON. */
function text(value: unknown): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return value === null || value === undefined ? "None" : JSON.stringify(value);
}

export function asPython(vhost: string, message: Message): string {
  const given = Object.entries(message.properties).filter(([name]) => name !== "headers");
  const properties = [...given.map(([name, value]) => `${name}=${text(value)}`), ...(message.properties.headers ? [`headers=json.loads(${text(JSON.stringify(message.properties.headers))})`] : [])];
  const body = message.payload_encoding === "string" ? `${text(message.payload)}.encode()` : `base64.b64decode(${text(message.payload)})`;
  return `import base64, json, pika

connection = pika.BlockingConnection(pika.ConnectionParameters(${text(location.hostname)}, virtual_host=${text(vhost)}))
connection.channel().basic_publish(
    exchange=${text(message.exchange)},
    routing_key=${text(message.routing_key)},
    body=${body},
    properties=pika.BasicProperties(${properties.join(", ")}),
)
connection.close()`;
}
