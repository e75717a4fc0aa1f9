package skyrocketmq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Reads and writes with Apache's own classes: one question a line, fields separated by tabs, one answer a line in Base64,
 * or an exclamation mark and what was thrown.
 *
 * <pre>
 *   body CLASS JSON      the JSON, read into the class and written again
 *   pretty CLASS JSON    the same, as a configuration file
 *   frame HEX            a frame without its length field, read and written again, in its own encoding
 *   fields CLASS         the fields of a header: name and type, separated by commas
 * </pre>
 */
public final class Formats {
    private Formats() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // for what Apache's classes log
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] question = line.split("\t", -1);
            String answer;
            try {
                answer = Base64.getEncoder().encodeToString(answer(question));
            } catch (Exception | Error thrown) {
                answer = "!" + thrown.toString().replaceAll("\\s+", " ");
            }
            out.println(answer);
        }
    }

    private static byte[] answer(String[] question) throws Exception {
        switch (question[0]) {
            case "body":
            case "pretty":
                Object value = RemotingSerializable.fromJson(question[2], Class.forName(question[1]));
                return RemotingSerializable.toJson(value, question[0].equals("pretty")).getBytes(StandardCharsets.UTF_8);
            case "frame":
                return frame(question[1]);
            case "fields":
                return fields(Class.forName(question[1])).getBytes(StandardCharsets.UTF_8);
            default:
                throw new IllegalArgumentException(question[0]);
        }
    }

    private static byte[] frame(String hex) throws Exception {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        ByteBuffer written = RemotingCommand.decode(ByteBuffer.wrap(bytes)).encode();
        byte[] result = new byte[written.remaining()];
        written.get(result);
        return result;
    }

    private static String fields(Class<?> header) {
        List<String> fields = new ArrayList<>();
        for (Class<?> type = header; type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    fields.add(field.getName() + " " + field.getType().getSimpleName());
                }
            }
        }
        return String.join(",", fields);
    }
}
