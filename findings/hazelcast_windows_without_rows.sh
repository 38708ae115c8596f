#!/usr/bin/env bash
# Hazelcast 5.7.0 (Jet): sums and means of doubles over sliding windows, for each key. A guess: a window is given out if a row lies in it,
# as with tumbling windows and as counts are; its sum is that of its rows but for the last digits.
#
# Seen: what leaves a window is subtracted from one running value, and a key is forgotten when that is exactly 0. Of three prices
# something like -1.8e-15 is left, so the key gives out a window without rows for every step of time for ever: 1,002 windows for 3 rows in
# 1,000 steps, with that sum or a mean of -Infinity. After an infinity or NaN all later sums are NaN, and after 1e17 the sum of 2 and 3 is
# 4. So keys that are over stay in the state.
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
      <groupId>com.hazelcast</groupId>
      <artifactId>hazelcast</artifactId>
      <version>5.7.0</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -q -B -Dmaven.repo.local="$folder/m2" dependency:copy-dependencies -DoutputDirectory=lib
cat > Seen.java <<'JAVA'
import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.jet.aggregate.AggregateOperation1;
import com.hazelcast.jet.aggregate.AggregateOperations;
import com.hazelcast.jet.datamodel.KeyedWindowResult;
import com.hazelcast.jet.pipeline.Pipeline;
import com.hazelcast.jet.pipeline.Sinks;
import com.hazelcast.jet.pipeline.WindowDefinition;
import com.hazelcast.jet.pipeline.test.TestSources;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public class Seen {
  record Row(String key, long time, double value) implements Serializable {}

  static void run(HazelcastInstance hazelcast, String name, AggregateOperation1<Row, ?, ? extends Number> operation, double... values) {
    List<Row> rows = new ArrayList<>();
    for (int second = 0; second < values.length; second++) {
      rows.add(new Row("key", second, values[second]));
    }
    rows.add(new Row("later", 1000, 0.5));
    Pipeline pipeline = Pipeline.create();
    pipeline.readFrom(TestSources.items(rows)).addTimestamps(Row::time, 0).groupingKey(Row::key)
        .window(WindowDefinition.sliding(2, 1)).aggregate(operation).writeTo(Sinks.list(name));
    hazelcast.getJet().newJob(pipeline).join();
    Map<Long, Number> seen = new TreeMap<>();
    for (Object result : hazelcast.getList(name)) {
      KeyedWindowResult<String, ? extends Number> window = (KeyedWindowResult<String, ? extends Number>) result;
      if (window.key().equals("key")) {
        seen.put(window.end(), window.result());
      }
    }
    List<String> first = seen.entrySet().stream().limit(values.length + 2).map(Object::toString).toList();
    System.out.println(name + ": " + seen.size() + " windows, " + first);
  }

  public static void main(String[] arguments) {
    Config config = new Config();
    config.setProperty("hazelcast.logging.type", "none").setProperty("hazelcast.phone.home.enabled", "false");
    config.getJetConfig().setEnabled(true).setCooperativeThreadCount(1);
    config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
    config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
    config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
    HazelcastInstance hazelcast = Hazelcast.newHazelcastInstance(config);
    System.out.println(hazelcast.getCluster().getLocalMember().getVersion());
    run(hazelcast, "sums of halves", AggregateOperations.summingDouble(Row::value), 0.5, 1.5, 2.5);
    run(hazelcast, "sums of prices", AggregateOperations.summingDouble(Row::value), 19.99, 5.49, 7.25);
    run(hazelcast, "sums, one large", AggregateOperations.summingDouble(Row::value), 1e17, 1, 2, 3);
    run(hazelcast, "sums, one infinite", AggregateOperations.summingDouble(Row::value), 1, Double.POSITIVE_INFINITY, 2, 3);
    run(hazelcast, "means of prices", AggregateOperations.averagingDouble(Row::value), 19.99, 5.49, 7.25);
    run(hazelcast, "counts", AggregateOperations.counting(), 19.99, 5.49, 7.25);
    hazelcast.shutdown();
  }
}
JAVA
javac -Xlint:none -cp 'lib/*' Seen.java 2> log || { cat log; exit 1; }
java -cp 'lib/*:.' Seen 2> log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
5.7.0
sums of halves: 4 windows, [1=0.5, 2=2.0, 3=4.0, 4=2.5]
sums of prices: 1002 windows, [1=19.99, 2=25.479999999999997, 3=12.739999999999998, 4=7.249999999999998, 5=-1.7763568394002505E-15]
sums, one large: 1002 windows, [1=1.0E17, 2=1.0E17, 3=2.0, 4=4.0, 5=2.0, 6=-1.0]
sums, one infinite: 1002 windows, [1=1.0, 2=Infinity, 3=Infinity, 4=NaN, 5=NaN, 6=NaN]
means of prices: 1002 windows, [1=19.99, 2=12.739999999999998, 3=6.369999999999999, 4=7.249999999999998, 5=-Infinity]
counts: 4 windows, [1=1, 2=2, 3=2, 4=1]
SEEN
