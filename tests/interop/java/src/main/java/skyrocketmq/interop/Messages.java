package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.common.RemotingHelper;

/** Messages, queues and results, from JSON and to JSON. */
final class Messages {
    private Messages() {
    }

    /**
     * Messages to send. Each entry has {@code topic} and one of {@code text}, {@code body} (base64) or {@code fill} (a
     * text repeated up to {@code bytes}), and optionally {@code tags}, {@code keys}, {@code properties}, {@code flag},
     * {@code delay_level}, {@code wait_store_ok}; an entry with {@code count} stands for so many messages, in whose
     * texts, tags and keys {@code {i}} is the number.
     */
    static List<Message> read(JSONArray entries) {
        List<Message> messages = new ArrayList<>();
        for (int at = 0; at < entries.size(); at++) {
            JSONObject entry = entries.getJSONObject(at);
            int count = entry.containsKey("count") ? entry.getIntValue("count") : 1;
            for (int number = 0; number < count; number++) {
                messages.add(read(entry, number));
            }
        }
        return messages;
    }

    static Message read(JSONObject entry, int number) {
        Message message = new Message(entry.getString("topic"), body(entry, number));
        if (entry.containsKey("tags")) {
            message.setTags(numbered(entry.getString("tags"), number));
        }
        if (entry.containsKey("keys")) {
            message.setKeys(numbered(entry.getString("keys"), number));
        }
        if (entry.containsKey("flag")) {
            message.setFlag(entry.getIntValue("flag"));
        }
        if (entry.containsKey("delay_level")) {
            message.setDelayTimeLevel(entry.getIntValue("delay_level"));
        }
        if (entry.containsKey("wait_store_ok")) {
            message.setWaitStoreMsgOK(entry.getBooleanValue("wait_store_ok"));
        }
        JSONObject properties = entry.getJSONObject("properties");
        if (properties != null) {
            properties.keySet().forEach(key -> message.putUserProperty(key, properties.getString(key)));
        }
        return message;
    }

    private static byte[] body(JSONObject entry, int number) {
        if (entry.containsKey("text")) {
            return numbered(entry.getString("text"), number).getBytes(StandardCharsets.UTF_8);
        }
        if (entry.containsKey("body")) {
            return Base64.getDecoder().decode(entry.getString("body"));
        }
        byte[] pattern = numbered(entry.getString("fill"), number).getBytes(StandardCharsets.UTF_8);
        byte[] body = new byte[entry.getIntValue("bytes")];
        for (int at = 0; at < body.length; at++) {
            body[at] = pattern[at % pattern.length];
        }
        return body;
    }

    private static String numbered(String text, int number) {
        return text.replace("{i}", Integer.toString(number));
    }

    static MessageQueue readQueue(JSONObject queue) {
        return new MessageQueue(queue.getString("topic"), queue.getString("broker"), queue.getIntValue("queue_id"));
    }

    static List<MessageQueue> readQueues(JSONArray queues) {
        List<MessageQueue> list = new ArrayList<>();
        for (int at = 0; at < queues.size(); at++) {
            list.add(readQueue(queues.getJSONObject(at)));
        }
        return list;
    }

    static JSONObject write(MessageQueue queue) {
        JSONObject entry = new JSONObject(true);
        entry.put("topic", queue.getTopic());
        entry.put("broker", queue.getBrokerName());
        entry.put("queue_id", queue.getQueueId());
        return entry;
    }

    static JSONArray writeQueues(Collection<MessageQueue> queues) {
        JSONArray list = new JSONArray();
        queues.stream().sorted().forEach(queue -> list.add(write(queue)));
        return list;
    }

    static JSONObject write(SendResult result) {
        JSONObject entry = new JSONObject(true);
        entry.put("status", result.getSendStatus().name());
        entry.put("msg_id", result.getMsgId());
        entry.put("offset_msg_id", result.getOffsetMsgId());
        entry.put("queue", result.getMessageQueue() == null ? null : write(result.getMessageQueue()));
        entry.put("queue_offset", result.getQueueOffset());
        entry.put("transaction_id", result.getTransactionId());
        if (result instanceof TransactionSendResult) {
            entry.put("local_state", ((TransactionSendResult) result).getLocalTransactionState().name());
        }
        return entry;
    }

    static JSONObject write(MessageExt message) {
        JSONObject entry = new JSONObject(true);
        byte[] body = message.getBody();
        entry.put("topic", message.getTopic());
        entry.put("body", Base64.getEncoder().encodeToString(body == null ? new byte[0] : body));
        entry.put("tags", message.getTags());
        entry.put("keys", message.getKeys());
        entry.put("properties", message.getProperties());
        entry.put("flag", message.getFlag());
        // The reply to a request never was in a store, and has no id.
        entry.put("msg_id", message.getMsgId() == null ? "" : message.getMsgId());
        entry.put("offset_msg_id",
            message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId());
        entry.put("broker", message.getBrokerName());
        entry.put("queue_id", message.getQueueId());
        entry.put("queue_offset", message.getQueueOffset());
        entry.put("log_offset", message.getCommitLogOffset());
        entry.put("born_ms", message.getBornTimestamp());
        entry.put("store_ms", message.getStoreTimestamp());
        entry.put("born_host", RemotingHelper.parseSocketAddressAddr(message.getBornHost()));
        entry.put("store_host", RemotingHelper.parseSocketAddressAddr(message.getStoreHost()));
        entry.put("reconsume_times", message.getReconsumeTimes());
        entry.put("sys_flag", message.getSysFlag());
        entry.put("body_crc", message.getBodyCRC());
        entry.put("store_size", message.getStoreSize());
        return entry;
    }

    static JSONArray write(Collection<MessageExt> messages) {
        JSONArray list = new JSONArray();
        if (messages != null) {
            messages.forEach(message -> list.add(write(message)));
        }
        return list;
    }
}
