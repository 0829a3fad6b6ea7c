package stint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// makeRoom brings back parked tasks for those that the next step takes from their owners. In the
// caller's transaction, those of fair actions and of keys with a rate come back behind its end.
func (s *Store) makeRoom(lo, hi, claims []int64, pending *pg.Notices) pg.Step {
	if !s.db.InCallersTx() {
		return roomStep(lo, hi, claims, nil, nil, pending)
	}
	own := s.on(s.db.Outside())
	return lastingRoomStep(lo, hi, claims, nil, nil, pending, own.lookLater)
}

// noteLimited tells those who wait for room below the limits of actions of the tasks that the next
// step takes from their owners. It brings nothing back, as makeRoom does: that it is enough is
// known from hand-outs. If keys have got limits since, the maintainers bring back tasks this once.
func (s *Store) noteLimited(lo, hi, claims []int64, pending *pg.Notices) pg.Step {
	return pg.Step{
		Name: "note_limited", Args: []any{lo, hi, claims},
		Read: func(rows pgx.Rows) error {
			var action string
			var kind limitKind
			_, err := pgx.ForEachRow(rows,
				[]any{&action, &kind.keyed, &kind.rates, &kind.fair}, func() error {
					pending.Add(readyTopic(action))
					if kind.keyed {
						s.limited.learn([]string{action}, map[string]limitKind{action: kind})
					}
					return nil
				})
			return err
		},
	}
}

// fillRoom brings back parked tasks of keys as far as there is room for them.
func fillRoom(keys []parkedKey, pending *pg.Notices) pg.Step {
	return roomStep(nil, nil, nil, keys, nil, pending)
}

// wakeKeys brings back parked tasks of keys for which tokens have come.
func wakeKeys(actions []string, pending *pg.Notices) pg.Step {
	return roomStep(nil, nil, nil, nil, actions, pending)
}

func roomStep(
	lo, hi, claims []int64, parked []parkedKey, waking []string, pending *pg.Notices,
) pg.Step {
	return lastingRoomStep(lo, hi, claims, parked, waking, pending, nil)
}

// lastingRoomStep is roomStep in a transaction that may last, unless later is nil, which it gives
// the keys to look at when that is over.
func lastingRoomStep(
	lo, hi, claims []int64, parked []parkedKey, waking []string, pending *pg.Notices,
	later func(keys []parkedKey),
) pg.Step {
	actions, keys := make([]string, len(parked)), make([]string, len(parked))
	for i, p := range parked {
		actions[i], keys[i] = p.action, p.key
	}
	return pg.Step{
		Name: "make_room", Args: []any{lo, hi, claims, actions, keys, waking, later == nil},
		Read: func(rows pgx.Rows) error {
			var left []parkedKey
			var one parkedKey
			_, err := pgx.ForEachRow(rows, []any{&one.action, &one.key}, func() error {
				if one.key == "" {
					pending.Add(readyTopic(one.action))
				} else {
					left = append(left, one)
				}
				return nil
			})
			if err == nil && len(left) > 0 {
				later(left)
			}
			return err
		},
	}
}

// A roomKeeper does what a process leaves undone that dies between two transactions: it brings back
// parked tasks for which there is room. It also drops slots that are free and buckets that are
// full. It remembers how far it has come.
type roomKeeper struct {
	store  *Store
	parked parkedKey
	slot   slotPlace
	bucket parkedKey
}

type slotPlace struct {
	parkedKey
	number int32
}

const (
	parkedKeysMax = 1000
	seenSlotsMax  = 5000
)

// keepUp does a part of the work, so that it takes little time however much there is, and where
// there are no limits only one transaction.
func (k *roomKeeper) keepUp(ctx context.Context) error {
	var keys parkedKeys
	var slots, buckets int64
	err := k.store.db.Run(ctx,
		k.parkedStep(&keys), k.dropSlotsStep(&slots), k.dropBucketsStep(&buckets))
	if err != nil {
		return err
	}
	if err := k.bringBack(ctx, keys); err != nil {
		return err
	}
	if isMany(slots) {
		if err := k.dropSlots(ctx); err != nil {
			return err
		}
	}
	if isMany(buckets) {
		return k.dropBuckets(ctx)
	}
	return nil
}

// pass does all of the work.
func (k *roomKeeper) pass(ctx context.Context) error {
	for first := true; first || k.parked != (parkedKey{}); first = false {
		if err := k.fillRoom(ctx); err != nil {
			return err
		}
	}
	for first := true; first || k.bucket != (parkedKey{}); first = false {
		if err := k.dropBuckets(ctx); err != nil {
			return err
		}
	}
	for first := true; first || k.slot != (slotPlace{}); first = false {
		if err := k.dropSlots(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (k *roomKeeper) fillRoom(ctx context.Context) error {
	var keys parkedKeys
	if err := k.store.db.Run(ctx, k.parkedStep(&keys)); err != nil {
		return err
	}
	return k.bringBack(ctx, keys)
}

// parkedKeys are keys of which tasks are parked: those that limits or pauses may hold up, and by
// action those that nothing does.
type parkedKeys struct {
	held []parkedKey
	free map[string][]string
}

// parkedStep reads the next keys of which tasks are parked.
func (k *roomKeeper) parkedStep(keys *parkedKeys) pg.Step {
	return pg.Step{
		Name: "parked_keys", Args: []any{k.parked.action, k.parked.key, parkedKeysMax},
		Read: func(rows pgx.Rows) error {
			*keys = parkedKeys{free: map[string][]string{}}
			var one, last parkedKey
			var isFree bool
			n := 0
			_, err := pgx.ForEachRow(rows, []any{&one.action, &one.key, &isFree}, func() error {
				n, last = n+1, one
				if isFree {
					keys.free[one.action] = append(keys.free[one.action], one.key)
				} else {
					keys.held = append(keys.held, one)
				}
				return nil
			})
			k.parked = parkedKey{}
			if n == parkedKeysMax {
				k.parked = last
			}
			return err
		},
	}
}

// bringBack brings back parked tasks as far as there is room for them.
func (k *roomKeeper) bringBack(ctx context.Context, keys parkedKeys) error {
	pending := &pg.Notices{}
	for action, free := range keys.free {
		if err := k.store.unpark(ctx, action, free); err != nil {
			return err
		}
		pending.Add(readyTopic(action))
	}
	if len(keys.held) > 0 {
		if err := k.store.db.Run(ctx, fillRoom(keys.held, pending)); err != nil {
			return err
		}
	}
	k.store.db.Notify(ctx, pending)
	return nil
}

// isMany reports whether most of what a step saw was dropped: where each task has a key of its own,
// as many are left behind as tasks are handed out.
func isMany(dropped int64) bool { return dropped >= seenSlotsMax/2 }

// whileMany goes on as long as most of what a step sees is dropped.
func whileMany(drop func() (dropped int64, err error)) error {
	for {
		if dropped, err := drop(); err != nil || !isMany(dropped) {
			return err
		}
	}
}

func (k *roomKeeper) dropSlots(ctx context.Context) error {
	return whileMany(func() (dropped int64, err error) {
		err = k.store.db.Run(ctx, k.dropSlotsStep(&dropped))
		return dropped, err
	})
}

func (k *roomKeeper) dropSlotsStep(dropped *int64) pg.Step {
	return pg.Step{
		Name: "drop_slots",
		Args: []any{k.slot.action, k.slot.key, k.slot.number, seenSlotsMax},
		Read: func(rows pgx.Rows) error {
			var action, key *string
			var slot *int32
			_, err := pgx.ForEachRow(rows, []any{dropped, &action, &key, &slot}, func() error {
				k.slot = slotPlace{}
				if action != nil {
					k.slot = slotPlace{parkedKey{*action, *key}, *slot}
				}
				return nil
			})
			return err
		},
	}
}

func (k *roomKeeper) dropBuckets(ctx context.Context) error {
	return whileMany(func() (dropped int64, err error) {
		err = k.store.db.Run(ctx, k.dropBucketsStep(&dropped))
		return dropped, err
	})
}

func (k *roomKeeper) dropBucketsStep(dropped *int64) pg.Step {
	return pg.Step{
		Name: "drop_key_rates", Args: []any{k.bucket.action, k.bucket.key, seenSlotsMax},
		Read: func(rows pgx.Rows) error {
			var action, key *string
			_, err := pgx.ForEachRow(rows, []any{dropped, &action, &key}, func() error {
				k.bucket = parkedKey{}
				if action != nil {
					k.bucket = parkedKey{*action, *key}
				}
				return nil
			})
			return err
		},
	}
}
