import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Takes numbers from seqd with Lettuce. */
public final class Use {
  // such as redis://:seqd_token@127.0.0.1:6380
  private static final String SERVICE = System.getenv("SEQD_REDIS");
  private static final RedisClient CLIENT = client(SERVICE);
  private static final StatefulRedisConnection<String, String> CONNECTION = CLIENT.connect();
  private static final RedisCommands<String, String> COMMANDS = CONNECTION.sync();

  private Use() {}

  private static RedisClient client(String url) {
    RedisClient client = RedisClient.create(RedisURI.create(url));
    boolean third = System.getenv("SEQD_PROTOCOL").equals("3");
    client.setOptions(ClientOptions.builder().protocolVersion(third ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2).build());
    return client;
  }

  private static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  /** Sends a command that Lettuce has no method for. */
  private static List<Object> send(String name, String... arguments) {
    ProtocolKeyword command = name::getBytes;
    CommandArgs<String, String> all = new CommandArgs<>(StringCodec.UTF8);
    for (String argument : arguments) {
      all.add(argument);
    }
    return COMMANDS.dispatch(command, new ArrayOutput<>(StringCodec.UTF8), all);
  }

  private static List<String> next(String bizType, int count) {
    return send("SEQ.NEXT", bizType, "COUNT", Integer.toString(count)).stream().map(Object::toString).toList();
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
    long one = COMMANDS.incr("order");
    long last = COMMANDS.incrby("order", 10); // ten consecutive numbers: last-9 to last
    check(one < last - 9, one + " " + last);
    List<Long> values = new ArrayList<>(List.of(last));
    next("order", 5).forEach(id -> values.add(Long.valueOf(id))); // as text
    check(values.size() == 6 && increasing(values), values);
    List<String> invoices = next("invoice", 2);
    check(invoices.get(0).startsWith("INV-") && invoices.get(0).compareTo(invoices.get(1)) < 0, invoices);
  }

  private static void pipeline() throws Exception {
    List<RedisFuture<Long>> answers = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      answers.add(CONNECTION.async().incr("order"));
    }
    List<Long> values = new ArrayList<>();
    for (RedisFuture<Long> answer : answers) {
      values.add(answer.get());
    }
    check(values.size() == 1000 && increasing(values), values);
  }

  private static List<Long> take() {
    List<Long> values = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      values.add(COMMANDS.incr("order"));
    }
    return values;
  }

  /** Takes numbers in many threads, which share the connection. */
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
    } catch (RedisCommandExecutionException e) {
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
    try (var other = CLIENT.connect()) {
      other.sync().multi();
      throw new AssertionError("a transaction was begun");
    } catch (RedisCommandExecutionException e) {
      check(e.getMessage().contains("MULTI"), e);
    }
    numbers();
  }

  private static void wrongToken() {
    if (!SERVICE.contains("@")) {
      return; // this seqd takes no tokens
    }
    for (String token : new String[] {":seqd_wrong@", ""}) {
      RedisClient stranger = client(SERVICE.replaceFirst("//.*@", "//" + token));
      try (var connection = stranger.connect()) {
        connection.sync().incr("order");
        throw new AssertionError("a number for the token " + token);
      } catch (RedisConnectionException e) {
        // Lettuce closes the connection after the error. What it says then depends on how far it had come.
      } catch (RedisCommandExecutionException e) {
        check(e.getMessage().matches("(WRONGPASS|NOAUTH).*"), e);
      } finally {
        stranger.shutdown();
      }
    }
  }

  /** Checks that the client connects again after the service was killed and started. */
  private static void restart() throws IOException {
    long before = COMMANDS.incr("order");
    System.out.println("restart");
    System.in.read();
    long after = COMMANDS.incr("order"); // Lettuce repeats a command that got no answer
    check(before < after, before + " " + after);
  }

  public static void main(String[] args) throws Exception {
    numbers();
    pipeline();
    threads();
    errors();
    transaction();
    wrongToken();
    restart();
    CONNECTION.close();
    CLIENT.shutdown();
    System.out.println("all as it should be");
  }
}
