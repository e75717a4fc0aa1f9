package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** The two consumers that ask: the old pull consumer, queue by queue, and the lite one, by polling. */
final class PullConsumers {
    private final Handles handles;

    private PullConsumers(Handles handles) {
        this.handles = handles;
    }

    static void addTo(Map<String, Driver.Operation> operations, Handles handles) {
        PullConsumers consumers = new PullConsumers(handles);
        operations.put("pull_consumer", consumers::startPull);
        operations.put("pull", consumers::pull);
        operations.put("subscribe_queues", consumers::subscribeQueues);
        operations.put("fetch_offset", consumers::fetchOffset);
        operations.put("update_offset", consumers::updateOffset);
        operations.put("lite_consumer", consumers::startLite);
        operations.put("poll", consumers::poll);
        operations.put("lite_queues", consumers::liteQueues);
        operations.put("lite_assignment", args -> Messages.writeQueues(consumers.lite(args).assignment()));
        operations.put("seek", consumers::seek);
        operations.put("pause", args -> {
            consumers.lite(args).pause(Messages.readQueues(args.getJSONArray("queues")));
            return null;
        });
        operations.put("resume", args -> {
            consumers.lite(args).resume(Messages.readQueues(args.getJSONArray("queues")));
            return null;
        });
        operations.put("commit", consumers::commit);
        operations.put("committed", args -> consumers.lite(args).committed(Messages.readQueue(args.getJSONObject("queue"))));
        operations.put("offset_for_time", args -> consumers.lite(args).offsetForTimestamp(
            Messages.readQueue(args.getJSONObject("queue")), args.getLong("time_ms")));
    }

    private Object startPull(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(
            args.getString("namespace"), args.getString("group"), Handles.signing(args));
        Handles.configure(consumer, args);
        if (args.containsKey("model")) {
            consumer.setMessageModel(MessageModel.valueOf(args.getString("model")));
        }
        consumer.start();
        return handles.add(args, consumer, null, consumer::shutdown);
    }

    /** One pull of a {@code queue} from {@code offset}: at most {@code max}, by {@code tags} or {@code sql}, held if {@code block}. */
    private Object pull(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = handles.client(args, DefaultMQPullConsumer.class);
        MessageQueue queue = Messages.readQueue(args.getJSONObject("queue"));
        long offset = args.getLongValue("offset");
        int max = args.containsKey("max") ? args.getIntValue("max") : 32;
        PullResult result;
        if (args.getBooleanValue("block")) {
            result = consumer.pullBlockIfNotFound(queue, PushConsumers.tags(args), offset, max);
        } else if (args.containsKey("sql")) {
            result = consumer.pull(queue, MessageSelector.bySql(args.getString("sql")), offset, max);
        } else {
            result = consumer.pull(queue, PushConsumers.tags(args), offset, max);
        }
        JSONObject entry = new JSONObject(true);
        entry.put("status", result.getPullStatus().name());
        entry.put("next_offset", result.getNextBeginOffset());
        entry.put("min_offset", result.getMinOffset());
        entry.put("max_offset", result.getMaxOffset());
        entry.put("messages", Messages.write(result.getMsgFoundList()));
        return entry;
    }

    private Object subscribeQueues(JSONObject args) throws Exception {
        return Messages.writeQueues(handles.client(args, DefaultMQPullConsumer.class)
            .fetchSubscribeMessageQueues(args.getString("topic")));
    }

    private Object fetchOffset(JSONObject args) throws Exception {
        return handles.client(args, DefaultMQPullConsumer.class)
            .fetchConsumeOffset(Messages.readQueue(args.getJSONObject("queue")), true);
    }

    private Object updateOffset(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = handles.client(args, DefaultMQPullConsumer.class);
        MessageQueue queue = Messages.readQueue(args.getJSONObject("queue"));
        consumer.updateConsumeOffset(queue, args.getLongValue("offset"));
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persistAll(Collections.singleton(queue));
        return null;
    }

    /** {@code group} and either {@code subscriptions} or {@code queues}; {@code from} last or first. */
    private Object startLite(JSONObject args) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(
            args.getString("namespace"), args.getString("group"), Handles.signing(args));
        Handles.configure(consumer, args);
        if (args.containsKey("model")) {
            consumer.setMessageModel(MessageModel.valueOf(args.getString("model")));
        }
        if ("first".equals(args.getString("from"))) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
        JSONArray subscriptions = args.getJSONArray("subscriptions");
        for (int at = 0; subscriptions != null && at < subscriptions.size(); at++) {
            JSONObject subscription = subscriptions.getJSONObject(at);
            if (subscription.containsKey("sql")) {
                consumer.subscribe(subscription.getString("topic"), MessageSelector.bySql(subscription.getString("sql")));
            } else {
                consumer.subscribe(subscription.getString("topic"), PushConsumers.tags(subscription));
            }
        }
        consumer.start();
        try {
            if (args.containsKey("queues")) {
                consumer.assign(Messages.readQueues(args.getJSONArray("queues")));
            }
            return handles.add(args, consumer, null, consumer::shutdown);
        } catch (RuntimeException refused) {
            consumer.shutdown();
            throw refused;
        }
    }

    private DefaultLitePullConsumer lite(JSONObject args) {
        return handles.client(args, DefaultLitePullConsumer.class);
    }

    /** Polls until {@code at_least} messages (1 if absent) have come or {@code timeout_ms} is over. */
    private Object poll(JSONObject args) {
        int atLeast = args.containsKey("at_least") ? args.getIntValue("at_least") : 1;
        long end = System.currentTimeMillis() + args.getLongValue("timeout_ms");
        JSONArray all = new JSONArray();
        do {
            long leftMs = Math.max(1, Math.min(500, end - System.currentTimeMillis()));
            all.addAll(Messages.write(lite(args).poll(leftMs)));
        } while (all.size() < atLeast && System.currentTimeMillis() < end);
        return all;
    }

    private Object liteQueues(JSONObject args) throws Exception {
        return Messages.writeQueues(lite(args).fetchMessageQueues(args.getString("topic")));
    }

    /** {@code queue} to {@code offset}, or {@code to} begin or end. */
    private Object seek(JSONObject args) throws Exception {
        MessageQueue queue = Messages.readQueue(args.getJSONObject("queue"));
        if ("begin".equals(args.getString("to"))) {
            lite(args).seekToBegin(queue);
        } else if ("end".equals(args.getString("to"))) {
            lite(args).seekToEnd(queue);
        } else {
            lite(args).seek(queue, args.getLongValue("offset"));
        }
        return null;
    }

    /** Commits {@code offsets} (list of {@code queue} and {@code offset}), or where polling has come to. */
    private Object commit(JSONObject args) {
        JSONArray given = args.getJSONArray("offsets");
        if (given == null) {
            lite(args).commitSync();
            return null;
        }
        Map<MessageQueue, Long> offsets = new HashMap<>();
        for (int at = 0; at < given.size(); at++) {
            JSONObject entry = given.getJSONObject(at);
            offsets.put(Messages.readQueue(entry.getJSONObject("queue")), entry.getLong("offset"));
        }
        lite(args).commitSync(offsets, true);
        return null;
    }
}
