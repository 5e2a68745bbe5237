// A work queue with two workers: the one that never acknowledges holds one task, the other does the rest.
'use strict';

const { run, text } = require('./scenario');

run(async (connection) => {
  const publisher = await connection.createConfirmChannel();
  const { queue } = await publisher.assertQueue('', { exclusive: true, durable: true });
  const busy = await connection.createChannel();
  const quick = await connection.createChannel();
  const held = [];
  const done = [];
  await busy.prefetch(1);
  await busy.consume(queue, (message) => held.push(text(message)));
  await quick.prefetch(1);
  const finished = new Promise((resolve) => {
    quick.consume(queue, (message) => {
      done.push(text(message));
      quick.ack(message);
      if (done.length === 9) resolve();
    });
  });
  for (let number = 0; number < 10; number += 1) {
    publisher.sendToQueue(queue, Buffer.from(`${number}`), { persistent: true });
  }
  await publisher.waitForConfirms();
  await finished;
  // The held task comes back when its channel goes.
  await busy.close();
  const returned = await new Promise((resolve) => {
    const poll = async () => {
      if (done.length > 9) resolve(done[9]);
      else setTimeout(poll, 10);
    };
    poll();
  });
  return { held, returned, done: done.slice(0, 9).length };
});
