import java.util.Set;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Asks a broker what the admin client of Apache RocketMQ 5 asks beyond that of 4.9, and prints the answers, one a line.
 * Run from its source: {@code java -cp ... AskAsRelease5.java <name server> <broker>}.
 */
public final class AskAsRelease5 {
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
        admin.setNamesrvAddr(args[0]);
        admin.start();
        try {
            ask(admin, args[1]);
        } finally {
            admin.shutdown();
        }
        System.exit(0);
    }

    private static void ask(DefaultMQAdminExt admin, String broker) throws Exception {
        admin.createAndUpdateTopicConfig(broker, new TopicConfig("Orders", 3, 2, 6));
        admin.createAndUpdateTopicConfig(broker, new TopicConfig("%RETRY%billing", 1, 1, 6));
        SubscriptionGroupConfig billing = new SubscriptionGroupConfig();
        billing.setGroupName("billing");
        billing.setRetryMaxTimes(5);
        admin.createAndUpdateSubscriptionGroupConfig(broker, billing);
        admin.updateConsumeOffset(broker, "billing",
            new org.apache.rocketmq.common.message.MessageQueue("Orders", "any", 0), 0);

        TopicConfig topic = admin.examineTopicConfig(broker, "Orders");
        print("topic", topic.getTopicName(), topic.getReadQueueNums(), topic.getWriteQueueNums(), topic.getPerm());
        SubscriptionGroupConfig group = admin.examineSubscriptionGroupConfig(broker, "billing");
        print("group", group.getGroupName(), group.getRetryMaxTimes(), group.isConsumeEnable());
        Set<String> topics = admin.queryTopicsByConsumer("billing").getTopicList();
        print("topics", topics.contains("Orders"));
        print("subscription", admin.querySubscription("billing", "Orders"));
    }

    private static void print(String what, Object... values) {
        StringBuilder line = new StringBuilder("> ").append(what);
        for (Object value : values) {
            line.append(' ').append(value);
        }
        System.out.println(line);
    }
}
