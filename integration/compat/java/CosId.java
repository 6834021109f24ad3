import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import me.ahoo.cosid.segment.DefaultSegmentId;
import me.ahoo.cosid.segment.IdSegmentDistributor;
import me.ahoo.cosid.segment.SegmentChainId;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.support.RestClientAdapter;
import org.springframework.web.service.annotation.PatchExchange;
import org.springframework.web.service.annotation.PostExchange;
import org.springframework.web.service.invoker.HttpServiceProxyFactory;

/**
 * Takes numbers with CosId's own generators, SegmentId and SegmentChainId, whose segments come from
 * seqd by the requests of CosId's proxy client. The proxy client itself could not be had from Maven
 * Central. As it does, this sends them with Spring's RestClient, which reads a number from JSON only.
 *
 * <p>Arguments: the servers (host:port, separated by commas), the namespace and the name.
 */
public final class CosId {
  private static final long STEP = 100;

  private CosId() {}

  /** What CosId's proxy client sends. */
  interface Segments {
    @PostExchange("/segments/distributor/{namespace}/{name}")
    void create(@PathVariable("namespace") String namespace, @PathVariable("name") String name, @RequestParam("offset") long offset,
        @RequestParam("step") long step);

    @PatchExchange("/segments/{namespace}/{name}")
    long nextMaxId(@PathVariable("namespace") String namespace, @PathVariable("name") String name, @RequestParam("step") long step);
  }

  private static Segments client(String server) {
    RestClient client = RestClient.builder().baseUrl("http://" + server).build();
    return HttpServiceProxyFactory.builderFor(RestClientAdapter.create(client)).build().createClient(Segments.class);
  }

  /** Takes each segment from the next server. */
  private record Distributor(List<Segments> servers, AtomicInteger turn, String getNamespace, String getName)
      implements IdSegmentDistributor {
    @Override
    public long getStep() {
      return STEP;
    }

    @Override
    public long nextMaxId(long step) {
      Segments server = servers.get(Math.floorMod(turn.getAndIncrement(), servers.size()));
      return server.nextMaxId(getNamespace, getName, step);
    }
  }

  public static void main(String[] args) throws Exception {
    List<Segments> servers = new ArrayList<>();
    for (String address : args[0].split(",")) {
      Segments server = client(address);
      server.create(args[1], args[2], 0, STEP);
      servers.add(server);
    }
    IdSegmentDistributor distributor = new Distributor(servers, new AtomicInteger(), args[1], args[2]);
    Numbers.print(List.of(new DefaultSegmentId(distributor)::generate, new SegmentChainId(distributor)::generate));
  }
}
