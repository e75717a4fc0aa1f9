package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What arrived, in the order of arrival, and a way to wait for it. */
final class Recorder {
    private final List<JSONObject> entries = new ArrayList<>();

    synchronized void add(JSONObject entry) {
        entries.add(entry);
        notifyAll();
    }

    /** Everything from number {@code since} on, once there are {@code atLeast} entries in all or the time is up. */
    synchronized JSONArray waitFor(int since, int atLeast, long timeoutMs) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        while (entries.size() < atLeast) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (leftMs <= 0) {
                break;
            }
            wait(leftMs);
        }
        return new JSONArray(new ArrayList<>(entries.subList(Math.min(since, entries.size()), entries.size())));
    }
}
