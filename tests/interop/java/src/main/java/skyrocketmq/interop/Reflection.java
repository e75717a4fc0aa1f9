package skyrocketmq.interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.List;

/** Calls methods by name with arguments from JSON. */
final class Reflection {
    private Reflection() {
    }

    static void set(Object target, String property, Object value) throws Exception {
        String setter = "set" + Character.toUpperCase(property.charAt(0)) + property.substring(1);
        call(target, setter, new JSONArray(List.of(value)));
    }

    /** Calls the public method with that name and as many parameters as there are arguments. */
    static Object call(Object target, String name, JSONArray arguments) throws Exception {
        IllegalArgumentException unfit = null;
        for (Method method : target.getClass().getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != arguments.size()) {
                continue;
            }
            Object[] values;
            try {
                values = convert(arguments, method.getGenericParameterTypes());
            } catch (RuntimeException wrongTypes) {
                unfit = new IllegalArgumentException("arguments do not fit " + method, wrongTypes);
                continue;
            }
            try {
                return method.invoke(target, values);
            } catch (InvocationTargetException failed) {
                throw failed.getCause() instanceof Exception ? (Exception) failed.getCause() : failed;
            }
        }
        throw unfit != null ? unfit : new IllegalArgumentException(
            "no method " + name + " with " + arguments.size() + " parameters in " + target.getClass().getName());
    }

    private static Object[] convert(JSONArray arguments, Type[] types) {
        Object[] values = new Object[types.length];
        for (int index = 0; index < types.length; index++) {
            Object given = arguments.get(index);
            values[index] = given instanceof JSON
                ? JSON.parseObject(given.toString(), types[index])
                : TypeUtils.cast(given, types[index], ParserConfig.getGlobalInstance());
        }
        return values;
    }
}
