import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.MessageProperties;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;

/** RabbitMQ's six tutorials. */
final class Tutorials {
    private Tutorials() {}

    static Map<String, Object> hello(Amqp scene) throws Exception {
        String queue = scene.queue(scene.name);
        scene.publish("", queue, "Hello World!");
        List<String> received = scene.texts(queue, 1);
        scene.channel.queueDelete(queue);
        return Map.of("received", received);
    }

    /** The first worker takes one task and ends without an acknowledgement; the second does everything. */
    static Map<String, Object> workQueues(Amqp scene) throws Exception {
        scene.channel.queueDeclare(scene.name, true, false, false, null);
        Channel first = worker(scene);
        BlockingQueue<Delivery> held = Amqp.consumed(first, scene.name, false);
        for (int number = 0; number < 6; number++) {
            byte[] task = ("task " + number).getBytes();
            scene.channel.basicPublish("", scene.name, MessageProperties.PERSISTENT_TEXT_PLAIN, task);
        }
        String holding = new String(Amqp.next(held).getBody());
        Channel second = worker(scene);
        BlockingQueue<Delivery> tasks = Amqp.consumed(second, scene.name, false);
        List<String> done = new ArrayList<>();
        List<String> redelivered = new ArrayList<>();
        while (done.size() < 6) {
            Delivery task = Amqp.next(tasks);
            done.add(new String(task.getBody()));
            if (task.getEnvelope().isRedeliver()) {
                redelivered.add(new String(task.getBody()));
            }
            second.basicAck(task.getEnvelope().getDeliveryTag(), false);
            if (done.size() == 5) {
                first.close();
            }
        }
        scene.channel.queueDelete(scene.name);
        return Map.of("held", holding, "done", done, "redelivered", redelivered);
    }

    private static Channel worker(Amqp scene) throws Exception {
        Channel channel = scene.connection.createChannel();
        channel.basicQos(1);
        return channel;
    }

    static Map<String, Object> publishSubscribe(Amqp scene) throws Exception {
        declare(scene, BuiltinExchangeType.FANOUT);
        String first = scene.bound(scene.name, "");
        String second = scene.bound(scene.name, "");
        scene.publish(scene.name, "", "info: one");
        scene.publish(scene.name, "", "info: two");
        return Map.of("first", scene.texts(first, 2), "second", scene.texts(second, 2));
    }

    static Map<String, Object> routing(Amqp scene) throws Exception {
        declare(scene, BuiltinExchangeType.DIRECT);
        String all = scene.bound(scene.name, "info", "warning", "error");
        String errors = scene.bound(scene.name, "error");
        for (String severity : List.of("info", "error", "debug", "warning")) {
            scene.publish(scene.name, severity, severity);
        }
        return Map.of("all", scene.texts(all, 3), "errors", scene.texts(errors, 1));
    }

    static Map<String, Object> topics(Amqp scene) throws Exception {
        declare(scene, BuiltinExchangeType.TOPIC);
        String all = scene.bound(scene.name, "#");
        String kernel = scene.bound(scene.name, "kern.*");
        String critical = scene.bound(scene.name, "*.critical");
        for (String key : List.of("kern.info", "cron.critical", "kern.critical", "kern", "a.b.critical")) {
            scene.publish(scene.name, key, key);
        }
        return Map.of(
                "all", scene.texts(all, 5), "kernel", scene.texts(kernel, 2), "critical", scene.texts(critical, 2));
    }

    /** An exchange that goes with the last queue that is bound to it. */
    private static void declare(Amqp scene, BuiltinExchangeType type) throws Exception {
        scene.channel.exchangeDeclare(scene.name, type, false, true, null);
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    static Map<String, Object> rpc(Amqp scene) throws Exception {
        String queue = scene.queue(scene.name);
        Channel server = scene.connection.createChannel();
        server.basicConsume(queue, false, (tag, request) -> {
            BasicProperties asked = request.getProperties();
            BasicProperties answer = new BasicProperties.Builder().correlationId(asked.getCorrelationId()).build();
            int number = Integer.parseInt(new String(request.getBody()));
            server.basicPublish("", asked.getReplyTo(), answer, String.valueOf(fibonacci(number)).getBytes());
            server.basicAck(request.getEnvelope().getDeliveryTag(), false);
        }, tag -> {});
        Map<String, Object> answers = Map.of(
                "queue", calls(scene, queue, scene.channel.queueDeclare().getQueue()),
                "direct", calls(scene, queue, "amq.rabbitmq.reply-to"));
        scene.channel.queueDelete(queue);
        return answers;
    }

    private static List<String> calls(Amqp scene, String queue, String replyTo) throws Exception {
        Channel client = scene.connection.createChannel();
        BlockingQueue<Delivery> replies = Amqp.consumed(client, replyTo, true);
        List<String> answers = new ArrayList<>();
        for (int number = 0; number < 6; number++) {
            BasicProperties request =
                    new BasicProperties.Builder().correlationId("call " + number).replyTo(replyTo).build();
            client.basicPublish("", queue, request, String.valueOf(number).getBytes());
            Delivery reply = Amqp.next(replies);
            answers.add(reply.getProperties().getCorrelationId() + ": " + new String(reply.getBody()));
        }
        return answers;
    }
}
