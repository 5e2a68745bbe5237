import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Publishes with confirms, again until confirmed, while the driver disturbs the broker: it begins when it reads
 * "ready", and writes a line when the broker serves again. The client reconnects and restores its topology by itself.
 */
final class Recovery {
    private static final int SENT_AFTER = 20;

    private Recovery() {}

    static Map<String, Object> run(ConnectionFactory factory, String name) throws Exception {
        factory.setRequestedHeartbeat(2);
        factory.setNetworkRecoveryInterval(300);
        try (Connection connection = factory.newConnection()) {
            AtomicInteger recoveries = new AtomicInteger();
            ((Recoverable) connection).addRecoveryListener(new Counting(recoveries));
            Channel consuming = connection.createChannel();
            consuming.exchangeDeclare(name, BuiltinExchangeType.TOPIC, true);
            consuming.queueDeclare(name, true, false, false, null);
            consuming.queueBind(name, name, "a.#");
            String exclusiveQueue = consuming.queueDeclare().getQueue();
            consuming.queueBind(exclusiveQueue, name, "#");
            Set<String> durable = seen(consuming, name);
            Set<String> exclusive = seen(consuming, exclusiveQueue);
            List<String> confirmed = publish(connection, name);
            int missing = 0;
            long deadline = System.nanoTime() + Amqp.PATIENCE_SECONDS * 1_000_000_000L;
            for (String body : confirmed) {
                missing += await(durable, body, deadline) ? 0 : 1;
            }
            String last = confirmed.get(confirmed.size() - 1);
            boolean exclusiveSaw = await(exclusive, last, deadline);
            consuming.queueDelete(name);
            consuming.exchangeDelete(name);
            return Map.of(
                    "recovered", recoveries.get() > 0,
                    "after", SENT_AFTER,
                    "missing", missing,
                    "exclusive", exclusiveSaw);
        }
    }

    /** What was confirmed: some before the disturbance, whatever went meanwhile, and as many after it as agreed. */
    private static List<String> publish(Connection connection, String name) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        AtomicBoolean calm = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
            calm.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        List<String> confirmed = new ArrayList<>();
        int after = 0;
        for (int number = 0; after < SENT_AFTER; number++) {
            String body = String.valueOf(number);
            boolean isAfter = calm.get();
            while (!published(channel, name, body)) {
                Thread.sleep(50);
            }
            confirmed.add(body);
            after += isAfter ? 1 : 0;
            if (number == 20) {
                Json.print(Map.of("event", "ready"));
            }
            Thread.sleep(20);
        }
        return confirmed;
    }

    private static boolean published(Channel channel, String exchange, String body) throws InterruptedException {
        try {
            channel.basicPublish(exchange, "a.b", true, MessageProperties.PERSISTENT_BASIC, body.getBytes());
            return channel.waitForConfirms(3_000);
        } catch (IOException | TimeoutException | ShutdownSignalException failure) {
            return false;
        }
    }

    private static Set<String> seen(Channel channel, String queue) throws Exception {
        Set<String> bodies = ConcurrentHashMap.newKeySet();
        channel.basicConsume(queue, false, (tag, delivery) -> {
            bodies.add(new String(delivery.getBody()));
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }, tag -> {});
        return bodies;
    }

    private static boolean await(Set<String> bodies, String body, long deadline) throws InterruptedException {
        while (!bodies.contains(body) && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
        return bodies.contains(body);
    }

    private record Counting(AtomicInteger recoveries) implements RecoveryListener {
        @Override
        public void handleRecovery(Recoverable recovered) {
            recoveries.incrementAndGet();
        }

        @Override
        public void handleRecoveryStarted(Recoverable recovering) {}
    }
}
