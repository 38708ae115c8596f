#!/usr/bin/env bash
# Kafka Connect 4.4.0: its JsonConverter, with and without schemas, and integers beyond 64 bits, which JSON has and Connect has not. A
# guess: such an integer is a Decimal or a double, as it is in a header of the same text, or the record is refused.
#
# Seen: its lowest bits are kept. 18446744073709551615, the greatest unsigned bigint of other databases, is -1, and an id of 20 digits is
# a negative one, which a sink then writes. With a schema the same goes for each size: an int8 of it is -46.
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
import java.util.Map;
import org.apache.kafka.connect.json.JsonConverter;

public class Seen {
  public static void main(String[] arguments) {
    JsonConverter converter = new JsonConverter();
    converter.configure(Map.of("converter.type", "value", "schemas.enable", "false"));
    System.out.println(converter.version());
    String[] texts = {
      "9223372036854775807", "9223372036854775808", "18446744073709551615", "{\"id\":12345678901234567890}", "12345678901234567890.0"
    };
    for (String text : texts) {
      Object value = converter.toConnectData("topic", text.getBytes()).value();
      String kind = value.getClass().getSimpleName();
      System.out.println(text + " is " + kind + " " + value + ", again " + new String(converter.fromConnectData("topic", null, value)));
    }
    for (String type : new String[] {"int64", "int32", "int16", "int8"}) {
      String message = "{\"schema\":{\"type\":\"" + type + "\",\"optional\":false},\"payload\":12345678901234567890}";
      JsonConverter typed = new JsonConverter();
      typed.configure(Map.of("converter.type", "value"));
      System.out.println("12345678901234567890 as " + type + " is " + typed.toConnectData("topic", message.getBytes()).value());
    }
  }
}
JAVA
javac -cp 'lib/*' Seen.java
java -cp 'lib/*:.' Seen 2> log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
4.4.0
9223372036854775807 is Long 9223372036854775807, again 9223372036854775807
9223372036854775808 is Long -9223372036854775808, again -9223372036854775808
18446744073709551615 is Long -1, again -1
{"id":12345678901234567890} is HashMap {id=-6101065172474983726}, again {"id":-6101065172474983726}
12345678901234567890.0 is Double 1.2345678901234567E19, again 1.2345678901234567E19
12345678901234567890 as int64 is -6101065172474983726
12345678901234567890 as int32 is -350287150
12345678901234567890 as int16 is 2770
12345678901234567890 as int8 is -46
SEEN
