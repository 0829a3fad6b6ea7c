//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func shardFaults() []Fault {
	return []Fault{{
		Name: "shard-down", Do: shardDown,
		Text: "the server of one shard is down all the time, while those of the others serve",
	}}
}

func shardDown(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) (err error) {
	if len(s.Shards) == 0 {
		return notHere("the system has no shards")
	}
	shard := s.Shards[r.IntN(len(s.Shards))]
	defer heal(ctx, &err, shard.Start)
	within, cancel := healing(ctx)
	defer cancel()
	err = shard.Crash(within)
	pause(ctx, d)
	return err
}
