package doctor

import (
	"time"

	"github.com/stint-tasks/stint/internal/display"
)

// A limited action has limits, or it or some of its keys are paused.
type limited struct {
	Action string
	// Paused is for how long the action is paused, KeysPaused for how long the first of PausedKeys
	// keys is; nil if none is.
	Paused     *time.Duration
	PausedKeys int64
	KeysPaused *time.Duration

	Limited bool
	Set     time.Duration  // how long ago the limits were set
	Asked   *time.Duration // how long ago somebody asked for the action; nil for not lately

	// ParkedKey is the key with the most parked tasks, Parked how many these are.
	ParkedKey *string
	Parked    int64
}

func limitFindings(l limited) []Finding {
	const (
		forgotten  = 24 * time.Hour
		unasked    = 24 * time.Hour
		parkedMany = 100_000
	)
	var findings []Finding
	note := func(format string, args ...any) {
		findings = append(findings, found(SeverityNote, "limits", format, args...))
	}
	if l.Paused != nil && *l.Paused > forgotten {
		note("the action %q has been paused for %s: if that was forgotten, run: stint resume %s",
			l.Action, display.Span(*l.Paused), display.Word(l.Action))
	}
	if l.KeysPaused != nil && *l.KeysPaused > forgotten {
		are := "are"
		if l.PausedKeys == 1 {
			are = "is"
		}
		note("%s of the action %q %s paused, the first for %s: stint limits %s lists them",
			display.Count(l.PausedKeys, "key"), l.Action, are, display.Span(*l.KeysPaused),
			display.Word(l.Action))
	}
	if l.Limited && l.Asked == nil && l.Set > unasked {
		note("the action %q has limits, set %s ago, but nobody has asked for it lately: if the "+
			"name is wrong, or the action is gone, run: stint limit %s --none", l.Action,
			display.Span(l.Set), display.Word(l.Action))
	}
	if l.ParkedKey != nil && l.Parked >= parkedMany {
		note("%s parked under the key %q of the action %q: its key is paused, or more come than "+
			"its limits or turns let through", countAre(l.Parked), *l.ParkedKey, l.Action)
	}
	return findings
}
