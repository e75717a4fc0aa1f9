package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.MQAdmin;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.monitor.DeleteMsgsEvent;
import org.apache.rocketmq.tools.monitor.FailedMsgs;
import org.apache.rocketmq.tools.monitor.MonitorConfig;
import org.apache.rocketmq.tools.monitor.MonitorListener;
import org.apache.rocketmq.tools.monitor.MonitorService;
import org.apache.rocketmq.tools.monitor.UndoneMsgs;

/** What every client can ask about topics, queues and messages, the admin client, and mqadmin itself. */
final class Admins {
    private final Handles handles;

    private Admins(Handles handles) {
        this.handles = handles;
    }

    static void addTo(Map<String, Driver.Operation> operations, Handles handles) {
        Admins admins = new Admins(handles);
        operations.put("admin", admins::start);
        operations.put("invoke", admins::invoke);
        operations.put("mqadmin", admins::mqadmin);
        operations.put("mqadmin_until", admins::mqadminUntil);
        operations.put("monitor", admins::monitor);
        operations.put("create_topic", admins::createTopic);
        operations.put("offsets", admins::offsets);
        operations.put("offset_at", args -> admins.asking(args)
            .searchOffset(Messages.readQueue(args.getJSONObject("queue")), args.getLongValue("time_ms")));
        operations.put("query", admins::query);
        operations.put("view", admins::view);
    }

    private Object start(JSONObject args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Handles.signing(args));
        Handles.configure(admin, args);
        admin.start();
        return handles.add(args, admin, null, admin::shutdown);
    }

    /** Calls {@code method} of a client with {@code arguments}: whatever has no operation of its own. */
    private Object invoke(JSONObject args) throws Exception {
        JSONArray arguments = args.getJSONArray("arguments");
        return Reflection.call(handles.get(args.getString("handle")).client, args.getString("method"),
            arguments != null ? arguments : new JSONArray());
    }

    /**
     * Runs mqadmin with {@code arguments} in this process and gives what it printed. One at a time, since a command
     * prints to the process's standard output and leaves its name server address in a system property. A command line
     * that mqadmin cannot read would end this process; such tests start mqadmin as a process of its own.
     */
    private synchronized Object mqadmin(JSONObject args) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        run(args, printed);
        return printed.toString(StandardCharsets.UTF_8);
    }

    /** The same for a command that never ends by itself: it is interrupted once it has printed all {@code texts}. */
    private synchronized Object mqadminUntil(JSONObject args) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        Thread running = new Thread(() -> {
            try {
                run(args, printed);
            } catch (Exception ended) {
                ended.printStackTrace();
            }
        }, "mqadmin");
        running.start();
        List<String> texts = args.getJSONArray("texts").toJavaList(String.class);
        while (running.isAlive() && !texts.stream().allMatch(printed.toString(StandardCharsets.UTF_8)::contains)) {
            running.join(50);
        }
        while (running.isAlive()) {
            running.interrupt();
            running.join(100);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    private static void run(JSONObject args, ByteArrayOutputStream printed) throws Exception {
        JSONArray arguments = args.getJSONArray("arguments");
        PrintStream out = System.out;
        PrintStream err = System.err;
        PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        try {
            forgetCommands();
            MQAdminStartup.main0(arguments.toJavaList(String.class).toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }

    /** One round of what the command startMonitoring does every minute: what was reported, group by group. */
    private Object monitor(JSONObject args) throws Exception {
        MonitorConfig config = new MonitorConfig();
        config.setNamesrvAddr(args.getString("namesrv"));
        Reports reports = new Reports();
        MonitorService monitor = new MonitorService(config, reports, null);
        monitor.start();
        try {
            monitor.doMonitorWork();
        } finally {
            monitor.shutdown();
        }
        return reports.lines;
    }

    private static final class Reports implements MonitorListener {
        final JSONArray lines = new JSONArray();

        private synchronized void add(String kind, Object what) {
            JSONObject line = new JSONObject(true);
            line.put("kind", kind);
            line.put("what", what);
            lines.add(line);
        }

        @Override
        public void beginRound() {
            add("begin", null);
        }

        @Override
        public void reportUndoneMsgs(UndoneMsgs undone) {
            add("undone", List.of(undone.getConsumerGroup(), undone.getTopic(), undone.getUndoneMsgsTotal()));
        }

        @Override
        public void reportFailedMsgs(FailedMsgs failed) {
            add("failed", failed.getConsumerGroup());
        }

        @Override
        public void reportDeleteMsgsEvent(DeleteMsgsEvent event) {
            add("deleted", String.valueOf(event.getOffsetMovedEvent()));
        }

        @Override
        public void reportConsumerRunningInfo(TreeMap<String, ConsumerRunningInfo> infos) {
            add("running", infos.keySet());
        }

        @Override
        public void endRound() {
            add("end", null);
        }
    }

    /** Some commands keep the client that they have shut down; mqadmin makes them all anew if it knows none. */
    private static void forgetCommands() throws Exception {
        Field commands = MQAdminStartup.class.getDeclaredField("subCommandList");
        commands.setAccessible(true);
        ((List<?>) commands.get(null)).clear();
    }

    private MQAdmin asking(JSONObject args) {
        return handles.client(args, MQAdmin.class);
    }

    private Object createTopic(JSONObject args) throws Exception {
        asking(args).createTopic(args.containsKey("key") ? args.getString("key") : "TBW102",
            args.getString("topic"), args.getIntValue("queues"));
        return null;
    }

    private Object offsets(JSONObject args) throws Exception {
        MessageQueue queue = Messages.readQueue(args.getJSONObject("queue"));
        JSONObject entry = new JSONObject(true);
        entry.put("min_offset", asking(args).minOffset(queue));
        entry.put("max_offset", asking(args).maxOffset(queue));
        entry.put("earliest_ms", asking(args).earliestMsgStoreTime(queue));
        return entry;
    }

    /** Messages of {@code topic} with {@code key}, at most {@code max}, stored from {@code begin_ms} to {@code end_ms}. */
    private Object query(JSONObject args) throws Exception {
        QueryResult result = asking(args).queryMessage(args.getString("topic"), args.getString("key"),
            args.containsKey("max") ? args.getIntValue("max") : 32,
            args.getLongValue("begin_ms"),
            args.containsKey("end_ms") ? args.getLongValue("end_ms") : Long.MAX_VALUE);
        return Messages.write(result.getMessageList());
    }

    /** One message by {@code msg_id}: an offset id alone, or either kind of id with its {@code topic}. */
    private Object view(JSONObject args) throws Exception {
        String id = args.getString("msg_id");
        return Messages.write(args.containsKey("topic")
            ? asking(args).viewMessage(args.getString("topic"), id)
            : asking(args).viewMessage(id));
    }
}
