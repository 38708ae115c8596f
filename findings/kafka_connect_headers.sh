#!/usr/bin/env bash
# Kafka Connect 4.4.0: its SimpleHeaderConverter, the default for headers in all connectors, which infers a type from the text. A guess: a
# text that is not as a whole a number, a date or a list stays a text, and what it infers is written again with the same meaning.
#
# Seen: a number at the beginning is enough if a comma or a colon follows: "1,2" and "7, rue" are the integers 1 and 7, "1:2" is 1, and
# the rest is gone. "007" is 7, "1.10" is 1.1 and a decimal of 22 digits a float of 8. A time at midnight is written as the date alone, a
# time of 1970-01-01 without its date. So a connector that only copies topics changes their headers.
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
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

public class Seen {
  public static void main(String[] arguments) {
    SimpleHeaderConverter converter = new SimpleHeaderConverter();
    System.out.println(converter.version());
    String[] texts = {
      "1,2", "7, rue", "1:2", "a,2", "007", "1.10", "2020-01-01T00:00:00.000Z", "1970-01-01T12:00:00.000Z",
      "12345678901234567890", "12345678901234567890.10"
    };
    for (String text : texts) {
      var value = converter.toConnectHeader("topic", "header", text.getBytes());
      String type = value.schema().name() == null ? value.schema().type().toString() : value.schema().name().replaceAll(".*[.]", "");
      String again = new String(converter.fromConnectHeader("topic", "header", value.schema(), value.value()));
      System.out.println(text + " is " + type + ", written as " + again);
    }
  }
}
JAVA
javac -cp 'lib/*' Seen.java
java -cp 'lib/*:.' Seen 2> log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
4.4.0
1,2 is INT8, written as 1
7, rue is INT8, written as 7
1:2 is INT8, written as 1
a,2 is STRING, written as a,2
007 is INT8, written as 7
1.10 is FLOAT32, written as 1.1
2020-01-01T00:00:00.000Z is Timestamp, written as 2020-01-01
1970-01-01T12:00:00.000Z is Timestamp, written as 12:00:00.000Z
12345678901234567890 is Decimal, written as 12345678901234567890
12345678901234567890.10 is FLOAT32, written as 1.2345679E19
SEEN
