import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;

/** Takes numbers in several threads and prints each on a line, until the standard input ends. */
final class Numbers {
  private static final int THREADS = 4;

  private Numbers() {}

  interface Source {
    long next() throws Exception;
  }

  /** Prints numbers of all sources. A source that fails is asked again after a pause. */
  static void print(List<Source> sources) throws Exception {
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), true);
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < THREADS * sources.size(); i++) {
      Source source = sources.get(i % sources.size());
      Thread thread = new Thread(() -> take(source, out));
      threads.add(thread);
      thread.start();
    }
    while (System.in.read() >= 0) {
      continue;
    }
    ended = true;
    for (Thread thread : threads) {
      thread.join();
    }
    out.flush();
    System.exit(out.checkError() ? 1 : 0); // threads of the libraries still run
  }

  private static volatile boolean ended;

  private static void take(Source source, PrintStream out) {
    while (!ended) {
      try {
        out.println(source.next());
        Thread.sleep(1);
      } catch (Exception e) {
        System.err.println(e);
        pause();
      }
    }
  }

  private static void pause() {
    try {
      Thread.sleep(20);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
