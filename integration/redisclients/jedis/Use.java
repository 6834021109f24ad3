import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/** Takes numbers from seqd with Jedis. */
public final class Use {
  // such as redis://:seqd_token@127.0.0.1:6380
  private static final String SERVICE = System.getenv("SEQD_REDIS");
  private static final RedisClient CLIENT = connect(SERVICE);

  private Use() {}

  private static RedisClient connect(String url) {
    return RedisClient.create(URI.create(url + "?protocol=" + System.getenv("SEQD_PROTOCOL")));
  }

  private static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  /** Sends a command that Jedis has no method for. */
  private static Object send(String name, String... arguments) {
    ProtocolCommand command = name::getBytes;
    return CLIENT.executeCommand(new CommandArguments(command).addObjects((Object[]) arguments));
  }

  private static List<String> next(String bizType, int count) {
    List<String> ids = new ArrayList<>();
    for (Object id : (List<?>) send("SEQ.NEXT", bizType, "COUNT", Integer.toString(count))) {
      ids.add(new String((byte[]) id));
    }
    return ids;
  }

  private static boolean increasing(List<Long> values) {
    for (int i = 1; i < values.size(); i++) {
      if (values.get(i - 1) >= values.get(i)) {
        return false;
      }
    }
    return true;
  }

  private static void numbers() {
    long one = CLIENT.incr("order");
    long last = CLIENT.incrBy("order", 10); // ten consecutive numbers: last-9 to last
    check(one < last - 9, one + " " + last);
    List<Long> values = new ArrayList<>(List.of(last));
    next("order", 5).forEach(id -> values.add(Long.valueOf(id))); // as text
    check(values.size() == 6 && increasing(values), values);
    List<String> invoices = next("invoice", 2);
    check(invoices.get(0).startsWith("INV-") && invoices.get(0).compareTo(invoices.get(1)) < 0, invoices);
  }

  private static void pipeline() {
    List<Response<Long>> answers = new ArrayList<>();
    try (Pipeline pipe = CLIENT.pipelined()) {
      for (int i = 0; i < 1000; i++) {
        answers.add(pipe.incr("order"));
      }
      pipe.sync();
    }
    List<Long> values = answers.stream().map(Response::get).toList();
    check(values.size() == 1000 && increasing(values), values);
  }

  private static List<Long> take() {
    List<Long> values = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      values.add(CLIENT.incr("order"));
    }
    return values;
  }

  /** Takes numbers in many threads, which share a pool of connections. */
  private static void threads() throws Exception {
    List<Callable<List<Long>>> work = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      work.add(Use::take);
    }
    Set<Long> taken = new HashSet<>();
    ExecutorService threads = Executors.newFixedThreadPool(8);
    for (Future<List<Long>> values : threads.invokeAll(work)) {
      check(increasing(values.get()), values.get());
      taken.addAll(values.get());
    }
    threads.shutdown();
    check(taken.size() == 800, taken);
  }

  /** Checks that a command is refused with an error that has this text. */
  private static void refused(String text, String name, String... arguments) {
    try {
      send(name, arguments);
    } catch (JedisDataException e) {
      check(e.getMessage().contains(text), e);
      return;
    }
    throw new AssertionError(name + Arrays.toString(arguments) + " was answered");
  }

  private static void errors() {
    refused("unknown_biz_type", "INCR", "nobody");
    refused("SEQ.NEXT", "INCR", "invoice");
    refused("unknown command", "GET", "order");
    refused("invalid_count", "INCRBY", "order", "0");
    refused("invalid_count", "INCRBY", "order", "-1");
    refused("invalid_count", "INCRBY", "order", "9223372036854775808");
    refused("invalid_count", "SEQ.NEXT", "order", "COUNT", "1000000");
  }

  /** Checks that a transaction is refused, and that afterwards answers belong to their commands. */
  private static void transaction() {
    try (var transaction = CLIENT.multi()) {
      transaction.incr("order");
      transaction.exec();
      throw new AssertionError("a transaction was answered");
    } catch (JedisDataException | IllegalStateException e) {
      check(e.getMessage().contains("MULTI") || e.getMessage().contains("EXEC"), e);
    }
    numbers();
  }

  private static void wrongToken() {
    if (!SERVICE.contains("@")) {
      return; // this seqd takes no tokens
    }
    for (String token : new String[] {":seqd_wrong@", ""}) {
      try (RedisClient stranger = connect(SERVICE.replaceFirst("//.*@", "//" + token))) {
        stranger.incr("order");
        throw new AssertionError("a number for the token " + token);
      } catch (JedisDataException e) {
        check(e.getMessage().startsWith("WRONGPASS") || e.getMessage().startsWith("NOAUTH"), e);
      }
    }
  }

  /**
   * Checks that the client works again after the service was killed and started. Jedis does not repeat
   * a command, so a connection of its pool that broke meanwhile fails once.
   */
  private static void restart() throws IOException {
    long before = CLIENT.incr("order");
    System.out.println("restart");
    System.in.read();
    for (int attempt = 0; attempt < 20; attempt++) {
      try {
        long after = CLIENT.incr("order");
        check(before < after, before + " " + after);
        return;
      } catch (JedisConnectionException e) {
        CLIENT.getPool().clear();
      }
    }
    throw new AssertionError("no number after a restart");
  }

  public static void main(String[] args) throws Exception {
    numbers();
    pipeline();
    threads();
    errors();
    transaction();
    wrongToken();
    restart();
    CLIENT.close();
    System.out.println("all as it should be");
  }
}
