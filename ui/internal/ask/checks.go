package ask

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/verbs"
)

// Checks have the store checked, when somebody asks for it, and keep what was found last.
type Checks struct {
	Ask func(ctx context.Context) ([]views.Finding, error) // nil if the store cannot be checked

	mutex   sync.Mutex
	running time.Time // when the check under way began; zero if none is
	last    *Checked  // nil if there was none
}

// Begin begins a check, unless one is under way. Whoever asks for it may go.
func (c *Checks) Begin(ctx context.Context, clock *kept.Clock, logger *slog.Logger) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.running.IsZero() {
		return
	}
	c.running = clock.Now(ctx)
	go c.run(context.WithoutCancel(ctx), clock, logger)
}

func (c *Checks) run(ctx context.Context, clock *kept.Clock, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	begun := kept.Now()
	var found Checked
	defer func() {
		if cause := recover(); cause != nil { // here it would end the process
			found.Err = fmt.Errorf("the check panicked: %v", cause)
		}
		if found.Err != nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "a check by the web interface failed",
				slog.Any("error", found.Err))
		}
		found.Took, found.At = kept.Now().Sub(begun), clock.Now(ctx)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.last, c.running = &found, time.Time{}
	}()
	found.Findings, found.Err = c.Ask(ctx)
	slices.SortStableFunc(found.Findings, func(a, b views.Finding) int {
		return cmp.Compare(severityRank(a.Severity), severityRank(b.Severity))
	})
}

// Known returns since when a check has been under way, and what the last one found.
func (c *Checks) Known() (running time.Time, last *Checked) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.running, c.last
}

// Checked is what a check has found. If it ended early, Err is why.
type Checked struct {
	Findings []views.Finding
	Err      error
	At       time.Time // when it ended
	Took     time.Duration
}

// checkTimeout is how long a check may take.
const checkTimeout = 10 * time.Minute

// checkOf returns how a store is checked; nil if it cannot be.
func checkOf(store verbs.Reader) func(ctx context.Context) ([]views.Finding, error) {
	switch store := store.(type) {
	case interface {
		Check(ctx context.Context) ([]views.Finding, error)
	}:
		return store.Check
	case interface {
		Check(ctx context.Context) ([]stint.Inconsistency, error)
	}:
		return func(ctx context.Context) (findings []views.Finding, err error) {
			found, err := store.Check(ctx)
			for _, one := range found {
				findings = append(findings, views.Finding{
					Severity: views.Error, Topic: "consistency", Text: one.String(), ID: one.ID,
				})
			}
			return findings, err
		}
	}
	return nil
}

// severityRank says which findings come first.
func severityRank(severity string) int {
	return slices.Index([]string{views.Error, views.Warning, views.Note}, severity)
}
