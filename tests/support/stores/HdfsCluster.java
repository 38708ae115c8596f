import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A namenode and three datanodes in this process; takes one command a line, and answers each. */
public final class HdfsCluster {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setBoolean("dfs.permissions.enabled", false);
    settings.setBoolean("dfs.datanode.synconclose", true);
    settings.setInt("dfs.namenode.lease-hard-limit-sec", 60);
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(3).format(true).build();
    cluster.waitActive();
    answer(cluster.getNameNodePort() + " " + cluster.getHttpUri(0).replaceAll(".*:", ""));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "restart-datanode":
          cluster.restartDataNode(Integer.parseInt(words[1]), true);
          cluster.waitActive();
          break;
        case "restart-namenode":
          cluster.restartNameNode(0);
          cluster.waitActive();
          break;
        default:
          throw new IllegalArgumentException(line);
      }
      answer("done");
    }
    cluster.shutdown();
    System.exit(0);
  }

  private static void answer(String text) {
    System.out.println("answer: " + text);
    System.out.flush();
  }
}
