// Remote procedure calls: once over a reply queue, once over direct reply-to.
'use strict';

const { run } = require('./scenario');

async function ask(channel, server, replyTo, options) {
  const replies = new Map();
  const all = new Promise((resolve) => {
    channel.consume(
      replyTo,
      (message) => {
        replies.set(message.properties.correlationId, message.content.toString());
        if (replies.size === 5) resolve();
      },
      options,
    );
  });
  for (let number = 0; number < 5; number += 1) {
    channel.sendToQueue(server, Buffer.from(`${number}`), { correlationId: `call ${number}`, replyTo });
  }
  await all;
  return Object.fromEntries([...replies].sort());
}

run(async (connection) => {
  const server = await connection.createChannel();
  const { queue } = await server.assertQueue('', { exclusive: true });
  await server.prefetch(1);
  await server.consume(queue, (message) => {
    const { correlationId, replyTo } = message.properties;
    server.sendToQueue(replyTo, Buffer.from(`${Number(message.content) ** 2}`), { correlationId });
    server.ack(message);
  });
  const client = await connection.createChannel();
  const replies = await client.assertQueue('', { exclusive: true });
  return {
    queue: await ask(client, queue, replies.queue, {}),
    direct: await ask(client, queue, 'amq.rabbitmq.reply-to', { noAck: true }),
  };
});
