package limit

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/responses"
)

// done is the error of a change, of which nothing is left to do if the call of the context has made
// it before: others may have made another one since.
func done(err error) error {
	if errors.Is(err, responses.ErrAnswered) {
		return nil
	}
	return err
}

// PauseActions pauses actions.
func (e *Engine) PauseActions(ctx context.Context, actions []string) error {
	note := changes.Note(ctx, "note_pauses", "Pause", actions, true)
	return done(
		e.tighten(ctx, append(note, pg.Step{Name: "pause_actions", Args: []any{actions}})...))
}

// ResumeActions ends the pauses of actions.
func (e *Engine) ResumeActions(ctx context.Context, actions []string) error {
	note := changes.Note(ctx, "note_pauses", "Resume", actions, false)
	err := done(e.loosen(ctx, actions,
		append(note, pg.Step{Name: "resume_actions", Args: []any{actions}})...))
	if err == nil {
		e.notify(ctx, actions...)
	}
	return err
}

// PauseKeys pauses keys of an action.
func (e *Engine) PauseKeys(ctx context.Context, action string, keys []string) error {
	note := changes.Note(ctx, "note_key_pauses", "PauseKeys",
		changes.NamesMax, action, keys, true)
	return done(
		e.tighten(ctx, append(note, pg.Step{Name: "pause_keys", Args: []any{action, keys}})...))
}

// ResumeKeys ends the pauses of keys. If some of their tasks may stay parked a while longer,
// unparked is false.
func (e *Engine) ResumeKeys(
	ctx context.Context, action string, keys []string,
) (unparked bool, err error) {
	note := changes.Note(ctx, "note_key_pauses", "ResumeKeys",
		changes.NamesMax, action, keys, false)
	err = done(e.loosen(ctx, []string{action}, append(note,
		pg.Step{Name: "resume_keys", Args: []any{action, keys}},
		pg.Step{Name: "forget_keys", Args: []any{action, keys}})...))
	if err != nil {
		return true, err
	}
	if err := e.UnparkAll(ctx, e.DB, action, keys); err != nil {
		return false, err
	}
	e.notify(ctx, action)
	return true, nil
}

// SetWeights sets the weights of keys of an action.
func (e *Engine) SetWeights(
	ctx context.Context, action string, keys []string, weights []int32,
) error {
	note := changes.Note(ctx, "note_weights", "SetWeights",
		changes.NamesMax, action, keys, weights)
	steps := append(append([]pg.Step{{Name: "lock_limiting"}}, note...),
		pg.Step{Name: "set_weights", Args: []any{action, keys, weights}},
		pg.Step{Name: "forget_keys", Args: []any{action, keys}})
	return done(e.DB.Transact(ctx, func(db *pg.DB) error { return change(ctx, db, steps...) }))
}
