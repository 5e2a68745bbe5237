import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.StreamDoesNotExistException;
import com.rabbitmq.stream.compression.Compression;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The stream client's scenarios, but for recovery. */
final class StreamScenarios {
    private StreamScenarios() {}

    static Map<String, Object> hello(Streams scene) throws Exception {
        scene.create();
        try (Producer producer = scene.environment.producerBuilder().stream(scene.name).build()) {
            int confirmed = Streams.send(producer, 0, 1000);
            List<String> received = scene.read(OffsetSpecification.first(), 1000);
            return Map.of("confirmed", confirmed, "in order", received.equals(numbers(0, 1000)));
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    private static List<String> numbers(int from, int to) {
        List<String> texts = new ArrayList<>();
        for (int number = from; number < to; number++) {
            texts.add(String.valueOf(number));
        }
        return texts;
    }

    /** Where a consumer begins: at an offset, at the next message, and where one of its name has stopped. */
    static Map<String, Object> offsets(Streams scene) throws Exception {
        scene.create();
        try (Producer producer = scene.environment.producerBuilder().stream(scene.name).build()) {
            Streams.send(producer, 0, 10);
            List<String> fromSeven = scene.read(OffsetSpecification.offset(7), 3);
            List<String> first = tracked(scene, 5);
            List<String> again = tracked(scene, 5);
            BlockingQueue<String> coming = new LinkedBlockingQueue<>();
            try (Consumer consumer = scene.environment.consumerBuilder().stream(scene.name)
                    .offset(OffsetSpecification.next())
                    .messageHandler((context, message) -> coming.add(Streams.text(message.getBodyAsBinary())))
                    .build()) {
                Streams.send(producer, 10, 12);
                List<String> next = Streams.take(coming, 2);
                return Map.of("from 7", fromSeven, "first", first, "again", again, "next", next);
            }
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    /** Reads so many with a consumer that has a name, and stores how far it came. */
    private static List<String> tracked(Streams scene, int count) throws Exception {
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        CountDownLatch stored = new CountDownLatch(count);
        try (Consumer consumer = scene.environment.consumerBuilder().stream(scene.name).name("reader")
                .offset(OffsetSpecification.first()).manualTrackingStrategy().builder()
                .messageHandler((context, message) -> {
                    if (stored.getCount() > 0) {
                        bodies.add(Streams.text(message.getBodyAsBinary()));
                        context.storeOffset();
                        stored.countDown();
                    }
                }).build()) {
            List<String> taken = Streams.take(bodies, count);
            stored.await(Streams.PATIENCE_SECONDS, TimeUnit.SECONDS);
            long wanted = Long.parseLong(taken.get(count - 1));
            // Stored without an answer: asked for until it is there.
            while (consumer.storedOffset() < wanted) {
                Thread.sleep(50);
            }
            return taken;
        }
    }

    /** A producer with a name sends some messages twice. */
    static Map<String, Object> deduplication(Streams scene) throws Exception {
        scene.create();
        try {
            int confirmed = numbered(scene, 0, 5) + numbered(scene, 0, 6);
            long last;
            try (Producer producer = producer(scene)) {
                last = producer.getLastPublishingId();
                producer.send(message(producer, 6), status -> {});
                List<String> received = scene.read(OffsetSpecification.first(), 7);
                return Map.of("confirmed", confirmed, "last", last, "received", received);
            }
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    private static Producer producer(Streams scene) {
        return scene.environment.producerBuilder().stream(scene.name).name("sender").build();
    }

    private static Message message(Producer producer, int number) {
        byte[] body = Streams.octets(String.valueOf(number));
        return producer.messageBuilder().publishingId(number).addData(body).build();
    }

    private static int numbered(Streams scene, int from, int to) throws Exception {
        CountDownLatch confirmed = new CountDownLatch(to - from);
        try (Producer producer = producer(scene)) {
            for (int number = from; number < to; number++) {
                producer.send(message(producer, number), status -> confirmed.countDown());
            }
            confirmed.await(Streams.PATIENCE_SECONDS, TimeUnit.SECONDS);
        }
        return to - from - (int) confirmed.getCount();
    }

    static Map<String, Object> compression(Streams scene) throws Exception {
        Map<String, Object> results = new HashMap<>();
        for (Compression compression : Compression.values()) {
            scene.create();
            try (Producer producer = scene.environment.producerBuilder().stream(scene.name)
                    .subEntrySize(10).compression(compression).build()) {
                int confirmed = Streams.send(producer, 0, 100);
                boolean inOrder = scene.read(OffsetSpecification.first(), 100).equals(numbers(0, 100));
                results.put(compression.name(), List.of(confirmed, inOrder));
            } finally {
                scene.environment.deleteStream(scene.name);
            }
        }
        return results;
    }

    /** What a message carries comes back as it was sent. */
    static Map<String, Object> properties(Streams scene) throws Exception {
        scene.create();
        try (Producer producer = scene.environment.producerBuilder().stream(scene.name).build()) {
            Message sent = producer.messageBuilder()
                    .properties().messageId("message").correlationId("correlation").subject("subject").to("to")
                    .contentType("text/plain").creationTime(1_700_000_000_000L).groupSequence(3).messageBuilder()
                    .applicationProperties().entry("text", "text").entry("number", 1L << 40).entry("flag", true)
                    .messageBuilder().messageAnnotations().entry("x-note", "note").messageBuilder()
                    .addData(Streams.octets("body")).build();
            producer.send(sent, status -> {});
            BlockingQueue<Message> messages = new LinkedBlockingQueue<>();
            try (Consumer consumer = scene.environment.consumerBuilder().stream(scene.name)
                    .offset(OffsetSpecification.first())
                    .messageHandler((context, message) -> messages.add(message)).build()) {
                Message got = messages.poll(Streams.PATIENCE_SECONDS, TimeUnit.SECONDS);
                boolean equal = got.getProperties().getMessageId().equals("message")
                        && got.getProperties().getCorrelationId().equals("correlation")
                        && got.getProperties().getSubject().equals("subject")
                        && got.getProperties().getTo().equals("to")
                        && got.getProperties().getContentType().equals("text/plain")
                        && got.getProperties().getCreationTime() == 1_700_000_000_000L
                        && got.getProperties().getGroupSequence() == 3
                        && got.getApplicationProperties().equals(sent.getApplicationProperties())
                        && got.getMessageAnnotations().equals(sent.getMessageAnnotations())
                        && Streams.text(got.getBodyAsBinary()).equals("body");
                return Map.of("equal", equal);
            }
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    static Map<String, Object> errors(Streams scene) {
        boolean producing = false;
        boolean consuming = false;
        try {
            scene.environment.producerBuilder().stream(scene.name).build();
        } catch (StreamDoesNotExistException refused) {
            producing = true;
        }
        try {
            scene.environment.consumerBuilder().stream(scene.name).messageHandler((context, message) -> {}).build();
        } catch (StreamDoesNotExistException refused) {
            consuming = true;
        }
        boolean exists = scene.environment.streamExists(scene.name);
        scene.create();
        boolean created = scene.environment.streamExists(scene.name);
        // The same again is no error.
        scene.create();
        scene.environment.deleteStream(scene.name);
        return Map.of("refused", List.of(producing, consuming), "exists", List.of(exists, created));
    }

    /** Idle for several intervals: the client's own watch over the broker's heartbeats does not end the connections. */
    static Map<String, Object> heartbeats(Streams scene) throws Exception {
        scene.create();
        List<String> changes = new ArrayList<>();
        try (Environment idle =
                        Environment.builder().uri(scene.url).requestedHeartbeat(Duration.ofSeconds(2)).build();
                Producer producer = idle.producerBuilder().stream(scene.name)
                        .listeners(context -> changes.add(context.currentState().name())).build()) {
            Thread.sleep(9_000);
            int confirmed = Streams.send(producer, 0, 1);
            boolean undisturbed = !changes.contains("RECOVERING");
            return Map.of(
                    "undisturbed", undisturbed,
                    "confirmed", confirmed,
                    "received", scene.read(OffsetSpecification.first(), 1));
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    static Map<String, Object> filters(Streams scene) throws Exception {
        scene.create();
        try (Producer producer = scene.environment.producerBuilder().stream(scene.name)
                .filterValue(message -> Integer.parseInt(Streams.text(message.getBodyAsBinary())) < 50 ? "low" : "high")
                .build()) {
            // Chunks of their own: the broker filters by chunk.
            Streams.send(producer, 0, 50);
            Streams.send(producer, 50, 100);
            BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
            try (Consumer consumer = scene.environment.consumerBuilder().stream(scene.name)
                    .offset(OffsetSpecification.first()).filter().values("high")
                    .postFilter(message -> Integer.parseInt(Streams.text(message.getBodyAsBinary())) >= 50).builder()
                    .messageHandler((context, message) -> bodies.add(Streams.text(message.getBodyAsBinary())))
                    .build()) {
                return Map.of("filtered", Streams.take(bodies, 50).equals(numbers(50, 100)));
            }
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    /** Two consumers of one name: the second takes over where the first has stopped. */
    static Map<String, Object> singleActive(Streams scene) throws Exception {
        scene.create();
        BlockingQueue<String> first = new LinkedBlockingQueue<>();
        BlockingQueue<String> second = new LinkedBlockingQueue<>();
        try (Producer producer = scene.environment.producerBuilder().stream(scene.name).build()) {
            Consumer active = single(scene, first);
            Streams.send(producer, 0, 10);
            List<String> alone = Streams.take(first, 10);
            try (Consumer waiting = single(scene, second)) {
                Streams.send(producer, 10, 20);
                List<String> beside = Streams.take(first, 10);
                boolean idle = second.isEmpty();
                active.close();
                Streams.send(producer, 20, 30);
                // From the start again: no offset was stored.
                List<String> after = Streams.take(second, 30);
                return Map.of(
                        "first", List.of(alone.equals(numbers(0, 10)), beside.equals(numbers(10, 20))),
                        "waited", idle,
                        "second", after.equals(numbers(0, 30)));
            }
        } finally {
            scene.environment.deleteStream(scene.name);
        }
    }

    private static Consumer single(Streams scene, BlockingQueue<String> bodies) {
        return scene.environment.consumerBuilder().stream(scene.name).name("group").singleActiveConsumer()
                .noTrackingStrategy().consumerUpdateListener(context -> OffsetSpecification.first())
                .offset(OffsetSpecification.first())
                .messageHandler((context, message) -> bodies.add(Streams.text(message.getBodyAsBinary()))).build();
    }

    static Map<String, Object> superStream(Streams scene) throws Exception {
        scene.environment.streamCreator().name(scene.name).superStream().partitions(3).creator().create();
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        try (Producer producer = scene.environment.producerBuilder().superStream(scene.name)
                        .routing(message -> Streams.text(message.getBodyAsBinary())).producerBuilder().build();
                Consumer consumer = scene.environment.consumerBuilder().superStream(scene.name)
                        .offset(OffsetSpecification.first())
                        .messageHandler((context, message) -> {
                            bodies.add(Streams.text(message.getBodyAsBinary()));
                        }).build()) {
            int confirmed = Streams.send(producer, 0, 90);
            List<String> received = new ArrayList<>(Streams.take(bodies, 90));
            received.sort((one, other) -> Integer.compare(Integer.parseInt(one), Integer.parseInt(other)));
            return Map.of("confirmed", confirmed, "all", received.equals(numbers(0, 90)));
        } finally {
            scene.environment.deleteSuperStream(scene.name);
        }
    }
}
