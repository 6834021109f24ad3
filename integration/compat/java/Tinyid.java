import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Takes numbers as Tinyid's client does, which cannot be had from Maven Central. Each segment is
 * fetched from one of the servers at random, by a POST with an empty form on a new connection, without
 * a second attempt. The next segment is fetched in the background once loadingId is reached.
 *
 * <p>Arguments: the servers (host:port, separated by commas), the biz type and the token.
 */
public final class Tinyid {
  private static final int TIMEOUT = 5000; // ms, to connect and to read

  private final String[] servers;
  private final String bizType;
  private final String token;
  private final ExecutorService loader = Executors.newSingleThreadExecutor();
  private Segment current;
  private Segment next;
  private boolean loading;

  private Tinyid(String servers, String bizType, String token) {
    this.servers = servers.split(",");
    this.bizType = bizType;
    this.token = token;
  }

  /** The numbers in (at, last] that are remainder modulo delta. */
  private static final class Segment {
    private long at;
    private final long loadingId;
    private final long last;
    private final int delta;

    Segment(String answer) {
      String[] parts = answer.split(",");
      at = Long.parseLong(parts[0]);
      loadingId = Long.parseLong(parts[1]);
      last = Long.parseLong(parts[2]);
      delta = Integer.parseInt(parts[3]);
      long remainder = Integer.parseInt(parts[4]);
      // the last number before the first one to issue
      at += Math.floorMod(remainder - at, (long) delta);
      if (at > Long.parseLong(parts[0])) {
        at -= delta;
      }
    }
  }

  synchronized long next() throws IOException {
    while (true) {
      if (current == null) {
        current = next == null ? fetch() : next;
        next = null;
      }
      current.at += current.delta;
      if (current.at > current.last) {
        current = null;
        continue;
      }
      if (current.at >= current.loadingId && next == null && !loading) {
        loading = true;
        loader.submit(this::load);
      }
      return current.at;
    }
  }

  /** Fetches the next segment. If that fails, a later number tries again. */
  private Void load() throws IOException {
    Segment fetched = null;
    try {
      fetched = fetch();
    } finally {
      synchronized (this) {
        loading = false;
        if (fetched != null) {
          next = fetched;
        }
      }
    }
    return null;
  }

  private Segment fetch() throws IOException {
    String server = servers[ThreadLocalRandom.current().nextInt(servers.length)];
    String url = "http://" + server + "/tinyid/id/nextSegmentIdSimple?token=" + token + "&bizType=" + bizType;
    HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
    connection.setRequestMethod("POST");
    connection.setDoOutput(true);
    connection.setConnectTimeout(TIMEOUT);
    connection.setReadTimeout(TIMEOUT);
    connection.setUseCaches(false);
    try (OutputStream form = connection.getOutputStream()) {
      form.flush();
    }
    try (InputStream body = connection.getInputStream()) { // throws from status 400 on
      String answer = new String(body.readAllBytes(), StandardCharsets.UTF_8);
      if (answer.isBlank()) {
        throw new IOException("no segment");
      }
      return new Segment(answer);
    } finally {
      connection.disconnect();
    }
  }

  public static void main(String[] args) throws Exception {
    Numbers.print(List.of(new Tinyid(args[0], args[1], args[2])::next, new Tinyid(args[0], args[1], args[2])::next));
  }
}
