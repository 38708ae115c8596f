import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A resource manager and two node managers in this process, until its input ends. Writes a folder of settings for
 * clients (HADOOP_CONF_DIR), with the default file system that is given.
 */
public final class YarnCluster {
  public static void main(String[] arguments) throws Exception {
    File settings = new File(arguments[0]);
    Configuration wanted = new YarnConfiguration();
    wanted.set("fs.defaultFS", arguments[1]);
    wanted.set("yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
    wanted.setInt("yarn.nodemanager.resource.memory-mb", 4096);
    wanted.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    wanted.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    // A disk of the machine that runs the tests may be nearly full.
    wanted.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
    // Of the process's environment containers get no more than this.
    wanted.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH,HOME,LANG");
    MiniYARNCluster cluster = new MiniYARNCluster("cec", 2, 1, 1);
    cluster.init(wanted);
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(60_000)) throw new IllegalStateException("no node managers");
    settings.mkdirs();
    // Clients read all of it as the site's settings; the addresses are those that the servers have taken.
    try (OutputStream out = new FileOutputStream(new File(settings, "yarn-site.xml"))) {
      cluster.getConfig().writeXml(out);
    }
    Configuration core = new Configuration(false);
    core.set("fs.defaultFS", arguments[1]);
    try (OutputStream out = new FileOutputStream(new File(settings, "core-site.xml"))) {
      core.writeXml(out);
    }
    System.out.println("answer: ready");
    System.out.flush();
    while (System.in.read() >= 0) {}
    cluster.stop();
    System.exit(0);
  }
}
