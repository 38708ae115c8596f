#!/usr/bin/env bash
# Kafka Streams 4.4.0 (with its TopologyTestDriver): a left join of two streams in a window without grace. Its documentation says that
# records that come later than the end of the window and the grace are rejected. A guess: a left row is given out once without a partner
# or with each of its partners, so that null is final.
#
# Seen: at the end of the window the left row is given out with null, and a partner that comes after that joins it as well: the output has
# "row-null" and then "row-partner", no error, and no record counts as dropped. So an order is "not paid" and paid. With a grace it is so
# after the grace. A partner that comes before another record has closed the window is right.
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
      <artifactId>kafka-streams-test-utils</artifactId>
      <version>4.4.0</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -q -B -Dmaven.repo.local="$folder/m2" dependency:copy-dependencies -DoutputDirectory=lib
cat > Joins.java <<'JAVA'
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

public class Joins {
  static final Serde<String> TEXT = Serdes.String();

  static List<String> run(JoinWindows windows, String[] topics, String[] values, long[] times) {
    StreamsBuilder builder = new StreamsBuilder();
    Consumed<String, String> texts = Consumed.with(TEXT, TEXT);
    KStream<String, String> left = builder.stream("left", texts);
    KStream<String, String> right = builder.stream("right", texts);
    left.leftJoin(right, (row, partner) -> row + "-" + partner, windows, StreamJoined.with(TEXT, TEXT, TEXT))
        .to("out", Produced.with(TEXT, TEXT));
    Properties settings = new Properties();
    settings.put("application.id", "findings");
    settings.put("bootstrap.servers", "127.0.0.1:1");
    settings.put("state.dir", System.getProperty("user.dir") + "/state");
    List<String> seen = new ArrayList<>();
    try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
      var out = driver.createOutputTopic("out", TEXT.deserializer(), TEXT.deserializer());
      for (int i = 0; i < topics.length; i++) {
        String key = values[i].startsWith("other") ? "other" : "key";
        driver.createInputTopic(topics[i], TEXT.serializer(), TEXT.serializer()).pipeInput(key, values[i], times[i]);
        seen.addAll(out.readValuesToList());
      }
      double dropped = driver.metrics().entrySet().stream()
          .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
          .mapToDouble(metric -> (Double) metric.getValue().metricValue()).sum();
      seen.add("dropped " + (long) dropped);
    }
    return seen;
  }

  public static void main(String[] args) {
    Duration ten = Duration.ofSeconds(10);
    String[] topics = {"left", "right", "right"};
    String[] values = {"row", "other", "partner"};
    System.out.println(run(JoinWindows.ofTimeDifferenceWithNoGrace(ten), topics, values, new long[] {20000, 30001, 15000}));
    System.out.println(run(JoinWindows.ofTimeDifferenceAndGrace(ten, ten), topics, values, new long[] {20000, 40001, 15000}));
    System.out.println(run(JoinWindows.ofTimeDifferenceWithNoGrace(ten), topics, values, new long[] {20000, 29999, 15000}));
  }
}
JAVA
java -cp 'lib/*' Joins.java 2> errors | tee seen || { cat errors; exit 1; }
diff seen - <<'SEEN'
[row-null, row-partner, dropped 0]
[row-null, row-partner, dropped 0]
[row-partner, dropped 0]
SEEN
