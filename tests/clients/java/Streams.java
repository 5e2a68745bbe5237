import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What users of the Java stream client do first. `Streams SCENARIO URL NAME` runs one scenario, with NAME before the
 * names of all that it creates, and prints what it saw as one line of JSON.
 */
final class Streams {
    static final int PATIENCE_SECONDS = 30;

    interface Scenario {
        Map<String, Object> run(Streams scene) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = Map.of(
            "hello", StreamScenarios::hello,
            "offsets", StreamScenarios::offsets,
            "deduplication", StreamScenarios::deduplication,
            "compression", StreamScenarios::compression,
            "properties", StreamScenarios::properties,
            "errors", StreamScenarios::errors,
            "heartbeats", StreamScenarios::heartbeats,
            "filters", StreamScenarios::filters,
            "single_active", StreamScenarios::singleActive,
            "super_stream", StreamScenarios::superStream);

    final String url;
    final Environment environment;
    final String name;

    Streams(String url, Environment environment, String name) {
        this.url = url;
        this.environment = environment;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("recovery")) {
            Json.print(StreamRecovery.run(arguments[1], arguments[2]));
            return;
        }
        try (Environment environment = Environment.builder().uri(arguments[1]).build()) {
            Json.print(SCENARIOS.get(arguments[0]).run(new Streams(arguments[1], environment, arguments[2])));
        }
    }

    void create() {
        environment.streamCreator().stream(name).create();
    }

    static byte[] octets(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] octets) {
        return new String(octets, StandardCharsets.UTF_8);
    }

    /** Sends numbers as texts and waits until each was answered; how many were confirmed. */
    static int send(Producer producer, int from, int to) throws Exception {
        AtomicInteger confirmed = new AtomicInteger();
        CountDownLatch answered = new CountDownLatch(to - from);
        for (int number = from; number < to; number++) {
            producer.send(producer.messageBuilder().addData(octets(String.valueOf(number))).build(), status -> {
                confirmed.addAndGet(status.isConfirmed() ? 1 : 0);
                answered.countDown();
            });
        }
        if (!answered.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not every message was answered");
        }
        return confirmed.get();
    }

    static List<String> take(BlockingQueue<String> bodies, int count) throws Exception {
        List<String> taken = new ArrayList<>();
        while (taken.size() < count) {
            String body = bodies.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (body == null) {
                throw new IllegalStateException("no message came after " + taken);
            }
            taken.add(body);
        }
        return taken;
    }

    /** The next bodies of the stream from there on. */
    List<String> read(OffsetSpecification from, int count) throws Exception {
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        try (Consumer consumer = environment.consumerBuilder().stream(name).offset(from)
                .messageHandler((context, message) -> bodies.add(text(message.getBodyAsBinary()))).build()) {
            return take(bodies, count);
        }
    }
}
