package stint

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

const weightMax = 1000

// SetWeights sets the weights of keys of an action, 1 to 1,000 each. If keys take turns
// ([Limits].Fair), three times as many tasks are handed out of a key with weight 3 as of one with
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
		return s.checkOpen(ctx)
	}
	return s.run(ctx, step{name: "lock_limiting"},
		step{name: "set_weights", args: []any{action, keys, numbers}},
		step{name: "forget_keys", args: []any{action, keys}})
}
