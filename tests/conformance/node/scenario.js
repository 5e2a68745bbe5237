// Runs one scenario over a connection to the broker named on the command line, and prints its result as JSON.
'use strict';

const amqp = require('amqplib');

async function run(scenario) {
  const connection = await amqp.connect(process.argv[2]);
  try {
    const result = await scenario(connection);
    process.stdout.write(JSON.stringify(result));
  } finally {
    await connection.close().catch(() => {});
  }
}

// Consumes this many messages and acknowledges each.
function receive(channel, queue, count, options = {}) {
  const messages = [];
  return new Promise((resolve, reject) => {
    if (count === 0) resolve(messages);
    channel
      .consume(
        queue,
        (message) => {
          if (message === null) return reject(new Error('cancelled by the broker'));
          messages.push(message);
          if (!options.noAck) channel.ack(message);
          if (messages.length === count) {
            channel.cancel(message.fields.consumerTag).then(() => resolve(messages), reject);
          }
        },
        options,
      )
      .catch(reject);
  });
}

const text = (message) => message.content.toString();

module.exports = { run, receive, text };
