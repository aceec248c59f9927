// The calls of users of go-redis, against the gateway at an address, in both protocols.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func must(condition bool, what ...any) {
	if !condition {
		panic(fmt.Sprint(what...))
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol})
		must(client.FlushDB(ctx).Err() == nil, "FLUSHDB")
		must(client.Set(ctx, "greeting", "hello", 0).Val() == "OK", "SET")
		must(client.Get(ctx, "greeting").Val() == "hello", "GET")
		must(client.Get(ctx, "nothing").Err() == redis.Nil, "GET of nothing")
		must(!client.SetNX(ctx, "greeting", "x", 0).Val(), "SETNX")
		must(client.GetDel(ctx, "greeting").Val() == "hello", "GETDEL")
		must(client.Set(ctx, "k", "v", 100*time.Second).Val() == "OK", "SET EX")
		must(client.TTL(ctx, "k").Val() > 0, "TTL")
		must(client.Del(ctx, "k").Val() == 1, "DEL")
		commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for index := 0; index < 100; index++ {
				pipe.Set(ctx, fmt.Sprint("key:", index), index, 0)
				pipe.Incr(ctx, "counter")
			}
			return nil
		})
		must(err == nil && len(commands) == 200, err)
		must(client.Get(ctx, "counter").Val() == "100", "counter")
		values := client.MGet(ctx, "key:1", "nothing", "key:2").Val()
		must(values[0] == "1" && values[1] == nil && values[2] == "2", values)
		found := map[string]bool{}
		keys := client.Scan(ctx, 0, "key:*", 10).Iterator()
		for keys.Next(ctx) {
			found[keys.Val()] = true
		}
		must(keys.Err() == nil && len(found) == 100, len(found), keys.Err())
		must(client.DBSize(ctx).Val() == 101, "DBSIZE")
		must(client.Del(ctx, "key:1", "nothing").Val() == 1, "DEL")
		must(client.Close() == nil, "closing")
	}
	fmt.Println("done")
}
