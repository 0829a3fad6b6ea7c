//go:build unix

package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/work"
)

// cursor is the path of where whoever follows ends has come.
func (r *round) cursor() string { return filepath.Join(r.dir, "cursor") }

// beginEnds lets the ends of the round be followed from now on.
func (r *round) beginEnds(ctx context.Context) error {
	store, err := r.places()[0].open()
	if err != nil {
		return err
	}
	defer store.Close(ctx) //nolint:errcheck // it has no session
	page, err := store.Ends(ctx, nil, stint.EndsNow, 0)
	if err != nil {
		return err
	}
	return work.WriteCursor(r.cursor(), page.Next)
}

// followRest follows the ends from where the last process has come, when nothing happens any more.
func (r *round) followRest(ctx context.Context) error {
	store, err := r.places()[0].open()
	if err != nil {
		return err
	}
	defer store.Close(ctx) //nolint:errcheck // it has no session
	journal, err := work.OpenJournal(filepath.Join(r.dir, "rest.jsonl"), "rest")
	if err != nil {
		return err
	}
	began := now()
	for {
		page, err := work.Follow(ctx, store, journal, r.cursor())
		if err != nil {
			return err
		}
		if page.Until.After(began) {
			return journal.Close()
		}
		if time.Since(began) > lookMax {
			r.violated("Ends has told only what ended before %v", page.Until)
			return journal.Close()
		}
	}
}

// A receiptRow is a row of receiptsSQL.
type receiptRow struct{ ID, Token string }

// receipts are the rows that were committed together with the ends of tasks.
func (r *round) receipts(ctx context.Context) (receipts []work.Item, err error) {
	rows, err := query[receiptRow](ctx, r.places()[0], receiptsSQL, r.prefix())
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		token, err := stint.ParseToken(row.Token)
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, work.Item{ID: stint.TaskID(row.ID), Token: &token})
	}
	return receipts, nil
}
