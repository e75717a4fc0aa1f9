package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Producers: sync, async, one-way, batch, to a queue, by a sharding key, in a transaction, request and reply. */
final class Producers {
    private static final String COMPRESSION = "rocketmq.message.compressType";

    private final Handles handles;

    private Producers(Handles handles) {
        this.handles = handles;
    }

    static void addTo(Map<String, Driver.Operation> operations, Handles handles) {
        Producers producers = new Producers(handles);
        operations.put("producer", producers::start);
        operations.put("send", producers::send);
        operations.put("send_batch", producers::sendBatch);
        operations.put("send_in_transaction", producers::sendInTransaction);
        operations.put("transaction_checks", producers::transactionChecks);
        operations.put("request", producers::request);
        operations.put("publish_queues", producers::publishQueues);
    }

    /**
     * {@code group}, {@code transactional}, {@code trace}, {@code compression} (ZLIB, LZ4, ZSTD); else as in
     * {@link Handles#configure}.
     */
    private Object start(JSONObject args) throws Exception {
        Checks checks = new Checks();
        DefaultMQProducer producer = create(args, checks);
        Handles.configure(producer, args);
        producer.start();
        return handles.add(args, producer, checks, producer::shutdown);
    }

    private static synchronized DefaultMQProducer create(JSONObject args, Checks checks) {
        String group = args.getString("group");
        boolean trace = args.getBooleanValue("trace");
        if (args.containsKey("compression")) {
            System.setProperty(COMPRESSION, args.getString("compression"));  // read by a producer when it is made
        }
        try {
            if (!args.getBooleanValue("transactional")) {
                return new DefaultMQProducer(args.getString("namespace"), group, Handles.signing(args), trace, null);
            }
            TransactionMQProducer transactional =
                new TransactionMQProducer(args.getString("namespace"), group, Handles.signing(args), trace, null);
            transactional.setTransactionListener(checks);
            return transactional;
        } finally {
            System.clearProperty(COMPRESSION);
        }
    }

    /**
     * {@code messages}, {@code mode} (sync, async, oneway), and at most one of {@code queue} and {@code shard_key}. Gives
     * one result a message, in their order; a failed one has {@code error} instead of a status if {@code keep_going}.
     */
    private Object send(JSONObject args) throws Exception {
        DefaultMQProducer producer = handles.client(args, DefaultMQProducer.class);
        String mode = args.containsKey("mode") ? args.getString("mode") : "sync";
        boolean keepGoing = args.getBooleanValue("keep_going");
        long timeoutMs = args.containsKey("timeout_ms") ? args.getLongValue("timeout_ms") : producer.getSendMsgTimeout();
        MessageQueue queue = args.containsKey("queue") ? Messages.readQueue(args.getJSONObject("queue")) : null;
        String shardKey = args.getString("shard_key");
        List<Message> messages = Messages.read(args.getJSONArray("messages"));
        JSONArray results = new JSONArray();
        if (mode.equals("async")) {
            List<CompletableFuture<SendResult>> pending = new ArrayList<>();
            for (Message message : messages) {
                pending.add(sendLater(producer, message, queue, shardKey, timeoutMs));
            }
            for (CompletableFuture<SendResult> later : pending) {
                results.add(outcome(() -> later.get(timeoutMs + 30_000, TimeUnit.MILLISECONDS), keepGoing));
            }
            return results;
        }
        for (Message message : messages) {
            if (mode.equals("oneway")) {
                sendOneway(producer, message, queue, shardKey);
            } else {
                results.add(outcome(() -> sendNow(producer, message, queue, shardKey, timeoutMs), keepGoing));
            }
        }
        return results;
    }

    private interface Sending {
        SendResult send() throws Exception;
    }

    private static JSONObject outcome(Sending sending, boolean keepGoing) throws Exception {
        Throwable failure;
        try {
            return Messages.write(sending.send());
        } catch (ExecutionException failed) {
            failure = failed.getCause();
        } catch (Exception failed) {
            failure = failed;
        }
        if (!keepGoing) {
            throw failure instanceof Exception ? (Exception) failure : new RuntimeException(failure);
        }
        JSONObject entry = new JSONObject();
        entry.put("error", Driver.describe(failure));
        return entry;
    }

    private static SendResult sendNow(
        DefaultMQProducer producer, Message message, MessageQueue queue, String shardKey, long timeoutMs)
        throws Exception {
        if (queue != null) {
            return producer.send(message, queue, timeoutMs);
        }
        if (shardKey != null) {
            return producer.send(message, new SelectMessageQueueByHash(), shardKey, timeoutMs);
        }
        return producer.send(message, timeoutMs);
    }

    private static void sendOneway(DefaultMQProducer producer, Message message, MessageQueue queue, String shardKey)
        throws Exception {
        if (queue != null) {
            producer.sendOneway(message, queue);
        } else if (shardKey != null) {
            producer.sendOneway(message, new SelectMessageQueueByHash(), shardKey);
        } else {
            producer.sendOneway(message);
        }
    }

    private static CompletableFuture<SendResult> sendLater(
        DefaultMQProducer producer, Message message, MessageQueue queue, String shardKey, long timeoutMs)
        throws Exception {
        CompletableFuture<SendResult> later = new CompletableFuture<>();
        SendCallback callback = callback(later);
        MessageQueueSelector byHash = new SelectMessageQueueByHash();
        if (queue != null) {
            producer.send(message, queue, callback, timeoutMs);
        } else if (shardKey != null) {
            producer.send(message, byHash, shardKey, callback, timeoutMs);
        } else {
            producer.send(message, callback, timeoutMs);
        }
        return later;
    }

    private static SendCallback callback(CompletableFuture<SendResult> later) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                later.complete(result);
            }

            @Override
            public void onException(Throwable failure) {
                later.completeExceptionally(failure);
            }
        };
    }

    /** {@code messages} as one batch, {@code mode} sync or async, optionally to a {@code queue}. */
    private Object sendBatch(JSONObject args) throws Exception {
        DefaultMQProducer producer = handles.client(args, DefaultMQProducer.class);
        List<Message> messages = Messages.read(args.getJSONArray("messages"));
        MessageQueue queue = args.containsKey("queue") ? Messages.readQueue(args.getJSONObject("queue")) : null;
        if ("async".equals(args.getString("mode"))) {
            CompletableFuture<SendResult> later = new CompletableFuture<>();
            if (queue != null) {
                producer.send(messages, queue, callback(later));
            } else {
                producer.send(messages, callback(later));
            }
            return Messages.write(later.get(30, TimeUnit.SECONDS));
        }
        return Messages.write(queue != null ? producer.send(messages, queue) : producer.send(messages));
    }

    /** {@code message}, {@code local}: the state after the local step, {@code checks}: the states answered to checks. */
    private Object sendInTransaction(JSONObject args) throws Exception {
        TransactionMQProducer producer = handles.client(args, TransactionMQProducer.class);
        Checks checks = handles.state(args, Checks.class);
        Message message = Messages.read(args.getJSONObject("message"), 0);
        return Messages.write(producer.sendMessageInTransaction(message, checks.plan(args)));
    }

    /** Every check-back that came, in order: the message and the state it was answered with. */
    private Object transactionChecks(JSONObject args) throws Exception {
        Checks checks = handles.state(args, Checks.class);
        return checks.seen.waitFor(
            args.getIntValue("since"), args.getIntValue("at_least"), args.getLongValue("timeout_ms"));
    }

    /** Sends {@code message} as a request and gives the reply. */
    private Object request(JSONObject args) throws Exception {
        DefaultMQProducer producer = handles.client(args, DefaultMQProducer.class);
        Message reply =
            producer.request(Messages.read(args.getJSONObject("message"), 0), args.getLongValue("timeout_ms"));
        return Messages.write((MessageExt) reply);
    }

    private Object publishQueues(JSONObject args) throws Exception {
        return Messages.writeQueues(
            handles.client(args, DefaultMQProducer.class).fetchPublishMessageQueues(args.getString("topic")));
    }

    /** The plan of each transaction: what the local step gives, and what each check is answered with. */
    private static final class Checks implements TransactionListener {
        private static final String PLAN = "interop_plan";

        final Recorder seen = new Recorder();
        private final Map<String, Queue<LocalTransactionState>> plans = new ConcurrentHashMap<>();

        private LocalTransactionState plan(JSONObject args) {
            String id = args.getJSONObject("message").getJSONObject("properties").getString(PLAN);
            Queue<LocalTransactionState> states = new ArrayDeque<>();
            JSONArray checks = args.getJSONArray("checks");
            for (int at = 0; checks != null && at < checks.size(); at++) {
                states.add(LocalTransactionState.valueOf(checks.getString(at)));
            }
            plans.put(id, states);
            return LocalTransactionState.valueOf(args.getString("local"));
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object state) {
            return (LocalTransactionState) state;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            Queue<LocalTransactionState> states = plans.get(message.getUserProperty(PLAN));
            LocalTransactionState state = LocalTransactionState.UNKNOW;
            if (states != null) {
                synchronized (states) {
                    state = states.isEmpty() ? state : states.remove();
                }
            }
            JSONObject entry = Messages.write(message);
            entry.put("answered", state.name());
            seen.add(entry);
            return state;
        }
    }
}
