package skyrocketmq.interop;

import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Apache's client as a user has it, for the benchmark that puts ours beside it ({@code benchmarks/client_load.py} is the
 * same program with our client). Prints {@code measuring} when the warm-up is over, and then one line:
 * {@code count failed nanoseconds p50 p99}, the last two in nanoseconds, 0 where no latency is measured.
 *
 * <p>Arguments: latency | flight | consume, name server, topic, seconds of warm-up, seconds of measuring, body bytes (of
 * messages that are sent), and how many are in flight, or are there to be consumed.
 */
public final class ClientLoad {
    private static final String GROUP = "benchmark-java";
    private static final int LATENCIES_MAX = 10_000_000;

    private ClientLoad() {
    }

    public static void main(String[] args) throws Exception {
        long warmUp = (long) (Double.parseDouble(args[3]) * 1e9);
        long measured = (long) (Double.parseDouble(args[4]) * 1e9);
        int count = Integer.parseInt(args[6]);
        if (args[0].equals("consume")) {
            consume(args[1], args[2], warmUp, measured, count);
        } else {
            byte[] body = new byte[Integer.parseInt(args[5])];
            new Random(1).nextBytes(body);
            DefaultMQProducer producer = new DefaultMQProducer(GROUP + "-producer");
            producer.setNamesrvAddr(args[1]);
            producer.start();
            if (args[0].equals("latency")) {
                sendOneByOne(producer, args[2], body, warmUp, measured);
            } else {
                sendMany(producer, args[2], body, warmUp, measured, count);
            }
            producer.shutdown();
        }
        System.exit(0);
    }

    private static void sendOneByOne(DefaultMQProducer producer, String topic, byte[] body, long warmUp, long measured)
        throws Exception {
        for (long end = System.nanoTime() + warmUp; System.nanoTime() < end; ) {
            producer.send(new Message(topic, "TagA", body));
        }
        System.out.println("measuring");
        long[] latencies = new long[LATENCIES_MAX];
        int sent = 0;
        long start = System.nanoTime();
        long now = start;
        while (now - start < measured && sent < LATENCIES_MAX) {
            long before = now;
            producer.send(new Message(topic, "TagA", body));
            now = System.nanoTime();
            latencies[sent++] = now - before;
        }
        Arrays.sort(latencies, 0, sent);
        report(sent, 0, now - start, latencies[sent / 2], latencies[sent * 99 / 100]);
    }

    private static void sendMany(
        DefaultMQProducer producer, String topic, byte[] body, long warmUp, long measured, int inFlight)
        throws Exception {
        Semaphore room = new Semaphore(inFlight);
        LongAdder sent = new LongAdder();
        LongAdder failed = new LongAdder();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent.increment();
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                failed.increment();
                room.release();
            }
        };
        for (long end = System.nanoTime() + warmUp; System.nanoTime() < end; ) {
            room.acquire();
            producer.send(new Message(topic, "TagA", body), callback);
        }
        System.out.println("measuring");
        long sentBefore = sent.sum();
        long failedBefore = failed.sum();
        long start = System.nanoTime();
        while (System.nanoTime() - start < measured) {
            room.acquire();
            producer.send(new Message(topic, "TagA", body), callback);
        }
        report(sent.sum() - sentBefore, failed.sum() - failedBefore, System.nanoTime() - start, 0, 0);
        room.acquire(inFlight);
    }

    /** The whole topic again and again, each time for another group, from its first message to its last. */
    private static void consume(String namesrv, String topic, long warmUp, long measured, int count) throws Exception {
        AtomicInteger passes = new AtomicInteger();
        for (long end = System.nanoTime() + warmUp; System.nanoTime() < end; ) {
            consumeAll(namesrv, topic, count, passes.incrementAndGet());
        }
        System.out.println("measuring");
        long taken = 0;
        long consumed = 0;
        while (taken < measured) {
            taken += consumeAll(namesrv, topic, count, passes.incrementAndGet());
            consumed += count;
        }
        report(consumed, 0, taken, 0, 0);
    }

    private static long consumeAll(String namesrv, String topic, int count, int pass) throws Exception {
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        AtomicInteger left = new AtomicInteger(count);
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP + "-" + ProcessHandle.current().pid() + "-" + pass);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (first.get() == 0) {
                first.compareAndSet(0, System.nanoTime());
            }
            if (left.decrementAndGet() == 0) {
                last.set(System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        consumer.shutdown();
        return last.get() - first.get();
    }

    private static void report(long count, long failed, long nanoseconds, long p50, long p99) {
        System.out.println(count + " " + failed + " " + nanoseconds + " " + p50 + " " + p99);
    }
}
