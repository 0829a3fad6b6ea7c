package command

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/replay"
)

// followPause is between two looks of stint check --follow at the log, followTold between two lines
// that say how far it is, or a look, if that takes longer.
const (
	followPause = time.Second
	followTold  = 10 * time.Second
)

// since returns what tells how long ago it was returned.
func since() func() time.Duration {
	began := time.Now() //nolint:forbidigo // how long it takes, not when
	return func() time.Duration { return time.Since(began) }
}

// follow replays the history of the store for a time, or until it is interrupted if that is 0. If
// nobody has asked for it, there is only the time.
func (p *program) follow(ctx context.Context, asked bool, lasts time.Duration) error {
	if lasts < 0 || !asked {
		return said(errInput, "--for is a time for which to --follow")
	}
	if p.topology != "" {
		return p.refuseTopology()
	}
	if err := p.onDatabase(); err != nil {
		return err
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) (err error) {
		history, err := replay.Open(ctx, db.pool.Config().ConnConfig, replay.Options{
			Schema: p.schema, Slot: "stint_" + uuid.NewString()[:8], Temporary: true,
		})
		if err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, history.Close(context.WithoutCancel(ctx)))
		}()
		f := follower{program: p, history: history}
		if err := f.begin(); err != nil {
			return err
		}
		return f.run(ctx, lasts)
	})
}

// A follower prints what a history shows.
type follower struct {
	*program

	history *replay.History
	printed int
	reading time.Duration // spent on reading and replaying
}

func (f *follower) begin() error {
	if f.json {
		return nil
	}
	return f.printf("following %s; meanwhile the server keeps the log that was not read, for a "+
		"slot that goes with this command\n", display.Count(int64(f.history.Tasks()), "task"))
}

func (f *follower) run(ctx context.Context, lasts time.Duration) error {
	limited := ctx
	if lasts > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, lasts)
		defer cancel()
	}
	ticker := time.NewTicker(followPause)
	defer ticker.Stop()
	for told := since(); ; {
		select {
		case <-limited.Done():
			return f.end(ctx)
		case <-ticker.C:
		}
		if err := f.read(context.WithoutCancel(ctx)); err != nil { // or the slot would be gone
			return err
		}
		if told() < followTold {
			continue
		}
		told = since()
		if err := f.tell(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) read(ctx context.Context) error {
	took := since()
	err := f.history.Read(ctx)
	f.reading += took()
	if err != nil {
		return err
	}
	for violations := f.history.Violations(); f.printed < len(violations); f.printed++ {
		v := violations[f.printed]
		if f.json {
			err = f.printJSON(map[string]any{"violation": v.Text, "id": v.Task, "lsn": v.LSN})
		} else {
			err = f.printf("error: %s\n", display.Text(v.String()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell prints how far the history is and what following it costs.
func (f *follower) tell(ctx context.Context) error {
	behind, err := f.history.Behind(ctx)
	if err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c := f.history.Counts()
	if f.json {
		return f.printJSON(map[string]any{
			"commits": c.Commits, "moves": c.Moves, "violations": c.Violations,
			"tasks": f.history.Tasks(), "log_kept_bytes": behind,
			"memory_bytes": memory.HeapAlloc, "reading_seconds": f.reading.Seconds(),
		})
	}
	const mega = 1 << 20
	return f.printf("%s, %s, %s; the server keeps %.1f MiB of log, this process %.1f MiB of "+
		"memory; reading took %v\n", display.Count(c.Commits, "commit"),
		display.Count(c.Moves, "move"), display.Count(c.Violations, "violation"),
		float64(behind)/mega, float64(memory.HeapAlloc)/mega, f.reading.Round(time.Millisecond))
}

// end reads the rest, and sums up.
func (f *follower) end(ctx context.Context) error {
	interrupted := ctx.Err()
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(f.read(ctx), f.tell(ctx)); err != nil {
		return err
	}
	if n := f.history.Counts().Violations; n > 0 {
		return fmt.Errorf("check: %w: %s", errFindings, display.Count(n, "violation"))
	}
	return interrupted
}
