// Single messages: get, requeue, acknowledge, purge, delete, and properties as they were sent.
'use strict';

const { run, text } = require('./scenario');

run(async (connection) => {
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  const empty = await channel.get(queue);
  const properties = {
    contentType: 'text/plain',
    headers: { flag: true, number: 1.5, big: 2 ** 40, list: [1, 'two'], table: { deep: 'yes' } },
    priority: 3,
    correlationId: 'c',
    expiration: '60000',
    messageId: 'm',
    timestamp: 1700000000,
    type: 't',
    appId: 'a',
  };
  channel.sendToQueue(queue, Buffer.from('first'), properties);
  channel.sendToQueue(queue, Buffer.alloc(300000, 'x'));
  channel.sendToQueue(queue, Buffer.from('third'));
  await channel.waitForConfirms();
  const first = await channel.get(queue);
  channel.nack(first, false, true);
  const again = await channel.get(queue);
  channel.ack(again);
  const large = await channel.get(queue, { noAck: true });
  const purged = await channel.purgeQueue(queue);
  const deleted = await channel.deleteQueue(queue);
  const kept = Object.keys(properties).every(
    (name) => JSON.stringify(again.properties[name]) === JSON.stringify(properties[name]),
  );
  return {
    empty,
    first: [text(first), first.fields.redelivered, first.fields.messageCount],
    again: [text(again), again.fields.redelivered],
    kept,
    large: large.content.length,
    purged: purged.messageCount,
    deleted: deleted.messageCount,
  };
});
