package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** How Apache's consumers divide queues: the strategies by name, and each member's share. */
final class Allocations {
    private Allocations() {
    }

    static void addTo(Map<String, Driver.Operation> operations) {
        operations.put("shares", Allocations::shares);
    }

    /**
     * {@code strategy} as below, {@code queues} and {@code clients} in any order: each client's queues, in the order of
     * the clients given. Both are sorted first, as Apache's rebalance does.
     */
    private static Object shares(JSONObject args) {
        AllocateMessageQueueStrategy strategy = strategy(args);
        List<MessageQueue> queues = Messages.readQueues(args.getJSONArray("queues"));
        queues.sort(null);
        List<String> clients = args.getJSONArray("clients").toJavaList(String.class);
        List<String> sorted = new ArrayList<>(clients);
        sorted.sort(null);
        JSONArray shares = new JSONArray();
        for (String client : clients) {
            shares.add(Messages.writeQueues(strategy.allocate("group", client, queues, sorted)));
        }
        return shares;
    }

    /**
     * The one named by {@code strategy}: average (also if there is none), circle, hash, config (with {@code fixed}
     * queues), room (with {@code rooms}); nearby-x divides by x in each room, where names of brokers and clients begin
     * with their room and an at sign.
     */
    static AllocateMessageQueueStrategy strategy(JSONObject args) {
        String name = args.containsKey("strategy") ? args.getString("strategy") : "average";
        if (name.startsWith("nearby-")) {
            return new AllocateMachineRoomNearby(named(name.substring("nearby-".length()), args), new Rooms());
        }
        return named(name, args);
    }

    private static AllocateMessageQueueStrategy named(String name, JSONObject args) {
        switch (name) {
            case "average":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "hash":
                return new AllocateMessageQueueConsistentHash();
            case "config":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(Messages.readQueues(args.getJSONArray("fixed")));
                return config;
            case "room":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>(args.getJSONArray("rooms").toJavaList(String.class)));
                return room;
            default:
                throw new IllegalArgumentException("no strategy " + name);
        }
    }

    private static final class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        @Override
        public String consumerDeployIn(String client) {
            return client.split("@")[0];
        }
    }
}
