package skyrocketmq.interop;

import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Apache's producer at full speed: threads that each send one message after the other and wait for its result. Prints a
 * line when the warm-up is over, and one with the outcome: {@code sent failed milliseconds}.
 *
 * <p>Arguments: name server, topics joined by commas, threads, body bytes, seconds of warm-up, seconds of measuring.
 */
public final class ProducerLoad {
    private ProducerLoad() {
    }

    public static void main(String[] args) throws Exception {
        String[] topics = args[1].split(",");
        int threadCount = Integer.parseInt(args[2]);
        byte[] body = new byte[Integer.parseInt(args[3])];
        new Random(1).nextBytes(body);
        DefaultMQProducer producer = new DefaultMQProducer("benchmark-java-producer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        LongAdder sent = new LongAdder();
        LongAdder failed = new LongAdder();
        AtomicBoolean isRunning = new AtomicBoolean(true);
        Thread[] threads = new Thread[threadCount];
        for (int number = 0; number < threadCount; number++) {
            int first = number;
            threads[number] = new Thread(() -> send(producer, topics, first, body, sent, failed, isRunning));
            threads[number].start();
        }
        Thread.sleep((long) (Double.parseDouble(args[4]) * 1000));
        sent.reset();
        failed.reset();
        System.out.println("measuring");
        long start = System.nanoTime();
        Thread.sleep((long) (Double.parseDouble(args[5]) * 1000));
        System.out.println(sent.sum() + " " + failed.sum() + " " + (System.nanoTime() - start) / 1_000_000);
        isRunning.set(false);
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
    }

    private static void send(
        DefaultMQProducer producer, String[] topics, int first, byte[] body, LongAdder sent, LongAdder failed,
        AtomicBoolean isRunning) {
        for (int number = first; isRunning.get(); number++) {
            try {
                Message message = new Message(topics[number % topics.length], "TagA", body);
                if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) {
                    sent.increment();
                } else {
                    failed.increment();
                }
            } catch (Exception refused) {
                failed.increment();
            }
        }
    }
}
