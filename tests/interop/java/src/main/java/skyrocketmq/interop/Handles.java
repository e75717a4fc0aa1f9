package skyrocketmq.interop;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/** The running clients, by the name the test gave them. */
final class Handles {
    /** A running client; {@code client} is Apache's object. */
    static final class Handle {
        final Object client;
        final Runnable shutdown;
        final Object state;

        Handle(Object client, Object state, Runnable shutdown) {
            this.client = client;
            this.state = state;
            this.shutdown = shutdown;
        }
    }

    private final Map<String, Handle> running = new ConcurrentHashMap<>();

    Object add(JSONObject args, Object client, Object state, Runnable shutdown) {
        String name = args.getString("handle");
        if (running.putIfAbsent(name, new Handle(client, state, shutdown)) != null) {
            shutdown.run();
            throw new IllegalArgumentException("handle " + name + " is taken");
        }
        return ((ClientConfig) client).buildMQClientId();
    }

    Handle get(String name) {
        Handle handle = running.get(name);
        if (handle == null) {
            throw new IllegalArgumentException("no handle " + name);
        }
        return handle;
    }

    <T> T client(JSONObject args, Class<T> type) {
        return type.cast(get(args.getString("handle")).client);
    }

    <T> T state(JSONObject args, Class<T> type) {
        return type.cast(get(args.getString("handle")).state);
    }

    Object stop(String name) {
        Handle handle = get(name);
        running.remove(name);
        handle.shutdown.run();
        return name;
    }

    void stopAll() {
        running.values().forEach(handle -> handle.shutdown.run());
        running.clear();
    }

    /** What every client takes: {@code namesrv}, {@code instance}, {@code tls}, and {@code config}, any property by name. */
    static void configure(ClientConfig client, JSONObject args) throws Exception {
        client.setNamesrvAddr(args.getString("namesrv"));
        // Clients with the same instance name share one connection set; by default each is a client of its own.
        String instance = args.getString("instance");
        client.setInstanceName(instance != null ? instance : UUID.randomUUID().toString());
        if (args.containsKey("tls")) {
            client.setUseTLS(args.getBooleanValue("tls"));
        }
        JSONObject config = args.getJSONObject("config");
        if (config != null) {
            for (String key : config.keySet()) {
                Reflection.set(client, key, config.get(key));
            }
        }
    }

    /** Signs requests if {@code access_key} and {@code secret_key} are given. */
    static RPCHook signing(JSONObject args) {
        if (!args.containsKey("access_key")) {
            return null;
        }
        return new AclClientRPCHook(
            new SessionCredentials(args.getString("access_key"), args.getString("secret_key")));
    }
}
