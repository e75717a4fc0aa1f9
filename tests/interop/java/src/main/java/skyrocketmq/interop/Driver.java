package skyrocketmq.interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Apache's client behind a pipe: one JVM serves many tests.
 *
 * <p>One JSON object a line. A request is {@code {"id": 7, "op": "send", ...}}; its answer is {@code {"id": 7, "result":
 * ...}} or {@code {"id": 7, "error": {"type", "message", "code"}}}. Requests run side by side, each in a thread of its
 * own, so an answer may overtake another. The first line, {@code {"ready": ...}}, comes without a request. At the end of
 * the input every client is shut down and the process ends.
 *
 * <p>The system property {@code skyrocketmq.version} makes the client claim to be another release.
 */
public final class Driver {
    /** One operation: named arguments in, something that fastjson can write out. */
    interface Operation {
        Object run(JSONObject args) throws Exception;
    }

    private static final SerializerFeature[] FEATURES = {
        SerializerFeature.WriteMapNullValue,
        SerializerFeature.WriteNonStringKeyAsString,
        SerializerFeature.DisableCircularReferenceDetect,
    };

    private final PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<String, Operation> operations = new TreeMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Handles handles = new Handles();

    public static void main(String[] args) throws Exception {
        new Driver().serve();
    }

    private void serve() throws Exception {
        // What Apache's code prints must not mix with the answers.
        System.setOut(System.err);
        claimVersion();
        operations.put("operations", args -> operations.keySet());
        operations.put("stop", args -> handles.stop(args.getString("handle")));
        Producers.addTo(operations, handles);
        PushConsumers.addTo(operations, handles);
        PullConsumers.addTo(operations, handles);
        Admins.addTo(operations, handles);
        Allocations.addTo(operations);
        Filters.addTo(operations);
        answer(ready());

        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JSONObject request = JSON.parseObject(line);
            threads.execute(() -> answer(run(request)));
        }
        handles.stopAll();
        System.exit(0);
    }

    private static void claimVersion() throws ClassNotFoundException {
        String version = System.getProperty("skyrocketmq.version");
        if (version != null) {
            // The client class sets the property when it is loaded, so it has to be loaded before we overwrite it.
            Class.forName(MQClientAPIImpl.class.getName());
            System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, version);
        }
    }

    private JSONObject ready() {
        JSONObject line = new JSONObject();
        line.put("ready", MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION));
        return line;
    }

    private JSONObject run(JSONObject request) {
        JSONObject line = new JSONObject();
        line.put("id", request.get("id"));
        Operation operation = operations.get(request.getString("op"));
        try {
            if (operation == null) {
                throw new IllegalArgumentException("no operation " + request.getString("op"));
            }
            line.put("result", operation.run(request));
        } catch (Throwable failure) {
            line.put("error", describe(failure));
        }
        return line;
    }

    static JSONObject describe(Throwable failure) {
        JSONObject error = new JSONObject();
        error.put("type", failure.getClass().getSimpleName());
        error.put("message", String.valueOf(failure.getMessage()));
        if (failure instanceof MQBrokerException) {
            error.put("code", ((MQBrokerException) failure).getResponseCode());
        } else if (failure instanceof MQClientException) {
            error.put("code", ((MQClientException) failure).getResponseCode());
        }
        if (failure.getCause() != null) {
            error.put("cause", describe(failure.getCause()));
        }
        return error;
    }

    private void answer(JSONObject line) {
        String text;
        try {
            text = JSON.toJSONString(line, FEATURES);
        } catch (RuntimeException unwritable) {
            JSONObject instead = new JSONObject();
            instead.put("id", line.get("id"));
            instead.put("error", describe(unwritable));
            text = JSON.toJSONString(instead, FEATURES);
        }
        synchronized (answers) {
            answers.println(text);
            answers.flush();
        }
    }
}
