package wire

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/limit"
)

// FromLimits converts limits into a message.
func FromLimits(l stint.Limits) *stintv1.Limits {
	return &stintv1.Limits{
		Concurrency: Int32(l.Concurrency), ConcurrencyPerKey: Int32(l.ConcurrencyPerKey),
		Rate: fromRate(l.Rate), RatePerKey: fromRate(l.RatePerKey), Fair: l.Fair,
		FairGroup: l.FairGroup, Ordered: l.Ordered, ByCost: l.ByCost,
	}
}

// ToLimits converts a message into limits; nil into none.
func ToLimits(l *stintv1.Limits) stint.Limits {
	return stint.Limits{
		Concurrency:       int(l.GetConcurrency()),
		ConcurrencyPerKey: int(l.GetConcurrencyPerKey()),
		Rate:              toRate(l.GetRate()), RatePerKey: toRate(l.GetRatePerKey()),
		Fair: l.GetFair(), FairGroup: l.GetFairGroup(), Ordered: l.GetOrdered(),
		ByCost: l.GetByCost(),
	}
}

// WithSeenLimits returns a context in which SetLimits fails with [limit.ErrChanged], and sets
// nothing, unless the limits of the action are still those that the caller has seen.
func WithSeenLimits(ctx context.Context, seen stint.Limits) context.Context {
	return limit.WithSeen(ctx, limit.Limits{
		Concurrency: seen.Concurrency, ConcurrencyPerKey: seen.ConcurrencyPerKey,
		Rate: limit.Rate(seen.Rate), RatePerKey: limit.Rate(seen.RatePerKey), Fair: seen.Fair,
		FairGroup: seen.FairGroup, Ordered: seen.Ordered, ByCost: seen.ByCost,
	})
}

// FromSeenLimits converts the limits of such a context into a message; nil if it has none.
func FromSeenLimits(ctx context.Context) *stintv1.Limits {
	seen, ok := limit.SeenIn(ctx)
	if !ok {
		return nil
	}
	return FromLimits(stint.Limits{
		Concurrency: seen.Concurrency, ConcurrencyPerKey: seen.ConcurrencyPerKey,
		Rate: stint.Rate(seen.Rate), RatePerKey: stint.Rate(seen.RatePerKey), Fair: seen.Fair,
		FairGroup: seen.FairGroup, Ordered: seen.Ordered, ByCost: seen.ByCost,
	})
}

func fromRate(r stint.Rate) *stintv1.Rate {
	if r == (stint.Rate{}) {
		return nil
	}
	return &stintv1.Rate{
		Tasks: Int32(r.Tasks), Per: durationpb.New(r.Per), Burst: Int32(r.Burst),
	}
}

func toRate(r *stintv1.Rate) stint.Rate {
	return stint.Rate{
		Tasks: int(r.GetTasks()), Per: r.GetPer().AsDuration(), Burst: int(r.GetBurst()),
	}
}

// FromActionLimits converts a list of limits into messages.
func FromActionLimits(list []stint.ActionLimits) []*stintv1.ActionLimits {
	messages := make([]*stintv1.ActionLimits, len(list))
	for i := range list {
		l := &list[i]
		messages[i] = &stintv1.ActionLimits{
			Action: l.Action, Limits: FromLimits(l.Limits), SetAt: fromTime(l.SetAt),
			PausedSince: fromTime(l.PausedSince), InProgress: int64(l.InProgress),
			Parked: int64(l.Parked), ParkedOrMore: l.ParkedOrMore, Tokens: l.Tokens,
			NextAt: fromTime(l.NextAt), Keys: fromKeys(l), KeysOrMore: l.KeysOrMore,
		}
	}
	return messages
}

// ToActionLimits converts messages into a list of limits.
func ToActionLimits(messages []*stintv1.ActionLimits) []stint.ActionLimits {
	var list []stint.ActionLimits
	for _, m := range messages {
		l := stint.ActionLimits{
			Action: m.GetAction(), Limits: ToLimits(m.GetLimits()), SetAt: toTime(m.GetSetAt()),
			PausedSince: toTime(m.GetPausedSince()), InProgress: int(m.GetInProgress()),
			Parked: int(m.GetParked()), ParkedOrMore: m.GetParkedOrMore(), Tokens: m.GetTokens(),
			NextAt: toTime(m.GetNextAt()), KeysOrMore: m.GetKeysOrMore(),
		}
		for _, key := range m.GetKeys() {
			if key.GetPausedSince() != nil {
				l.PausedKeys = with(l.PausedKeys, key.GetKey(), toTime(key.GetPausedSince()))
			}
			if key.GetWeight() > 1 {
				l.Weights = with(l.Weights, key.GetKey(), int(key.GetWeight()))
			}
		}
		list = append(list, l)
	}
	return list
}

func with[V any](values map[string]V, key string, value V) map[string]V {
	if values == nil {
		values = map[string]V{}
	}
	values[key] = value
	return values
}

// fromKeys returns the keys of an action that are paused or have a weight, in order.
func fromKeys(l *stint.ActionLimits) []*stintv1.LimitedKey {
	keys := make([]*stintv1.LimitedKey, 0, len(l.PausedKeys))
	for _, key := range sortedKeys(l.PausedKeys, l.Weights) {
		keys = append(keys, &stintv1.LimitedKey{
			Key: key, PausedSince: fromTime(l.PausedKeys[key]),
			Weight: Int32(max(l.Weights[key], 1)),
		})
	}
	return keys
}

// FromWeights converts the weights of keys into messages, in the order of the keys.
func FromWeights(weights map[string]int) []*stintv1.KeyWeight {
	messages := make([]*stintv1.KeyWeight, 0, len(weights))
	for _, key := range sortedKeys(nil, weights) {
		messages = append(messages, &stintv1.KeyWeight{Key: key, Weight: Int32(weights[key])})
	}
	return messages
}

// ToWeights converts messages into the weights of keys. Of a key that comes twice, the last weight
// counts.
func ToWeights(messages []*stintv1.KeyWeight) map[string]int {
	weights := make(map[string]int, len(messages))
	for _, m := range messages {
		weights[m.GetKey()] = int(m.GetWeight())
	}
	return weights
}

func sortedKeys(some map[string]time.Time, more map[string]int) []string {
	all := make(map[string]bool, len(some)+len(more))
	for key := range some {
		all[key] = true
	}
	for key := range more {
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// FromTaskLimits converts what holds up a task into a message; nil into nil.
func FromTaskLimits(l *stint.TaskLimits) *stintv1.TaskLimits {
	if l == nil {
		return nil
	}
	return &stintv1.TaskLimits{
		Limits: FromLimits(l.Limits), PausedSince: fromTime(l.PausedSince),
		KeyPausedSince: fromTime(l.KeyPausedSince), InProgress: int64(l.InProgress),
		Owned:         FromInfos(l.Owned, false),
		KeyInProgress: int64(l.KeyInProgress), KeyOwned: FromInfos(l.KeyOwned, false),
		NextAt: fromTime(l.NextAt), KeyNextAt: fromTime(l.KeyNextAt),
		KeyWaiting: int64(l.KeyWaiting), KeyWaitingOrMore: l.KeyWaitingOrMore,
		WaitsForTurn: l.WaitsForTurn, TurnsAhead: int64(l.TurnsAhead),
		Parked: l.Parked, Hidden: l.Hidden, Tokens: l.Tokens, KeyTokens: l.KeyTokens,
	}
}

// ToTaskLimits converts a message into what holds up a task; nil into nil.
func ToTaskLimits(m *stintv1.TaskLimits) *stint.TaskLimits {
	if m == nil {
		return nil
	}
	return &stint.TaskLimits{
		Limits: ToLimits(m.GetLimits()), PausedSince: toTime(m.GetPausedSince()),
		KeyPausedSince: toTime(m.GetKeyPausedSince()), InProgress: int(m.GetInProgress()),
		Owned:         ToInfos(m.GetOwned()),
		KeyInProgress: int(m.GetKeyInProgress()), KeyOwned: ToInfos(m.GetKeyOwned()),
		NextAt: toTime(m.GetNextAt()), KeyNextAt: toTime(m.GetKeyNextAt()),
		KeyWaiting: int(m.GetKeyWaiting()), KeyWaitingOrMore: m.GetKeyWaitingOrMore(),
		WaitsForTurn: m.GetWaitsForTurn(), TurnsAhead: int(m.GetTurnsAhead()),
		Parked: m.GetParked(), Hidden: m.GetHidden(),
		Tokens: m.GetTokens(), KeyTokens: m.GetKeyTokens(),
	}
}

// FromStart converts when a task will start into a message; nil into nil.
func FromStart(s *stint.Start) *stintv1.Start {
	if s == nil {
		return nil
	}
	return &stintv1.Start{
		At: fromTime(s.At), OrLater: s.OrLater, Before: s.Before, BeforeOrMore: s.BeforeOrMore,
		PerMinute: s.PerMinute, Unknown: s.Unknown,
	}
}

// ToStart converts a message into when a task will start; nil into nil.
func ToStart(m *stintv1.Start) *stint.Start {
	if m == nil {
		return nil
	}
	return &stint.Start{
		At: toTime(m.GetAt()), OrLater: m.GetOrLater(), Before: m.GetBefore(),
		BeforeOrMore: m.GetBeforeOrMore(), PerMinute: m.GetPerMinute(), Unknown: m.GetUnknown(),
	}
}
