//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

func protocolFaults() []Fault {
	return []Fault{
		{
			Name: "lost-commit", Do: cuts(pgcut.AtReply, commits),
			Text: "transactions commit, and the connection breaks before their clients know",
		},
		{
			Name: "lost-answer", Do: cuts(pgcut.AtReply, anything),
			Text: "the server answers, and the connection breaks before anything arrives",
		},
		{
			Name: "torn-answer", Do: cuts(pgcut.InReply, anything),
			Text: "the server answers, and the connection breaks when half has arrived",
		},
		{
			Name: "lost-request", Do: cuts(pgcut.AtRequest, anything),
			Text: "connections break before the server sees what was asked",
		},
		{
			Name: "late-request", Do: lateRequests,
			Text: "connections break, and the server executes later what was asked",
		},
	}
}

func anything(pgcut.Request) bool { return true }

// commits reports whether a request commits: a transaction, or a statement that is one by itself.
func commits(request pgcut.Request) bool {
	before := len(request.Transaction) - len(request.Statements)
	inside := false
	for i, text := range request.Transaction {
		verb, _, _ := strings.Cut(strings.ToLower(text), " ")
		switch strings.TrimSuffix(verb, ";") {
		case "begin":
			inside = true
		case "commit":
			if i >= before {
				return true
			}
			inside = false
		case "rollback":
			inside = inside && strings.Contains(text, " ") // to a savepoint
		}
	}
	return !inside && len(request.Statements) > 0
}

// through are the proxies of some processes: of all, or of each with a chance of a half.
func through(s *system.System, r *rand.Rand) ([]*pgcut.Proxy, error) {
	if len(s.Proxies) == 0 {
		return nil, notHere("no process reaches the server through a proxy")
	}
	if r.IntN(2) == 0 {
		return s.Proxies, nil
	}
	some := []*pgcut.Proxy{s.Proxies[r.IntN(len(s.Proxies))]}
	for _, p := range s.Proxies {
		if p != some[0] && r.IntN(2) == 0 {
			some = append(some, p)
		}
	}
	return some, nil
}

// cuts is a fault that cuts the connections of some requests that match: one of 5 to 50.
func cuts(
	at pgcut.Instant, match pgcut.Match,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
		const least, most = 5, 50
		proxies, err := through(s, r)
		if err != nil {
			return err
		}
		dice, of := newDice(r), least+r.IntN(most-least+1)
		for _, proxy := range proxies {
			trap := proxy.CutEach(at, func(request pgcut.Request) bool {
				return match(request) && dice.chance(of)
			})
			defer proxy.Withdraw(trap)
		}
		pause(ctx, d)
		return nil
	}
}

// lateRequests has, in each proxy, one request at a time that arrives late.
func lateRequests(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const of, latest = 10, 2 * time.Second
	proxies, err := through(s, r)
	if err != nil {
		return err
	}
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	dice := newDice(r)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, proxy := range proxies {
		waiting.Go(func() {
			for live.Err() == nil {
				trap := proxy.Hold(pgcut.AtRequest, func(request pgcut.Request) bool {
					return len(request.Statements) > 0 && dice.chance(of)
				})
				if err := sprung(live, proxy, trap); err != nil {
					return
				}
				trap.Abandon()
				pause(live, dice.between(time.Millisecond, latest))
				trap.Release()
			}
		})
	}
	return nil
}

// sprung waits until a request is in a trap. If ctx ends before, it withdraws the trap.
func sprung(ctx context.Context, proxy *pgcut.Proxy, trap *pgcut.Trap) error {
	select {
	case <-trap.Reached():
		return nil
	case <-ctx.Done():
	}
	if proxy.Withdraw(trap) {
		return ctx.Err()
	}
	trap.Release()
	return ctx.Err()
}
