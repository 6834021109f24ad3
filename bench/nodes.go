package main

import (
	"context"
	"encoding/json"
	"errors"
)

// startNodes starts seqd processes on Redis and MongoDB and returns the URL of each for the biz
// type order.
func (b *backends) startNodes(ctx context.Context, o options, n int) (urls []string, err error) {
	return b.startNodesOn(ctx, o, n, b.environment("nodes")...)
}

// environment returns the settings of a process on these servers, as config does.
func (b *backends) environment(name string) []string {
	return []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + b.mongoURI, "SEQD_STORE_MONGO_DATABASE=" + b.databaseFor(name), "SEQD_REDIS_ADDRS=" + b.redisAddr,
	}
}

// startNodesOn is startNodes with the store and Redis that variables of the environment name.
func (b *backends) startNodesOn(ctx context.Context, o options, n int, backEnds ...string) (urls []string, err error) {
	if o.binary == "" {
		return nil, errors.New("-binary is needed")
	}
	bizTypes, err := json.Marshal([]map[string]any{{"name": "order", "start": firstNumber}})
	if err != nil {
		return nil, err
	}
	for range n {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		env := append([]string{"SEQD_SERVER_ADDR=" + addr, "SEQD_LOG_LEVEL=error", "SEQD_BIZTYPES=" + string(bizTypes)}, backEnds...)
		if err := b.start(ctx, addr, env, o.binary); err != nil {
			return nil, err
		}
		if err := awaitReady(ctx, "http://"+addr); err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+addr+"/seq/order")
	}
	return urls, nil
}
