// What a client is told: a missing queue, a queue declared otherwise, a consumer whose queue is deleted.
'use strict';

const { run } = require('./scenario');

async function refusal(connection, attempt) {
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  try {
    await attempt(channel);
    return 'accepted';
  } catch (error) {
    return error.message;
  }
}

run(async (connection) => {
  const name = `conformance-node-${process.pid}`;
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { durable: false });
  const missing = await refusal(connection, (other) => other.checkQueue(`${name}-gone`));
  const other = await refusal(connection, (second) => second.assertQueue(name, { durable: true }));
  const consumer = await connection.createChannel();
  const cancelled = new Promise((resolve) => {
    consumer.consume(name, (message) => resolve(message)).then(() => channel.deleteQueue(name));
  });
  return { missing: missing.replaceAll(name, 'NAME'), other: other.replaceAll(name, 'NAME'), cancelled: await cancelled };
});
