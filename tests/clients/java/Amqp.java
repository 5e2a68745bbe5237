import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * What users of the Java client do first. `Amqp SCENARIO URL NAME` runs one scenario, with NAME before the names of all
 * that it declares, and prints what it saw as one line of JSON.
 */
final class Amqp {
    static final int PATIENCE_SECONDS = 30;

    interface Scenario {
        Map<String, Object> run(Amqp scene) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = Map.ofEntries(
            Map.entry("hello", Tutorials::hello),
            Map.entry("work_queues", Tutorials::workQueues),
            Map.entry("publish_subscribe", Tutorials::publishSubscribe),
            Map.entry("routing", Tutorials::routing),
            Map.entry("topics", Tutorials::topics),
            Map.entry("rpc", Tutorials::rpc),
            Map.entry("confirms", Guarantees::confirms),
            Map.entry("errors", Guarantees::errors),
            Map.entry("bodies", Guarantees::bodies),
            Map.entry("properties", Guarantees::properties),
            Map.entry("heartbeats", Guarantees::heartbeats),
            Map.entry("get", Channels::get),
            Map.entry("transactions", Channels::transactions),
            Map.entry("cancelled", Channels::cancelled),
            Map.entry("closed", Channels::closed));

    final ConnectionFactory factory;
    final Connection connection;
    final Channel channel;
    final String name;

    Amqp(ConnectionFactory factory, Connection connection, String name) throws Exception {
        this.factory = factory;
        this.connection = connection;
        this.channel = connection.createChannel();
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(arguments[1]);
        if (arguments[0].equals("recovery")) {
            Json.print(Recovery.run(factory, arguments[2]));
            return;
        }
        try (Connection connection = factory.newConnection()) {
            Json.print(SCENARIOS.get(arguments[0]).run(new Amqp(factory, connection, arguments[2])));
        }
    }

    String queue(String queue) throws Exception {
        return channel.queueDeclare(queue, false, false, false, null).getQueue();
    }

    /** A queue that the broker names and that goes with the connection, bound by some keys. */
    String bound(String exchange, String... keys) throws Exception {
        String queue = channel.queueDeclare().getQueue();
        for (String key : keys) {
            channel.queueBind(queue, exchange, key);
        }
        return queue;
    }

    void publish(String exchange, String key, String body) throws Exception {
        channel.basicPublish(exchange, key, null, body.getBytes());
    }

    static BlockingQueue<Delivery> consumed(Channel channel, String queue, boolean autoAck) throws Exception {
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, autoAck, (tag, delivery) -> deliveries.add(delivery), tag -> {});
        return deliveries;
    }

    static Delivery next(BlockingQueue<Delivery> deliveries) throws Exception {
        Delivery delivery = deliveries.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (delivery == null) {
            throw new IllegalStateException("no delivery came");
        }
        return delivery;
    }

    /** The bodies of the next messages of a queue. */
    List<String> texts(String queue, int count) throws Exception {
        BlockingQueue<Delivery> deliveries = consumed(channel, queue, true);
        List<String> seen = new ArrayList<>();
        while (seen.size() < count) {
            seen.add(new String(next(deliveries).getBody()));
        }
        return seen;
    }
}
