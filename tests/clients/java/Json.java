import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** What a program prints: maps, lists, strings without anything to escape but quotes, numbers, booleans. */
final class Json {
    private Json() {}

    static String of(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(entry -> of(entry.getKey()) + ":" + of(entry.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Json::of).collect(Collectors.joining(",", "[", "]"));
        }
        if (value instanceof String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
        return String.valueOf(value);
    }

    static void print(Object value) {
        System.out.println(of(value));
    }
}
