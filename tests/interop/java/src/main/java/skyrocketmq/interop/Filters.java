package skyrocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.util.BloomFilter;
import org.apache.rocketmq.filter.util.BloomFilterData;

/** Apache's SQL92 filter and its Bloom filter, asked directly. */
final class Filters {
    private Filters() {
    }

    static void addTo(Map<String, Driver.Operation> operations) {
        operations.put("sql_filter", Filters::ask);
        operations.put("bloom", Filters::bloom);
    }

    /** For each of {@code questions} (an {@code sql} and {@code properties}): match, no, or refused. */
    private static Object ask(JSONObject args) {
        List<String> answers = new ArrayList<>();
        JSONArray questions = args.getJSONArray("questions");
        for (int at = 0; at < questions.size(); at++) {
            answers.add(answer(questions.getJSONObject(at)));
        }
        return answers;
    }

    private static String answer(JSONObject question) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(question.getString("sql"));
        } catch (Throwable refused) {
            return "refused";
        }
        Map<String, String> properties = new HashMap<>();
        JSONObject given = question.getJSONObject("properties");
        given.keySet().forEach(key -> properties.put(key, given.getString(key)));
        try {
            Object found = expression.evaluate(new MessageEvaluationContext(properties));
            return Boolean.TRUE.equals(found) ? "match" : "no";
        } catch (Throwable failed) {
            return "no";
        }
    }

    /** The length of a filter for {@code error_percent} and {@code count}, and the places of each of {@code texts}. */
    private static Object bloom(JSONObject args) {
        BloomFilter filter = BloomFilter.createByFn(args.getIntValue("error_percent"), args.getIntValue("count"));
        List<int[]> places = new ArrayList<>();
        for (Object text : args.getJSONArray("texts")) {
            BloomFilterData data = filter.generate((String) text);
            places.add(data.getBitPos());
        }
        JSONObject answer = new JSONObject();
        answer.put("bits", filter.getM());
        answer.put("places", places);
        return answer;
    }
}
