import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Confirms, errors, what a message carries, and heartbeats. */
final class Guarantees {
    private Guarantees() {}

    static Map<String, Object> confirms(Amqp scene) throws Exception {
        String queue = scene.queue(scene.name);
        BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
        scene.channel.addReturnListener(returns::add);
        scene.channel.confirmSelect();
        int confirmed = 0;
        for (int number = 0; number < 100; number++) {
            publish(scene, queue);
        }
        if (scene.channel.waitForConfirms(1000L * Amqp.PATIENCE_SECONDS)) {
            confirmed = 100;
        }
        boolean unroutable = publishAndWait(scene, scene.name + "-nowhere");
        Return returned = returns.poll(Amqp.PATIENCE_SECONDS, TimeUnit.SECONDS);
        Map<String, Object> full = Map.of("x-max-length", 1, "x-overflow", "reject-publish");
        scene.channel.queueDeclare(scene.name + "-full", false, true, false, full);
        boolean taken = publishAndWait(scene, scene.name + "-full");
        boolean refused = publishAndWait(scene, scene.name + "-full");
        int messages = scene.channel.queueDelete(queue).getMessageCount();
        return Map.of(
                "confirmed", confirmed,
                "messages", messages,
                "unroutable confirmed", unroutable,
                "returned", List.of(returned.getReplyCode(), returned.getReplyText()),
                "full", List.of(taken, refused));
    }

    private static void publish(Amqp scene, String key) throws Exception {
        scene.channel.basicPublish("", key, true, MessageProperties.PERSISTENT_BASIC, "message".getBytes());
    }

    private static boolean publishAndWait(Amqp scene, String key) throws Exception {
        publish(scene, key);
        return scene.channel.waitForConfirms(1000L * Amqp.PATIENCE_SECONDS);
    }

    private interface Provocation {
        void on(Channel channel) throws IOException;
    }

    /** The broker closes the channel and says why; the connection stays. */
    static Map<String, Object> errors(Amqp scene) throws Exception {
        scene.queue(scene.name);
        Map<String, Object> refusals = Map.of(
                "missing", refusal(scene, channel -> channel.queueDeclarePassive(scene.name + "-gone")),
                "inequivalent", refusal(scene, channel -> channel.queueDeclare(scene.name, true, false, false, null)),
                "exchange", refusal(scene, channel -> channel.queueBind(scene.name, scene.name + "-gone", "")));
        scene.channel.queueDelete(scene.name);
        return refusals;
    }

    private static List<Object> refusal(Amqp scene, Provocation provocation) throws Exception {
        Channel channel = scene.connection.createChannel();
        try {
            provocation.on(channel);
        } catch (IOException failure) {
            Method reason = ((ShutdownSignalException) failure.getCause()).getReason();
            AMQP.Channel.Close close = (AMQP.Channel.Close) reason;
            return List.of(close.getReplyCode(), close.getReplyText().replace(scene.name, "NAME"));
        }
        throw new IllegalStateException("not refused");
    }

    /** Bodies of no frame, of one and of many. */
    static Map<String, Object> bodies(Amqp scene) throws Exception {
        String queue = scene.queue(scene.name);
        for (int size : new int[] {0, 1, 131_064, 131_065, 3_000_000}) {
            scene.publish("", queue, "x".repeat(size));
        }
        List<Object> sizes = new ArrayList<>();
        for (String body : scene.texts(queue, 5)) {
            sizes.add(body.length());
        }
        scene.channel.queueDelete(queue);
        return Map.of("sizes", sizes);
    }

    /** Everything that a message can carry comes back as it was sent. */
    static Map<String, Object> properties(Amqp scene) throws Exception {
        Map<String, Object> headers = new HashMap<>();
        headers.put("text", "text");
        headers.put("int", -7);
        headers.put("long", 1L << 40);
        headers.put("flag", true);
        headers.put("double", 0.5);
        headers.put("octets", new byte[] {0, -1});
        headers.put("time", new Date(1_600_000_000_000L));
        headers.put("nothing", null);
        headers.put("list", List.of(1, "two"));
        headers.put("table", Map.of("inner", "value"));
        BasicProperties sent = new BasicProperties.Builder()
                .contentType("application/json").contentEncoding("identity").deliveryMode(2).priority(3)
                .correlationId("correlation").replyTo("reply").expiration("60000").messageId("message").type("type")
                .timestamp(new Date(1_700_000_000_000L)).userId("guest").appId("application").headers(headers).build();
        String queue = scene.queue(scene.name);
        scene.channel.basicPublish("", queue, sent, "{}".getBytes());
        Delivery delivery = Amqp.next(Amqp.consumed(scene.channel, queue, true));
        BasicProperties got = delivery.getProperties();
        boolean equal = plain(got.getHeaders()).equals(plain(headers))
                && got.builder().headers(null).build().equals(sent.builder().headers(null).build());
        scene.channel.queueDelete(queue);
        return Map.of("equal", equal);
    }

    /** A value of a header such that equal ones are equal: the client has types of its own for strings and octets. */
    private static Object plain(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> copy = new HashMap<>();
            map.forEach((key, inner) -> copy.put(key, plain(inner)));
            return copy;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Guarantees::plain).toList();
        }
        if (value instanceof byte[] octets) {
            List<Object> copy = new ArrayList<>();
            for (byte octet : octets) {
                copy.add(octet);
            }
            return copy;
        }
        return value instanceof LongString text ? text.toString() : value;
    }

    /** Idle for several intervals: the client's own watch over the broker's heartbeats does not end the connection. */
    static Map<String, Object> heartbeats(Amqp scene) throws Exception {
        scene.factory.setRequestedHeartbeat(2);
        scene.factory.setAutomaticRecoveryEnabled(false);
        try (Connection connection = scene.factory.newConnection()) {
            Amqp idle = new Amqp(scene.factory, connection, scene.name);
            String queue = idle.channel.queueDeclare().getQueue();
            Thread.sleep(9_000);
            boolean open = connection.isOpen();
            idle.publish("", queue, "still there");
            return Map.of("interval", connection.getHeartbeat(), "open", open, "received", idle.texts(queue, 1));
        }
    }
}
