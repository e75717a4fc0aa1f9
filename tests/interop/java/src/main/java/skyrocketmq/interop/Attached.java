package skyrocketmq.interop;

import java.io.IOException;
import java.util.Arrays;

/**
 * Runs another program's main method and ends the process when standard input ends, so that a server never outlives the
 * test run that started it, however that run ended.
 */
public final class Attached {
    private Attached() {
    }

    public static void main(String[] args) throws Exception {
        Thread watch = new Thread(Attached::haltAtEndOfInput, "attached");
        watch.setDaemon(true);
        watch.start();
        Class.forName(args[0])
            .getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    private static void haltAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is ever written: only the end of the stream matters.
            }
        } catch (IOException ended) {
            // A broken pipe means the same.
        }
        Runtime.getRuntime().halt(0);
    }
}
