// Command go-redis takes numbers from seqd with go-redis.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// connect returns a client for a URL such as redis://:seqd_token@127.0.0.1:6380.
func connect(url string) *redis.Client {
	options, err := redis.ParseURL(url)
	must(err)
	options.Protocol, err = strconv.Atoi(os.Getenv("SEQD_PROTOCOL"))
	must(err)
	return redis.NewClient(options)
}

var client = connect(os.Getenv("SEQD_REDIS"))

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func check(holds bool, what ...any) {
	if !holds {
		log.Panicln(what...)
	}
}

func numbers() {
	one, err := client.Incr(ctx, "order").Result()
	must(err)
	last, err := client.IncrBy(ctx, "order", 10).Result() // ten consecutive numbers: last-9 to last
	must(err)
	check(one < last-9, one, last)
	ids, err := client.Do(ctx, "SEQ.NEXT", "order", "COUNT", 5).StringSlice() // as text
	must(err)
	check(len(ids) == 5 && increasing(append([]int64{last}, parsed(ids)...)), last, ids)
	invoices, err := client.Do(ctx, "SEQ.NEXT", "invoice", "COUNT", 2).StringSlice()
	must(err)
	check(strings.HasPrefix(invoices[0], "INV-") && invoices[0] < invoices[1], invoices)
}

func parsed(ids []string) (values []int64) {
	for _, id := range ids {
		value, err := strconv.ParseInt(id, 10, 64)
		must(err)
		values = append(values, value)
	}
	return values
}

func increasing(values []int64) bool {
	return slices.IsSorted(values) && len(slices.Compact(slices.Clone(values))) == len(values)
}

func pipeline() {
	answers, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range 1000 {
			pipe.Incr(ctx, "order")
		}
		return nil
	})
	must(err)
	var values []int64
	for _, answer := range answers {
		values = append(values, answer.(*redis.IntCmd).Val())
	}
	check(len(values) == 1000 && increasing(values), values)
}

// callers takes numbers from many goroutines, which share a pool of connections.
func callers() {
	taken := make([][]int64, 8)
	var all sync.WaitGroup
	for i := range taken {
		all.Go(func() {
			for range 100 {
				value, err := client.Incr(ctx, "order").Result()
				must(err)
				taken[i] = append(taken[i], value)
			}
		})
	}
	all.Wait()
	for _, values := range taken {
		check(increasing(values), values)
	}
	values := slices.Concat(taken...)
	slices.Sort(values)
	check(len(values) == 800 && increasing(values), values)
}

// refused checks that a command is refused with an error that has this text.
func refused(text string, command ...any) {
	answer, err := client.Do(ctx, command...).Result()
	check(err != nil && strings.Contains(err.Error(), text), command, answer, err)
}

func mistakes() {
	refused("unknown_biz_type", "INCR", "nobody")
	refused("SEQ.NEXT", "INCR", "invoice")
	refused("unknown command", "GET", "order")
	refused("invalid_count", "INCRBY", "order", 0)
	refused("invalid_count", "INCRBY", "order", -1)
	refused("invalid_count", "INCRBY", "order", "9223372036854775808")
	refused("invalid_count", "SEQ.NEXT", "order", "COUNT", 1_000_000)
}

// transaction checks that a transaction is refused, and that afterwards answers belong to their
// commands.
func transaction() {
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		return pipe.Incr(ctx, "order").Err()
	})
	check(err != nil && strings.Contains(err.Error(), "MULTI"), "a transaction:", err)
	numbers()
}

func wrongToken() {
	service, err := url.Parse(os.Getenv("SEQD_REDIS"))
	must(err)
	if service.User == nil {
		return // this seqd takes no tokens
	}
	for _, user := range []*url.Userinfo{url.UserPassword("", "seqd_wrong"), nil} {
		service.User = user
		err := connect(service.String()).Incr(ctx, "order").Err()
		check(err != nil && (strings.HasPrefix(err.Error(), "WRONGPASS") || strings.HasPrefix(err.Error(), "NOAUTH")), err)
	}
}

// restart checks that the client connects again after the service was killed and started.
func restart() {
	before, err := client.Incr(ctx, "order").Result()
	must(err)
	fmt.Println("restart")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	// go-redis repeats a command three times. With TLS, more connections of its pool may be broken.
	var after int64
	for range 20 {
		if after, err = client.Incr(ctx, "order").Result(); err == nil {
			break
		}
	}
	must(err)
	check(before < after, before, after)
}

func main() {
	numbers()
	pipeline()
	callers()
	mistakes()
	transaction()
	wrongToken()
	restart()
	must(client.Close())
	fmt.Println("all as it should be")
}
