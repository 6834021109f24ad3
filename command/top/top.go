// Package top is seqd top: what the nodes of a running service do now, as a page that is drawn
// again and again. Each node is asked for /nodes, /metrics and /readyz ([collector]); two samples
// make a page ([newPage]); a page is drawn as text or JSON.
package top

import (
	"bytes"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
)

const (
	// shortestInterval is the shortest pause between two samples: nodes collect metrics once a
	// second.
	shortestInterval = time.Second
	// usualBizTypes is how many biz types a page has if there is no terminal to fill.
	usualBizTypes = 20
	// lookInterval is how often the size of the terminal is looked at.
	lookInterval = 200 * time.Millisecond
)

// options are the flags.
type options struct {
	interval time.Duration
	bizTypes int // 0 fills the terminal
	pages    int // 0 until the end of the context
}

// New returns the command.
func New(env *clitool.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "top", Short: "Show what the nodes do now", GroupID: clitool.GroupClient,
		Long: `Show the nodes of the service and the busiest biz types: numbers and refusals per second, durations
of calls, and the state of back ends. On a terminal the page is drawn again until q or Ctrl-C;
otherwise one page is printed. With tokens it needs the scope read. --addr names nodes, not a load
balancer; nodes that are not named are asked at the address that they listen on.

  REQ/S       requests for numbers by HTTP or the Redis protocol; REFUSED/S those that got none
  P50, P99    how long half and 99 of 100 calls take at most, without the network
  LASTS       how long the numbers in hand last without the store, at the node that has fewest
  LEFT        time until the last number of the biz type at the current rate`,
		Example: `  seqd top
  seqd top --addr http://a:8080,http://b:8080 --interval 5s -n 10
  seqd top --pages 60 >minutes.txt
  seqd top --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.interval < shortestInterval:
				return clitool.Usage("--interval %s: at least %s is needed, because nodes collect metrics once a second", o.interval, shortestInterval)
			case o.bizTypes < 0:
				return clitool.Usage("-n %d: it must not be negative", o.bizTypes)
			case o.pages < 0:
				return clitool.Usage("--pages %d: it must not be negative", o.pages)
			}
			return run(cmd.Context(), env, o)
		},
	}
	cmd.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two pages, at least 1s")
	cmd.Flags().IntVarP(&o.bizTypes, "biz-types", "n", 0, "how many biz types (default: as many as fit on the terminal, else 20)")
	cmd.Flags().IntVar(&o.pages, "pages", 0, "how many pages (default: until q or Ctrl-C on a terminal, else 1)")
	env.AddConnection(cmd)
	return cmd
}

// run draws pages.
func run(ctx context.Context, env *clitool.Env, o options) error {
	c, err := newCollector(env)
	if err != nil {
		return err
	}
	defer c.close()
	before, err := c.sample(ctx)
	if err != nil {
		return err
	}
	live := env.Terminal(env.Out) && !env.JSON
	if !live {
		o.pages = max(o.pages, 1)
	}
	var s screen
	if live {
		var stop func()
		ctx, stop = untilQuit(ctx, env)
		defer stop()
		s = screen{env: env, limit: o.bizTypes}
		s.open()
		defer s.close()
		s.draw(newPage(before, before))
	}
	for done := 0; o.pages == 0 || done < o.pages; done++ {
		if err := s.wait(ctx, o.interval); err != nil {
			if live {
				return nil // q or Ctrl-C is how a live table ends
			}
			return err
		}
		after, err := c.sample(ctx)
		switch {
		case live && ctx.Err() != nil:
			return nil
		case err != nil && !live:
			return err
		case err != nil:
			s.trouble(err)
			continue
		}
		p := newPage(before, after)
		before = after
		if live {
			s.draw(p)
		} else if err := show(env, p, o.bizTypes, done > 0); err != nil {
			return err
		}
	}
	return nil
}

// show prints a page as text or JSON.
func show(env *clitool.Env, p *page, limit int, again bool) error {
	if limit == 0 {
		limit = usualBizTypes
	}
	p.cut(limit)
	if env.JSON {
		return env.ShowJSON(p)
	}
	var b bytes.Buffer
	if again {
		b.WriteByte('\n')
	}
	for _, line := range p.lines() {
		b.WriteString(line + "\n")
	}
	_, err := env.Out.Write(b.Bytes())
	return err
}
