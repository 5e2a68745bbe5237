// Publisher confirms: one by one, many at once, and a mandatory message that comes back before its confirm.
'use strict';

const { run, text } = require('./scenario');

run(async (connection) => {
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  const events = [];
  channel.on('return', (message) => events.push(`returned ${text(message)} ${message.fields.replyCode}`));

  await new Promise((resolve, reject) => {
    channel.sendToQueue(queue, Buffer.from('single'), { persistent: true }, (error) =>
      error ? reject(error) : resolve(),
    );
  });
  for (let number = 0; number < 100; number += 1) channel.sendToQueue(queue, Buffer.from(`${number}`));
  await channel.waitForConfirms();

  await new Promise((resolve) => {
    channel.publish('', 'conformance-nobody', Buffer.from('lost'), { mandatory: true }, () => {
      events.push('confirmed');
      resolve();
    });
  });
  const { messageCount } = await channel.checkQueue(queue);
  return { events, messageCount };
});
