import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import me.ahoo.cosid.machine.AbstractMachineIdDistributor;
import me.ahoo.cosid.machine.ClockBackwardsSynchronizer;
import me.ahoo.cosid.machine.DefaultMachineIdGuarder;
import me.ahoo.cosid.machine.InstanceId;
import me.ahoo.cosid.machine.MachineState;
import me.ahoo.cosid.machine.MachineStateStorage;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.support.RestClientAdapter;
import org.springframework.web.service.annotation.DeleteExchange;
import org.springframework.web.service.annotation.HttpExchange;
import org.springframework.web.service.annotation.PatchExchange;
import org.springframework.web.service.annotation.PostExchange;
import org.springframework.web.service.invoker.HttpServiceProxyFactory;

/**
 * Makes numbers with CosId's own generator and guarder, with machine IDs that seqd leases. The
 * requests are those of CosId's proxy client, which could not be had from Maven Central.
 *
 * <p>Arguments: the servers (host:port, separated by commas), the namespace, and the instances,
 * separated by commas.
 */
public final class CosIdMachines {
  private static final Duration SAFE_GUARD = Duration.ofSeconds(20);
  private static final Duration DELAY = Duration.ofSeconds(1);

  private CosIdMachines() {}

  /** What the client reads of a machine ID. */
  record State(int machineId, long lastTimeStamp) {}

  /** What CosId's proxy client sends. */
  @HttpExchange("machines/{namespace}")
  interface Machines {
    @PostExchange
    State distribute(@PathVariable("namespace") String namespace, @RequestParam("machineBit") int machineBit,
        @RequestParam("instanceId") String instanceId, @RequestParam("stable") boolean stable,
        @RequestParam("safeGuardDuration") String safeGuardDuration);

    @PatchExchange
    void guard(@PathVariable("namespace") String namespace, @RequestParam("instanceId") String instanceId,
        @RequestParam("stable") boolean stable, @RequestParam("safeGuardDuration") String safeGuardDuration);

    @DeleteExchange
    void revert(@PathVariable("namespace") String namespace, @RequestParam("instanceId") String instanceId,
        @RequestParam("stable") boolean stable);
  }

  private static Machines client(String server) {
    RestClient client = RestClient.builder().baseUrl("http://" + server).build();
    return HttpServiceProxyFactory.builderFor(RestClientAdapter.create(client)).build().createClient(Machines.class);
  }

  /** Sends each request to the next server. */
  private static final class Distributor extends AbstractMachineIdDistributor {
    private final List<Machines> servers;
    private final AtomicInteger turn = new AtomicInteger();

    Distributor(List<Machines> servers) {
      super(MachineStateStorage.IN_MEMORY, ClockBackwardsSynchronizer.DEFAULT);
      this.servers = servers;
    }

    private Machines server() {
      return servers.get(Math.floorMod(turn.getAndIncrement(), servers.size()));
    }

    @Override
    protected MachineState distributeRemote(String namespace, int machineBit, InstanceId instance, Duration safeGuard) {
      State s = server().distribute(namespace, machineBit, instance.getInstanceId(), instance.isStable(), safeGuard.toString());
      return MachineState.of(s.machineId(), s.lastTimeStamp());
    }

    @Override
    protected void revertRemote(String namespace, InstanceId instance, MachineState state) {
      server().revert(namespace, instance.getInstanceId(), instance.isStable());
    }

    @Override
    protected void guardRemote(String namespace, InstanceId instance, MachineState state, Duration safeGuard) {
      server().guard(namespace, instance.getInstanceId(), instance.isStable(), safeGuard.toString());
    }
  }

  /** Asks for a machine ID until there is one: a new pool, or a node, may not be ready. */
  private static int distribute(Distributor distributor, String namespace, InstanceId instance) throws InterruptedException {
    while (true) {
      try {
        return distributor.distribute(namespace, MillisecondSnowflakeId.DEFAULT_MACHINE_BIT, instance, SAFE_GUARD).getMachineId();
      } catch (RuntimeException e) {
        System.err.println(e);
        Thread.sleep(500);
      }
    }
  }

  public static void main(String[] args) throws Exception {
    List<Machines> servers = new ArrayList<>();
    for (String address : args[0].split(",")) {
      servers.add(client(address));
    }
    List<Numbers.Source> sources = new ArrayList<>();
    for (String name : args[2].split(",")) {
      Distributor distributor = new Distributor(servers);
      DefaultMachineIdGuarder guarder =
          new DefaultMachineIdGuarder(distributor, DefaultMachineIdGuarder.executorService(), DELAY, DELAY, SAFE_GUARD);
      InstanceId instance = InstanceId.of(name, false);
      sources.add(new MillisecondSnowflakeId(distribute(distributor, args[1], instance))::generate);
      guarder.register(args[1], instance);
      guarder.start();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> distributor.revert(args[1], instance)));
    }
    Numbers.print(sources);
  }
}
