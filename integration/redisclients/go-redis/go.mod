module github.com/seqd/seqd/integration/redisclients/go-redis

go 1.26

require github.com/redis/go-redis/v9 v9.20.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)
