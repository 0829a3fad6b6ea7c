package stint

import (
	"context"
	"fmt"
	"slices"

	"github.com/stint-tasks/stint/internal/pg"
)

const limitedKeysMax = 10_000

// Pause stops the hand-outs of tasks with these actions, by all stores of the schema, until
// [Store.Resume]. It takes effect for hand-outs that begin after it returned. Owners go on with
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
		return s.tighten(ctx, pg.Step{Name: "pause_actions", Args: []any{actions}})
	}
	err := s.loosen(ctx, actions, pg.Step{Name: "resume_actions", Args: []any{actions}})
	if err != nil {
		return err
	}
	resumed := &pg.Notices{}
	for _, action := range actions {
		resumed.Add(readyTopic(action))
	}
	s.db.Notify(ctx, resumed)
	return nil
}

// PauseKeys stops the hand-outs of tasks with these keys of an action, as [Store.Pause] does for a
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
		return s.tighten(ctx, pg.Step{Name: "pause_keys", Args: []any{action, keys}})
	}
	err := s.loosen(ctx, []string{action},
		pg.Step{Name: "resume_keys", Args: []any{action, keys}},
		pg.Step{Name: "forget_keys", Args: []any{action, keys}})
	if err != nil {
		return err
	}
	if err := s.unpark(ctx, action, keys); err != nil {
		return fmt.Errorf("they are resumed, but some tasks may wait longer: call again: %w", err)
	}
	s.db.Notify(ctx, readyNotice(action))
	return nil
}

func checkKeys(keys []string) error {
	if len(keys) > limitedKeysMax {
		return tooLarge("keys", len(keys), limitedKeysMax)
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
	names = slices.Sorted(slices.Values(names))
	return slices.Compact(names)
}
