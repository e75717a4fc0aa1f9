package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers: they record what they get, and fail or dawdle as the test wishes. */
final class PushConsumers {
    private final Handles handles;

    private PushConsumers(Handles handles) {
        this.handles = handles;
    }

    static void addTo(Map<String, Driver.Operation> operations, Handles handles) {
        PushConsumers consumers = new PushConsumers(handles);
        operations.put("push_consumer", consumers::start);
        operations.put("received", consumers::received);
        operations.put("behave", consumers::behave);
        operations.put("assignment", consumers::assignment);
        operations.put("rebalance", consumers::rebalance);
        operations.put("consumed_offset", consumers::consumedOffset);
    }

    /**
     * {@code group}, {@code subscriptions} (list of {@code topic} with {@code tags} or {@code sql}), {@code model}
     * (CLUSTERING, BROADCASTING), {@code orderly}, {@code from} (last, first, or yyyyMMddHHmmss), {@code behaviour} as
     * in {@link Behaviour}, {@code trace}, {@code strategy} as in {@link Allocations}.
     */
    private Object start(JSONObject args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.getString("namespace"), args.getString("group"),
            Handles.signing(args), Allocations.strategy(args), args.getBooleanValue("trace"), null);
        Handles.configure(consumer, args);
        if (args.containsKey("model")) {
            consumer.setMessageModel(MessageModel.valueOf(args.getString("model")));
        }
        startFrom(consumer, args.getString("from"));
        JSONArray subscriptions = args.getJSONArray("subscriptions");
        for (int at = 0; at < subscriptions.size(); at++) {
            JSONObject subscription = subscriptions.getJSONObject(at);
            if (subscription.containsKey("sql")) {
                consumer.subscribe(subscription.getString("topic"), MessageSelector.bySql(subscription.getString("sql")));
            } else {
                consumer.subscribe(subscription.getString("topic"), tags(subscription));
            }
        }
        Listener listener = new Listener(args.getJSONObject("behaviour"));
        if (args.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                Behaviour now = listener.take(messages);
                if (now.suspendMs != null) {
                    context.setSuspendCurrentQueueTimeMillis(now.suspendMs);
                }
                return listener.consume(messages, now) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                Behaviour now = listener.take(messages);
                if (now.delayLevel != null) {
                    context.setDelayLevelWhenNextConsume(now.delayLevel);
                }
                return listener.consume(messages, now) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        return handles.add(args, consumer, listener, consumer::shutdown);
    }

    static String tags(JSONObject subscription) {
        return subscription.containsKey("tags") ? subscription.getString("tags") : "*";
    }

    private static void startFrom(DefaultMQPushConsumer consumer, String from) {
        if (from == null || from.equals("last")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        } else if (from.equals("first")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        } else {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
            consumer.setConsumeTimestamp(from);
        }
    }

    /** Messages from number {@code since} on, as soon as {@code at_least} have come in all or {@code timeout_ms} is over. */
    private Object received(JSONObject args) throws Exception {
        return handles.state(args, Listener.class).recorder.waitFor(
            args.getIntValue("since"), args.getIntValue("at_least"), args.getLongValue("timeout_ms"));
    }

    private Object behave(JSONObject args) {
        handles.state(args, Listener.class).behaviour = new Behaviour(args.getJSONObject("behaviour"));
        return null;
    }

    /** The queues this consumer reads now. */
    private Object assignment(JSONObject args) {
        return Messages.writeQueues(handles.client(args, DefaultMQPushConsumer.class)
            .getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet());
    }

    private Object rebalance(JSONObject args) {
        MQClientInstance instance = handles.client(args, DefaultMQPushConsumer.class)
            .getDefaultMQPushConsumerImpl().getmQClientFactory();
        instance.updateTopicRouteInfoFromNameServer();
        instance.sendHeartbeatToAllBrokerWithLock();
        instance.rebalanceImmediately();
        return null;
    }

    /** The group's offset of a {@code queue}, from where it is kept: the broker, or a file when broadcasting. */
    private Object consumedOffset(JSONObject args) throws Exception {
        DefaultMQPushConsumer consumer = handles.client(args, DefaultMQPushConsumer.class);
        MessageQueue queue = Messages.readQueue(args.getJSONObject("queue"));
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        if (consumer.getMessageModel() == MessageModel.BROADCASTING) {
            return consumer.getDefaultMQPushConsumerImpl().getOffsetStore()
                .readOffset(queue, ReadOffsetType.READ_FROM_STORE);
        }
        // Not by the consumer's own offset store: that would take what the broker says for its own, and forget what was
        // consumed while it asked.
        MQClientInstance instance = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
        header.setConsumerGroup(consumer.getConsumerGroup());
        header.setTopic(queue.getTopic());
        header.setQueueId(queue.getQueueId());
        return instance.getMQClientAPIImpl()
            .queryConsumerOffset(instance.findBrokerAddressInPublish(queue.getBrokerName()), header, 5_000);
    }

    /** How the listener acts; every field may be absent. */
    private static final class Behaviour {
        final int failTimes;            // attempts that fail before a message is consumed
        final String failText;          // only messages whose body has this text fail
        final boolean failByThrowing;
        final long delayMs;             // how long consuming takes
        final Integer delayLevel;       // asked for when consuming fails
        final Long suspendMs;           // the same, for an orderly consumer
        final String replyProducer;     // handle of the producer that answers requests
        final String replyText;

        Behaviour(JSONObject given) {
            JSONObject args = given != null ? given : new JSONObject();
            failTimes = args.getIntValue("fail_times");
            failText = args.containsKey("fail_text") ? args.getString("fail_text") : "";
            failByThrowing = args.getBooleanValue("fail_by_throwing");
            delayMs = args.getLongValue("delay_ms");
            delayLevel = args.getInteger("delay_level");
            suspendMs = args.getLong("suspend_ms");
            replyProducer = args.getString("reply_producer");
            replyText = args.getString("reply_text");
        }
    }

    private final class Listener {
        final Recorder recorder = new Recorder();
        volatile Behaviour behaviour;

        Listener(JSONObject behaviour) {
            this.behaviour = new Behaviour(behaviour);
        }

        Behaviour take(List<MessageExt> messages) {
            Behaviour now = behaviour;
            for (MessageExt message : messages) {
                JSONObject entry = Messages.write(message);
                entry.put("received_ms", System.currentTimeMillis());
                entry.put("thread", Thread.currentThread().getName());
                entry.put("batch", messages.size());
                recorder.add(entry);
            }
            return now;
        }

        boolean consume(List<MessageExt> messages, Behaviour now) {
            boolean failed = false;
            try {
                Thread.sleep(now.delayMs);
                for (MessageExt message : messages) {
                    String text = new String(message.getBody(), StandardCharsets.UTF_8);
                    failed |= message.getReconsumeTimes() < now.failTimes && text.contains(now.failText);
                    if (now.replyProducer != null) {
                        ((DefaultMQProducer) handles.get(now.replyProducer).client).send(
                            MessageUtil.createReplyMessage(message, now.replyText.getBytes(StandardCharsets.UTF_8)));
                    }
                }
            } catch (Exception broken) {
                throw new IllegalStateException(broken);
            }
            if (failed && now.failByThrowing) {
                throw new IllegalStateException("asked to fail");
            }
            return !failed;
        }
    }
}
