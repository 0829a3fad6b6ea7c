package stint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint/internal/limit"
)

// This file says what the limits are. They count where tasks are fetched: own_limited.go and
// sql/own/own_limited.sql. internal/limit changes them, and puts parked tasks back into the queue.

// Limits bound how tasks with one action are fetched, by all stores of the schema together. They
// are kept in the database, so a change takes effect everywhere with the next fetch.
type Limits struct {
	// Concurrency is how many tasks may be in progress at once, at most 10⁹; 0: any number.
	Concurrency int
	// ConcurrencyPerKey is how many tasks of each key may be in progress at once, at most 1,000; 0:
	// any number.
	ConcurrencyPerKey int
	// Rate is how many tasks may be fetched in a time; zero: any number.
	Rate Rate
	// RatePerKey is how many tasks of each key may be fetched in a time; zero: any number.
	RatePerKey Rate
	// Fair makes keys take turns within a priority, in proportion to their weights: see
	// [Store.SetWeights].
	Fair bool
	// FairGroup names a group of fair actions in which a key gets one share of all of them together
	// rather than one of each. It needs Fair, and has up to 255 bytes. Empty: no group.
	FairGroup string
	// Ordered performs the tasks of each key one at a time, in the order in which they became
	// ready, within a priority: a task that was fetched holds its key until it has ended or is
	// deleted, through tries and expired leases. ConcurrencyPerKey is 1 then. Not with Fair.
	Ordered bool
	// ByCost makes rates and fair shares count what tasks cost, [Task.Cost], rather than tasks: a
	// budget. A bucket from which a task is fetched as long as it holds one token may owe tokens
	// afterwards, at most what one task costs; it is paid first. What a try has really spent,
	// [Return.Spent], is settled by the next fetch, which gets one task. It needs a rate or Fair.
	ByCost bool
}

// A Rate is so many tasks in a time, as a bucket to which tokens come evenly and from which each
// fetch of a task takes one, or with [Limits.ByCost] what the task costs. The zero Rate is no
// limit.
type Rate struct {
	Tasks int           // 1 to 10⁹; tokens, with ByCost
	Per   time.Duration // a microsecond to a year
	// Burst is how many tokens the bucket holds, and so how many tasks may be fetched at once
	// after a while without any: at most 10⁹, and what comes in 1,000 years. Default: what comes in
	// a second, at least 1.
	Burst int
}

const (
	concurrencyMax = 1_000_000_000
	perKeyMax      = 1000
	rateTasksMax   = 1_000_000_000
	ratePerMax     = 366 * 24 * time.Hour
	bucketYearsMax = 1000

	// ownActionsPrefix begins the actions that the packages of this module have for themselves.
	ownActionsPrefix = "stint."
)

// SetLimits sets the limits of an action, in the place of those that it has; the zero Limits are
// none. It takes effect for fetches that begin after it returned. Pauses and weights stay. The
// action need not have tasks yet. If there are more tasks in progress than a new limit allows, they
// stay with their owners, and nothing is fetched until there is capacity.
//
// A new rate begins with a full bucket; if there was a rate before, its tokens stay, as far as the
// new bucket holds them. The bucket of a key is full when it would have been by the rate before, or
// when the new rate has filled an empty one, whichever comes first.
//
// Releases that do not know of limits, those for version 1 of the schema, would fetch tasks
// regardless. So as long as their stores are connected, SetLimits refuses with [ErrSchemaVersion],
// and afterwards they do not start, until there are no limits and pauses any more. It cannot see
// those with PollOnly, nor those that have used the store, but have neither owned tasks nor waited
// yet. The function add_task of such a release refuses, too: install that of this release first
// (migrations/functions.sql).
//
// So that tasks that were fetched before count towards a limit of tasks in progress, or a rate,
// SetLimits waits for the transactions that fetch, return or change tasks at that
// moment, however long these take. For a limit of tasks in progress, it then looks through all of
// them. If ctx ends meanwhile, or something fails, the error says that the limits are in force, but
// that such tasks may not count yet: call again. Otherwise a call that is cut off may or may not
// have taken effect. It may be repeated after any failure, and be made concurrently: the last one
// counts.
//
// It is refused in the caller's transaction, with an [*ArgumentError], since that would hold up
// every fetch of the action until it ends. Actions that begin with "stint." are refused, too:
// the packages of this module have them for tasks of their own, which must not wait.
func (s *Store) SetLimits(ctx context.Context, action string, limits Limits) error {
	if err := s.setLimits(ctx, action, limits); err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	return nil
}

func (s *Store) setLimits(ctx context.Context, action string, limits Limits) error {
	if err := s.checkLimiting(action); err != nil {
		return err
	}
	if err := limits.check(); err != nil {
		return err
	}
	applied, err := s.limits.Set(ctx, action, limits.toEngine())
	if !applied {
		err = fmt.Errorf("they are in force, but tasks that were fetched before may not count "+
			"yet: call again: %w", err)
	}
	return err
}

// toEngine returns the limits with the bursts that are left out.
func (l *Limits) toEngine() limit.Limits {
	return limit.Limits{
		Concurrency: l.Concurrency, ConcurrencyPerKey: l.ConcurrencyPerKey,
		Rate: limit.Rate(l.Rate).Filled(), RatePerKey: limit.Rate(l.RatePerKey).Filled(),
		Fair: l.Fair, FairGroup: l.FairGroup, Ordered: l.Ordered, ByCost: l.ByCost,
	}
}

// checkLimiting refuses what no verb may set that changes limits, pauses or weights of an action.
func (s *Store) checkLimiting(actions ...string) error {
	err := s.outsideTx(", whose lock would hold up every fetch of the action")
	if err != nil {
		return err
	}
	if len(actions) > actionsMax {
		return tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		err := checkText("action", action, actionBytesMax)
		if err == nil && strings.HasPrefix(action, ownActionsPrefix) {
			err = argumentError("action", "must not begin with stint.: the packages of this "+
				"module have such actions, and must not wait")
		}
		if err != nil && len(actions) > 1 {
			err = at(err, i, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Limits) check() error {
	switch {
	case l.Concurrency < 0 || l.Concurrency > concurrencyMax:
		return argumentError("Limits.Concurrency", "must be 0 to 1000000000")
	case l.ConcurrencyPerKey < 0:
		return argumentError("Limits.ConcurrencyPerKey", "must not be negative")
	case l.ConcurrencyPerKey > perKeyMax:
		return tooLarge("Limits.ConcurrencyPerKey", l.ConcurrencyPerKey, perKeyMax)
	case l.Ordered && l.ConcurrencyPerKey > 1:
		return argumentError("Limits.ConcurrencyPerKey", "must be 1, or be left out, with Ordered")
	case l.ByCost && !l.Fair && l.Rate == Rate{} && l.RatePerKey == Rate{}:
		return argumentError("Limits.ByCost", "needs a rate, or Fair")
	case l.Ordered && l.Fair:
		return argumentError("Limits.Fair", "must not be set with Ordered")
	case l.FairGroup != "" && !l.Fair:
		return argumentError("Limits.FairGroup", "needs Fair")
	case l.FairGroup != "":
		if err := checkText("Limits.FairGroup", l.FairGroup, actionBytesMax); err != nil {
			return err
		}
	}
	if err := l.Rate.check("Limits.Rate"); err != nil {
		return err
	}
	return l.RatePerKey.check("Limits.RatePerKey")
}

func (r Rate) check(name string) error {
	switch {
	case r == Rate{}:
	case r.Tasks < 1 || r.Tasks > rateTasksMax:
		return argumentError(name+".Tasks", "must be 1 to 1000000000")
	case r.Per < time.Microsecond || r.Per > ratePerMax:
		return argumentError(name+".Per", "must be a microsecond to a year")
	case r.Burst < 0 || r.Burst > rateTasksMax:
		return argumentError(name+".Burst", "must be 0 to 1000000000")
	case float64(r.Burst) > bucketYearsMax*float64(ratePerMax)/float64(r.Per)*float64(r.Tasks):
		return argumentError(name+".Burst", "must be no more than what comes in 1000 years")
	}
	return nil
}

const weightMax = 1000

// SetWeights sets the weights of keys of an action, 1 to 1,000 each. If keys take turns
// ([Limits].Fair), three times as many tasks are fetched of a key with weight 3 as of one with
// weight 1, as long as both have some that are ready. Default: 1. Keys that are not named keep
// theirs. Where keys do not take turns, weights are kept, and have no effect.
//
// It takes 10,000 keys at most, is refused in the caller's transaction, and may be repeated after
// any failure.
func (s *Store) SetWeights(ctx context.Context, action string, weights map[string]int) error {
	if err := s.setWeights(ctx, action, weights); err != nil {
		return fmt.Errorf("set weights: %w", err)
	}
	return nil
}

func (s *Store) setWeights(ctx context.Context, action string, weights map[string]int) error {
	if err := s.checkLimiting(action); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(weights))
	if err := checkKeys(keys); err != nil {
		return err
	}
	numbers := make([]int32, len(keys))
	for i, key := range keys {
		if weights[key] < 1 || weights[key] > weightMax {
			return argumentError("weights",
				fmt.Sprintf("must be 1 to 1000, not %d as for key %.40q", weights[key], key))
		}
		numbers[i] = int32(weights[key]) //nolint:gosec // just checked
	}
	if len(keys) == 0 {
		return s.db.CheckOpen(ctx)
	}
	return s.limits.SetWeights(ctx, action, keys, numbers)
}

// Pause stops the fetches of tasks with these actions, by all stores of the schema, until
// [Store.Resume]. It takes effect for fetches that begin after it returned. Owners go on with
// what they own, and tasks may be inserted. To pause an action again changes nothing: it stays
// paused since the first time. Limits stay as they are.
//
// As with [Store.SetLimits], it is refused with [ErrSchemaVersion] as long as stores of releases
// are connected that do not know of pauses, for actions that begin with "stint.", and in the
// caller's transaction. The call may be repeated after any failure.
func (s *Store) Pause(ctx context.Context, actions ...string) error {
	if err := s.pauseActions(ctx, actions, true); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// Resume ends what [Store.Pause] has begun. Actions that are not paused stay as they are, and so do
// paused keys. It is refused in the caller's transaction. The call may be repeated after any
// failure.
func (s *Store) Resume(ctx context.Context, actions ...string) error {
	if err := s.pauseActions(ctx, actions, false); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

func (s *Store) pauseActions(ctx context.Context, actions []string, pause bool) error {
	if err := s.checkLimiting(actions...); err != nil {
		return err
	}
	if len(actions) == 0 {
		return s.db.CheckOpen(ctx)
	}
	actions = sorted(actions)
	if pause {
		return s.limits.PauseActions(ctx, actions)
	}
	return s.limits.ResumeActions(ctx, actions)
}

// PauseKeys stops the fetches of tasks with these keys of an action, as [Store.Pause] does for a
// whole action. It takes 10,000 keys at most.
func (s *Store) PauseKeys(ctx context.Context, action string, keys ...string) error {
	if err := s.pauseKeys(ctx, action, keys, true); err != nil {
		return fmt.Errorf("pause keys: %w", err)
	}
	return nil
}

// ResumeKeys ends what [Store.PauseKeys] has begun. Keys that are not paused stay as they are, and
// so does the pause of the whole action. It is refused in the caller's transaction. The call may be
// repeated after any failure.
func (s *Store) ResumeKeys(ctx context.Context, action string, keys ...string) error {
	if err := s.pauseKeys(ctx, action, keys, false); err != nil {
		return fmt.Errorf("resume keys: %w", err)
	}
	return nil
}

func (s *Store) pauseKeys(ctx context.Context, action string, keys []string, pause bool) error {
	if err := s.checkLimiting(action); err != nil {
		return err
	}
	if err := checkKeys(keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		return s.db.CheckOpen(ctx)
	}
	keys = sorted(keys)
	if pause {
		return s.limits.PauseKeys(ctx, action, keys)
	}
	unparked, err := s.limits.ResumeKeys(ctx, action, keys)
	if !unparked {
		err = fmt.Errorf("they are resumed, but some tasks may wait longer: call again: %w", err)
	}
	return err
}

func checkKeys(keys []string) error {
	if len(keys) > limit.KeysMax {
		return tooLarge("keys", len(keys), limit.KeysMax)
	}
	for i, key := range keys {
		if err := checkText("key", key, keyBytesMax); err != nil {
			return at(err, i, "")
		}
	}
	return nil
}

// sorted returns the names in order, each once.
func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// ActionLimits is how an action is limited and paused, and what that means at this moment.
type ActionLimits struct {
	Action string
	// Limits are as they were set, zero if there are none. A Burst that was left out is filled in.
	Limits Limits
	// SetAt is when the limits were set; zero if there are none.
	SetAt time.Time
	// PausedSince is since when the whole action is paused; zero if it is not.
	PausedSince time.Time

	// InProgress is how many tasks are in progress, which is more than Limits.Concurrency if that
	// was lowered. They are counted only where that or ConcurrencyPerKey is set.
	InProgress int
	// Parked is how many ready tasks wait for capacity below a limit of their key, for the end of
	// its pause, or for its turn. Counting stops at 100,000: ParkedOrMore says that there may be
	// more.
	Parked       int
	ParkedOrMore bool

	// Tokens is how many tokens the bucket of Limits.Rate holds. NextAt is when it has the next one
	// to fetch a task with, zero if it has one.
	Tokens float64
	NextAt time.Time

	// PausedKeys are the keys that are paused, and since when; Weights those with another weight
	// than 1. KeysOrMore says that there may be more: all actions of an answer together have 10,000
	// keys at most.
	PausedKeys map[string]time.Time
	Weights    map[string]int
	KeysOrMore bool
}

// ListLimits returns the limits, pauses and weights of these actions, or, if none is named, of all,
// in the order of the actions' names. Those that have neither limits nor pauses nor weights are
// left out.
func (s *Store) ListLimits(ctx context.Context, actions ...string) ([]ActionLimits, error) {
	list, err := s.listLimits(ctx, actions)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return list, nil
}

func (s *Store) listLimits(ctx context.Context, actions []string) ([]ActionLimits, error) {
	if len(actions) > actionsMax {
		return nil, tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return nil, at(err, i, "")
		}
	}
	var named []string // nil: all
	if len(actions) > 0 {
		named = sorted(actions)
	}
	found, err := limit.List(ctx, s.db, named)
	if err != nil {
		return nil, err
	}
	list := make([]ActionLimits, len(found))
	for i := range found {
		list[i] = actionLimits(&found[i])
	}
	return list, nil
}

func fromEngine(l limit.Limits) Limits {
	return Limits{
		Concurrency: l.Concurrency, ConcurrencyPerKey: l.ConcurrencyPerKey, Rate: Rate(l.Rate),
		RatePerKey: Rate(l.RatePerKey), Fair: l.Fair, FairGroup: l.FairGroup,
		Ordered: l.Ordered, ByCost: l.ByCost,
	}
}

func actionLimits(l *limit.Info) ActionLimits {
	return ActionLimits{
		Action: l.Action, Limits: fromEngine(l.Limits), SetAt: l.SetAt,
		PausedSince: l.PausedSince, NextAt: l.NextAt, InProgress: l.InProgress, Parked: l.Parked,
		ParkedOrMore: l.ParkedOrMore, Tokens: l.Tokens,
		PausedKeys: l.PausedKeys, Weights: l.Weights, KeysOrMore: l.KeysOrMore,
	}
}
