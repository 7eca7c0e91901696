// A worker of bench/crowd.lua that uses Curator's InterProcessMutex, a peer of
// dlock's on ZooKeeper; the loops, clocks and lines are those of bench/peer.py.
//   PeerCurator HOST:PORT handoff MS
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public class PeerCurator {
  static long cpu() {
    return ((com.sun.management.OperatingSystemMXBean)
        ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1000;
  }

  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessMutex mutex = new InterProcessMutex(client, "/curator/shared");
    long hold = Long.parseLong(args[2]);
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    long stop = Long.parseLong(input.readLine());
    long before = cpu(), start = System.nanoTime(), count = 0;
    List<String> holds = new ArrayList<>();
    for (boolean inTime = true; inTime; ) {
      mutex.acquire();
      long came = System.nanoTime();
      count++;
      inTime = came < stop;
      if (inTime) {
        if (hold > 0) Thread.sleep(hold);
        holds.add(came + " " + System.nanoTime());
      }
      mutex.release();
    }
    long took = System.nanoTime() - start, used = cpu() - before;
    for (String line : holds) System.out.println(line);
    System.out.println("done " + count + " " + took + " " + used + " 0 0");
    input.readLine();
    System.exit(0);
  }
}
