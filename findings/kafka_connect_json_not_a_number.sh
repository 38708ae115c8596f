#!/usr/bin/env bash
# Kafka Connect 4.4.0: its JsonConverter with schemas, a worker's default converter, and doubles that JSON has no numbers for. A guess:
# NaN and infinities come back, since one class writes and reads them and the schema says that they are doubles, or one half refuses them.
#
# Seen: they are written as the texts "NaN" and "Infinity", and read as 0.0, alone, in lists and as floats. It is so for any text in a
# number's place: "12" for a double is 0.0, for an int64 0, for a boolean false. So a mean over a topic takes what was missing for zeros.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>findings</groupId>
  <artifactId>findings</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>connect-json</artifactId>
      <version>4.4.0</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -q -B -Dmaven.repo.local="$folder/m2" dependency:copy-dependencies -DoutputDirectory=lib
cat > Seen.java <<'JAVA'
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.json.JsonConverter;

public class Seen {
  static final JsonConverter CONVERTER = new JsonConverter();

  static void again(Schema schema, Object value) {
    byte[] written = CONVERTER.fromConnectData("topic", schema, value);
    String text = new String(written).replaceAll(".*\"payload\":", "").replaceAll("}$", "");
    System.out.println(value + " is written as " + text + " and read as " + CONVERTER.toConnectData("topic", written).value());
  }

  static void text(String type) {
    String message = "{\"schema\":{\"type\":\"" + type + "\",\"optional\":false},\"payload\":\"12\"}";
    String seen;
    try {
      seen = "read as " + CONVERTER.toConnectData("topic", message.getBytes()).value();
    } catch (RuntimeException error) {
      seen = error.getClass().getSimpleName();
    }
    System.out.println("a text for " + type + ": " + seen);
  }

  public static void main(String[] arguments) {
    CONVERTER.configure(Map.of("converter.type", "value"));
    System.out.println(CONVERTER.version());
    for (double value : new double[] {0.1, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
      again(Schema.FLOAT64_SCHEMA, value);
    }
    again(Schema.FLOAT32_SCHEMA, Float.NaN);
    again(SchemaBuilder.array(Schema.FLOAT64_SCHEMA).build(), List.of(1.5, Double.NaN));
    for (String type : List.of("double", "int64", "boolean", "string")) {
      text(type);
    }
  }
}
JAVA
javac -cp 'lib/*' Seen.java
java -cp 'lib/*:.' Seen 2> log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
4.4.0
0.1 is written as 0.1 and read as 0.1
NaN is written as "NaN" and read as 0.0
Infinity is written as "Infinity" and read as 0.0
-Infinity is written as "-Infinity" and read as 0.0
NaN is written as "NaN" and read as 0.0
[1.5, NaN] is written as [1.5,"NaN"] and read as [1.5, 0.0]
a text for double: read as 0.0
a text for int64: read as 0
a text for boolean: read as false
a text for string: read as 12
SEEN
