//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

func networkFaults() []Fault {
	return []Fault{
		{
			Name: "reset-connections", Do: resetConnections,
			Text: "all connections to the server break, once or twice a second",
		},
		{
			Name: "refused-connections", Do: refusedConnections,
			Text: "all connections to the server break, and new ones are refused",
		},
		{
			Name: "half-open", Do: halfOpen,
			Text: "sessions end and their clients are not told: their connections stand and say " +
				"nothing",
		},
		{
			Name: "black-hole", Do: blocks(pgcut.ToServer, pgcut.ToClient),
			Text: "nothing that is sent arrives, and nothing breaks; in the end all of it arrives",
		},
		{
			Name: "requests-vanish", Do: blocks(pgcut.ToServer),
			Text: "answers and messages arrive, and requests do only in the end",
		},
		{
			Name: "answers-vanish", Do: blocks(pgcut.ToClient),
			Text: "requests arrive and are executed, and answers arrive only in the end",
		},
		{
			Name: "latency", Do: latency,
			Text: "requests and answers take longer by milliseconds, and one in a hundred by up " +
				"to a second",
		},
	}
}

func resetConnections(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	return repeat(ctx, r, d, time.Second/2, time.Second, func() error {
		proxies, err := through(s, r)
		for _, proxy := range proxies {
			proxy.HangUp()
		}
		return err
	})
}

func refusedConnections(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) error {
	proxies, err := through(s, r)
	for _, proxy := range proxies {
		proxy.Refuse(true)
		defer proxy.Refuse(false)
		proxy.HangUp()
	}
	pause(ctx, d)
	return err
}

// halfOpen ends with what a firewall does when it hears of a connection that it does not know.
func halfOpen(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	proxies, err := through(s, r)
	for _, proxy := range proxies {
		proxy.Orphan()
		defer proxy.HangUp()
	}
	pause(ctx, d)
	return err
}

func blocks(
	ways ...pgcut.Way,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
		proxies, err := through(s, r)
		for _, proxy := range proxies {
			for _, way := range ways {
				proxy.Block(way, true)
				defer proxy.Block(way, false)
			}
		}
		pause(ctx, d)
		return err
	}
}

func latency(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const (
		rare        = 100 // one in so many takes long, as if it had to be sent again
		shortest    = time.Millisecond
		usual       = 30 * time.Millisecond
		jitter      = 20 * time.Millisecond
		sentAgain   = 200 * time.Millisecond
		sentOftener = time.Second
	)
	proxies, err := through(s, r)
	dice, base := newDice(r), between(r, shortest, usual)
	delay := func() time.Duration {
		if dice.chance(rare) {
			return dice.between(sentAgain, sentOftener)
		}
		return base + dice.between(0, jitter)
	}
	for _, proxy := range proxies {
		for _, way := range []pgcut.Way{pgcut.ToServer, pgcut.ToClient} {
			proxy.Delay(way, delay)
			defer proxy.Delay(way, nil)
		}
	}
	pause(ctx, d)
	return err
}
