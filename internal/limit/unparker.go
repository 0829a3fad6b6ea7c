package limit

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// A Unparker does what a process leaves undone that dies between two transactions: it unparks
// tasks for which there is capacity. It also drops slots that are free and buckets that are
// full. It remembers how far it has come.
type Unparker struct {
	engine *Engine
	db     *pg.DB
	parked Key
	slot   slotPlace
	bucket Key
}

// NewUnparker returns one that works on db, and has not come far.
func NewUnparker(engine *Engine, db *pg.DB) *Unparker {
	return &Unparker{engine: engine, db: db}
}

type slotPlace struct {
	Key
	number int32
}

const (
	parkedKeysMax = 1000
	seenSlotsMax  = 5000
)

// Some does a part of the work, so that it takes little time however much there is, and where
// there are no limits only one transaction.
func (k *Unparker) Some(ctx context.Context) error {
	var keys parkedKeys
	var slots, buckets int64
	err := k.db.Run(ctx,
		k.parkedStep(&keys), k.dropSlotsStep(&slots), k.sweepBucketsStep(&buckets))
	if err != nil {
		return err
	}
	if err := k.unpark(ctx, keys); err != nil {
		return err
	}
	if isMany(slots) {
		if err := k.dropSlots(ctx); err != nil {
			return err
		}
	}
	if isMany(buckets) {
		return k.sweepBuckets(ctx)
	}
	return nil
}

// All does all of the work.
func (k *Unparker) All(ctx context.Context) error {
	for first := true; first || k.parked != (Key{}); first = false {
		if err := k.unparkSome(ctx); err != nil {
			return err
		}
	}
	for first := true; first || k.bucket != (Key{}); first = false {
		if err := k.sweepBuckets(ctx); err != nil {
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

func (k *Unparker) unparkSome(ctx context.Context) error {
	var keys parkedKeys
	if err := k.db.Run(ctx, k.parkedStep(&keys)); err != nil {
		return err
	}
	return k.unpark(ctx, keys)
}

// parkedKeys are keys of which tasks are parked: those that limits or pauses may hold up, and by
// action those that nothing does.
type parkedKeys struct {
	held []Key
	free map[string][]string
}

// parkedStep reads the next keys of which tasks are parked.
func (k *Unparker) parkedStep(keys *parkedKeys) pg.Step {
	return pg.Step{
		Name: "parked_keys", Args: []any{k.parked.Action, k.parked.Key, parkedKeysMax},
		Read: func(rows pgx.Rows) error {
			*keys = parkedKeys{free: map[string][]string{}}
			var one, last Key
			var isFree bool
			n := 0
			_, err := pgx.ForEachRow(rows, []any{&one.Action, &one.Key, &isFree}, func() error {
				n, last = n+1, one
				if isFree {
					keys.free[one.Action] = append(keys.free[one.Action], one.Key)
				} else {
					keys.held = append(keys.held, one)
				}
				return nil
			})
			k.parked = Key{}
			if n == parkedKeysMax {
				k.parked = last
			}
			return err
		},
	}
}

// unpark unparks tasks as far as there is capacity for them.
func (k *Unparker) unpark(ctx context.Context, keys parkedKeys) error {
	pending := &pg.Notices{}
	for action, free := range keys.free {
		if err := k.engine.UnparkAll(ctx, k.db, action, free); err != nil {
			return err
		}
		pending.Add(k.engine.Ready(action))
	}
	if len(keys.held) > 0 {
		if err := k.db.Run(ctx, k.engine.unpark(keys.held, pending)); err != nil {
			return err
		}
	}
	k.db.Notify(ctx, pending)
	return nil
}

// isMany reports whether most of what a step saw was dropped: where each task has a key of its own,
// as many are left behind as tasks are fetched.
func isMany(dropped int64) bool { return dropped >= seenSlotsMax/2 }

// whileMany goes on as long as most of what a step sees is dropped.
func whileMany(drop func() (dropped int64, err error)) error {
	for {
		if dropped, err := drop(); err != nil || !isMany(dropped) {
			return err
		}
	}
}

func (k *Unparker) dropSlots(ctx context.Context) error {
	return whileMany(func() (dropped int64, err error) {
		err = k.db.Run(ctx, k.dropSlotsStep(&dropped))
		return dropped, err
	})
}

func (k *Unparker) dropSlotsStep(dropped *int64) pg.Step {
	return pg.Step{
		Name: "drop_slots",
		Args: []any{k.slot.Action, k.slot.Key.Key, k.slot.number, seenSlotsMax},
		Read: func(rows pgx.Rows) error {
			var action, key *string
			var slot *int32
			_, err := pgx.ForEachRow(rows, []any{dropped, &action, &key, &slot}, func() error {
				k.slot = slotPlace{}
				if action != nil {
					k.slot = slotPlace{Key{*action, *key}, *slot}
				}
				return nil
			})
			return err
		},
	}
}

func (k *Unparker) sweepBuckets(ctx context.Context) error {
	return whileMany(func() (dropped int64, err error) {
		err = k.db.Run(ctx, k.sweepBucketsStep(&dropped))
		return dropped, err
	})
}

func (k *Unparker) sweepBucketsStep(dropped *int64) pg.Step {
	return pg.Step{
		Name: "sweep_key_rates", Args: []any{k.bucket.Action, k.bucket.Key, seenSlotsMax},
		Read: func(rows pgx.Rows) error {
			var action, key *string
			_, err := pgx.ForEachRow(rows, []any{dropped, &action, &key}, func() error {
				k.bucket = Key{}
				if action != nil {
					k.bucket = Key{*action, *key}
				}
				return nil
			})
			return err
		},
	}
}
