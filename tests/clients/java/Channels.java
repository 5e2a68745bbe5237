import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What happens to channels and consumers: fetched messages, transactions, cancellations, closes. */
final class Channels {
    private Channels() {}

    private static String text(GetResponse message) {
        return new String(message.getBody());
    }

    /** Single messages are fetched, given back, acknowledged. */
    static Map<String, Object> get(Amqp scene) throws Exception {
        Channel channel = scene.channel;
        String queue = scene.queue(scene.name);
        scene.publish("", queue, "one");
        scene.publish("", queue, "two");
        GetResponse first = channel.basicGet(queue, false);
        channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
        GetResponse again = channel.basicGet(queue, false);
        channel.basicAck(again.getEnvelope().getDeliveryTag(), false);
        GetResponse second = channel.basicGet(queue, true);
        boolean empty = channel.basicGet(queue, true) == null;
        scene.publish("", queue, "three");
        int purged = channel.queuePurge(queue).getMessageCount();
        channel.queueDelete(queue);
        return Map.of(
                "first", List.of(text(first), first.getMessageCount()),
                "again", List.of(text(again), again.getEnvelope().isRedeliver()),
                "second", text(second),
                "empty", empty,
                "purged", purged);
    }

    static Map<String, Object> transactions(Amqp scene) throws Exception {
        Channel channel = scene.channel;
        String queue = scene.queue(scene.name);
        channel.txSelect();
        scene.publish("", queue, "rolled back");
        channel.txRollback();
        scene.publish("", queue, "committed");
        channel.txCommit();
        GetResponse message = channel.basicGet(queue, false);
        channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        channel.txCommit();
        return Map.of("received", text(message), "left", channel.queueDelete(queue).getMessageCount());
    }

    /** A consumer is told that its queue is gone. */
    static Map<String, Object> cancelled(Amqp scene) throws Exception {
        String queue = scene.queue(scene.name);
        CountDownLatch told = new CountDownLatch(1);
        scene.channel.basicConsume(queue, true, (tag, delivery) -> {}, tag -> told.countDown());
        scene.connection.createChannel().queueDelete(queue);
        return Map.of("cancelled", told.await(Amqp.PATIENCE_SECONDS, TimeUnit.SECONDS));
    }

    /** A message for an exchange that is not there closes the channel, some time after it was published. */
    static Map<String, Object> closed(Amqp scene) throws Exception {
        CompletableFuture<AMQP.Channel.Close> told = new CompletableFuture<>();
        scene.channel.addShutdownListener(cause -> told.complete((AMQP.Channel.Close) cause.getReason()));
        scene.publish(scene.name + "-gone", "", "lost");
        AMQP.Channel.Close close = told.get(Amqp.PATIENCE_SECONDS, TimeUnit.SECONDS);
        return Map.of("closed", List.of(close.getReplyCode(), close.getReplyText().replace(scene.name, "NAME")));
    }
}
