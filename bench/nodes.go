package main

import (
	"context"
	"encoding/json"
	"errors"
)

// startNodes starts seqd processes on these servers and returns the URL of each for the biz type
// order.
func (b *backends) startNodes(ctx context.Context, o options, n int) (urls []string, err error) {
	if o.binary == "" {
		return nil, errors.New("-binary is needed")
	}
	bizTypes, err := json.Marshal([]map[string]any{{"name": "order", "start": firstNumber}})
	if err != nil {
		return nil, err
	}
	database := b.databaseFor("nodes")
	for range n {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		env := []string{
			"SEQD_SERVER_ADDR=" + addr, "SEQD_LOG_LEVEL=error", "SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + b.mongoURI,
			"SEQD_STORE_MONGO_DATABASE=" + database, "SEQD_REDIS_ADDRS=" + b.redisAddr, "SEQD_BIZTYPES=" + string(bizTypes),
		}
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
