// The same messages through exchanges of each type, and through one exchange bound to another.
'use strict';

const { run, receive, text } = require('./scenario');

const KEYS = ['kern.info', 'cron.critical', 'kern.critical', 'cron'];

async function routed(channel, type, bindings, count) {
  const exchange = `conformance-node-${type}-${process.pid}`;
  await channel.assertExchange(exchange, type, { durable: false, autoDelete: true });
  const { queue } = await channel.assertQueue('', { exclusive: true });
  for (const [key, args] of bindings) await channel.bindQueue(queue, exchange, key, args);
  for (const key of KEYS) channel.publish(exchange, key, Buffer.from(key), { headers: { words: key.split('.').length } });
  return (await receive(channel, queue, count)).map(text);
}

run(async (connection) => {
  const channel = await connection.createChannel();
  const source = `conformance-node-source-${process.pid}`;
  const destination = `conformance-node-destination-${process.pid}`;
  await channel.assertExchange(source, 'fanout', { durable: false, autoDelete: true });
  await channel.assertExchange(destination, 'topic', { durable: false, autoDelete: true });
  await channel.bindExchange(destination, source, '');
  const { queue } = await channel.assertQueue('', { exclusive: true });
  await channel.bindQueue(queue, destination, '#.info');
  for (const key of KEYS) channel.publish(source, key, Buffer.from(key));
  return {
    through: (await receive(channel, queue, 1)).map(text),
    fanout: await routed(channel, 'fanout', [['']], 4),
    direct: await routed(channel, 'direct', [['cron']], 1),
    topic: await routed(channel, 'topic', [['kern.*'], ['*.critical']], 3),
    headers: await routed(channel, 'headers', [['', { 'x-match': 'all', words: 1 }]], 1),
  };
});
