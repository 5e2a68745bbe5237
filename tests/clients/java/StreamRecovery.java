import com.rabbitmq.stream.BackOffDelayPolicy;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.Resource;
import com.rabbitmq.stream.StreamException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Publishes, again until confirmed, while the driver disturbs the broker: it begins when it reads "ready", and writes a
 * line when the broker serves again. The client reconnects by itself.
 */
final class StreamRecovery {
    private static final int SENT_AFTER = 20;

    private StreamRecovery() {}

    static Map<String, Object> run(String url, String name) throws Exception {
        AtomicBoolean recovering = new AtomicBoolean();
        AtomicBoolean recovered = new AtomicBoolean();
        Resource.StateListener listener = context -> {
            if (context.currentState() == Resource.State.RECOVERING) {
                recovering.set(true);
            } else if (context.currentState() == Resource.State.OPEN && recovering.get()) {
                recovered.set(true);
            }
        };
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (Environment environment = Environment.builder().uri(url).requestedHeartbeat(Duration.ofSeconds(2))
                .recoveryBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(500)))
                .topologyUpdateBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(500))).build()) {
            environment.streamCreator().stream(name).create();
            Consumer consumer = environment.consumerBuilder().stream(name).offset(OffsetSpecification.first())
                    .messageHandler((context, message) -> seen.add(Streams.text(message.getBodyAsBinary()))).build();
            Producer producer = environment.producerBuilder().stream(name).listeners(listener).build();
            List<String> confirmed = publish(producer);
            int missing = 0;
            long deadline = System.nanoTime() + Streams.PATIENCE_SECONDS * 1_000_000_000L;
            for (String body : confirmed) {
                while (!seen.contains(body) && System.nanoTime() < deadline) {
                    Thread.sleep(10);
                }
                missing += seen.contains(body) ? 0 : 1;
            }
            producer.close();
            consumer.close();
            environment.deleteStream(name);
            return Map.of("recovered", recovered.get(), "after", SENT_AFTER, "missing", missing);
        }
    }

    /** What was confirmed: some before the disturbance, whatever went meanwhile, and as many after it as agreed. */
    private static List<String> publish(Producer producer) throws Exception {
        AtomicBoolean calm = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
            calm.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        List<String> confirmed = new ArrayList<>();
        int after = 0;
        for (int number = 0; after < SENT_AFTER; number++) {
            String body = String.valueOf(number);
            boolean isAfter = calm.get();
            while (!published(producer, body)) {
                Thread.sleep(100);
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

    private static boolean published(Producer producer, String body) throws InterruptedException {
        CompletableFuture<Boolean> answer = new CompletableFuture<>();
        try {
            producer.send(
                    producer.messageBuilder().addData(Streams.octets(body)).build(),
                    status -> answer.complete(status.isConfirmed()));
            return answer.get(5, TimeUnit.SECONDS);
        } catch (StreamException | ExecutionException | TimeoutException failure) {
            return false;
        }
    }
}
