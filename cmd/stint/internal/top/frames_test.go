package top

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/golden"
)

var colour = regexp.MustCompile("\x1b\\[[0-9]+m")

// A screen is a model with a source that is made up, and no terminal.
type screen struct {
	*model
	source  *fakeSource
	pending []func(ctx context.Context) tea.Msg // What was asked and not answered yet.
	last    tea.Cmd                             // What the last key led to.
}

type fakeSource struct {
	snapshot Snapshot
	details  map[stint.TaskID]*Details
	err      error
	changes  []string
	prefix   string
}

func (s *fakeSource) Read(_ context.Context, prefix string) (Snapshot, error) {
	s.prefix = prefix
	return s.snapshot, s.err
}

func (s *fakeSource) Open(_ context.Context, id stint.TaskID, _ *Details) (*Details, error) {
	details := s.details[id]
	if details == nil {
		return nil, &stint.TaskError{IDs: []stint.TaskID{id}, Err: stint.ErrTaskNotFound}
	}
	return details, s.err
}

func (s *fakeSource) Abort(_ context.Context, id stint.TaskID) error {
	s.changes = append(s.changes, "abort "+string(id))
	return s.err
}

func (s *fakeSource) Retry(_ context.Context, id stint.TaskID) error {
	s.changes = append(s.changes, "retry "+string(id))
	return s.err
}

// newScreen is one that has hasRead once.
func newScreen(width, height int, snapshot Snapshot) *screen {
	s := &screen{source: &fakeSource{snapshot: snapshot}}
	s.model = newModel(s.source, Options{Database: "app on db.example", Interval: time.Second},
		func(question func(ctx context.Context) tea.Msg) tea.Cmd {
			s.pending = append(s.pending, question)
			return nil
		})
	s.Init()
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s.answer()
	return s
}

// answer answers all that was asked, and what is asked because of that.
func (s *screen) answer() {
	for len(s.pending) > 0 {
		question := s.pending[0]
		s.pending = s.pending[1:]
		s.Update(question(context.Background()))
	}
}

// later is the next snapshot, whatever the clock of this machine says.
func (s *screen) later(snapshot Snapshot) {
	s.source.snapshot = snapshot
	s.Update(tickMsg{s.reads})
	s.answer()
}

// press presses keys: names of keys, or a text.
func (s *screen) press(keys ...string) *screen {
	codes := map[string]rune{
		"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown,
		"up": tea.KeyUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome,
		"backspace": tea.KeyBackspace, "left": tea.KeyLeft, "right": tea.KeyRight,
		"pgup": tea.KeyPgUp,
	}
	for _, name := range keys {
		if code, ok := codes[name]; ok {
			_, s.last = s.Update(tea.KeyPressMsg{Code: code})
		} else if name == "ctrl+c" {
			_, s.last = s.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		} else {
			for _, r := range name {
				_, s.last = s.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
	}
	return s
}

func (s *screen) content() string { return s.View().Content }

// wantFrame compares the frame with the one in testdata.
func (s *screen) wantFrame(t *testing.T, name string) {
	t.Helper()
	s.check(t)
	got := strings.ReplaceAll(s.content(), "\x1b", "␛")
	var lines []string // without the spaces that nobody sees
	for line := range strings.SplitSeq(got, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	golden.Want(t, filepath.Join("testdata", name+".golden"), strings.Join(lines, "\n")+"\n")
}

// check checks what holds for each frame: it fits the screen, and nothing in it does anything to
// the terminal, colours excepted.
func (s *screen) check(t interface{ Fatalf(string, ...any) }) {
	lines := strings.Split(s.content(), "\n")
	if len(lines) > max(s.height, 1) {
		t.Fatalf("%d lines on a screen of %d", len(lines), s.height)
	}
	for _, line := range lines {
		if width := ansi.StringWidth(line); width > s.width {
			t.Fatalf("%q is %d wide on a screen of %d", line, width, s.width)
		}
		left := line
		if s.options.Colours {
			left = colour.ReplaceAllString(line, "")
		}
		if i := strings.IndexFunc(left, isControl); i >= 0 {
			t.Fatalf("%q has a control character", line)
		}
	}
}

var fixtureNow = time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC)

// fixture is a snapshot of a store with a bit of everything.
func fixture() Snapshot {
	ago := func(d time.Duration) time.Time { return fixtureNow.Add(-d) }
	return Snapshot{
		Now: fixtureNow,
		Stats: stint.Stats{
			Actions: []stint.ActionStats{
				{
					Action: "copy", Ready: 123_456, InProgress: 12, Blocked: 40,
					Completed: 2_345_678, Aborted: 3, OldestReady: 754 * time.Second,
					Tries: 1000, Retries: 10,
				},
				{Action: "mail", Ready: 2, Scheduled: 7, OldestReady: time.Second, Tries: 5},
				{Action: "write-manifest", Blocked: 1},
			},
			Estimated: []stint.State{stint.StateCompleted, stint.StateAborted},
		},
		Problems: stint.Problems{
			Slow: []stint.TaskInfo{
				{
					ID: "export/main/0001", Action: "copy", State: stint.StateInProgress, Tries: 1,
					MaxTries: 3, Actor: "worker-1", Status: "half-way", OwnedAt: ago(3 * time.Hour),
				},
				{
					ID: "export/main/0002", Action: "copy", State: stint.StateInProgress, Tries: 2,
					Actor: "worker-2", OwnedAt: ago(62 * time.Second),
				},
			},
			Failing: []stint.TaskInfo{
				{
					ID: "mail/7", Action: "mail", State: stint.StateScheduled, Tries: 4,
					MaxTries: 5, Actor: "worker-1", Status: "connection refused",
					NotBefore: fixtureNow.Add(25 * time.Second),
				},
				{ID: "mail/8", Action: "mail", State: stint.StateReady, Tries: 1},
			},
			Failed: []stint.TaskInfo{{
				ID: "mail/3", Action: "mail", State: stint.StateAborted, Tries: 5, MaxTries: 5,
				AbortCause: stint.CauseTries, Actor: "worker-1", Status: "no such host",
				FinishedAt: ago(40 * time.Minute),
			}},
		},
		Actors: []stint.ActorInfo{
			{
				Actor: "worker-1", Actions: []string{"copy", "mail"}, Tasks: 11,
				Since: ago(time.Hour),
			},
			{Actor: "worker-2", Actions: []string{"copy"}, Tasks: 1, Since: ago(time.Minute)},
		},
	}
}

// openedFixture is the first task in progress, opened.
func openedFixture(width, height int) *screen {
	s := newScreen(width, height, fixture())
	task := s.source.snapshot.Problems.Slow[0]
	task.InsertedAt = fixtureNow.Add(-4 * time.Hour)
	task.LeaseUntil = fixtureNow.Add(25 * time.Second)
	task.Progress, task.Body = 0.5, []byte("from: a\nto: b\n")
	task.Result = []byte("\x1b[2J")
	s.source.details = map[stint.TaskID]*Details{task.ID: {
		Task: task,
		Explanation: stint.Explanation{
			Task: task, TriesLeft: 2, Now: fixtureNow, AskedAt: fixtureNow,
			Presence: stint.PresenceLives,
		},
	}}
	s.press("tab", "enter")
	s.answer()
	return s
}

func manyActions() Snapshot {
	snapshot := fixture()
	snapshot.Stats.Actions = nil
	for i := range 60 {
		snapshot.Stats.Actions = append(snapshot.Stats.Actions, stint.ActionStats{
			Action: fmt.Sprintf("action-%02d", i), Ready: int64(i),
		})
	}
	return snapshot
}

// limited is a snapshot of actions of which some are limited or paused.
func limited() Snapshot {
	snapshot := fixture()
	actions := snapshot.Stats.Actions
	actions[0].Limited, actions[0].Parked = true, 123_000
	actions[1].Paused = true
	return snapshot
}

// skipped is a snapshot of a store that has skipped tasks.
func skipped() Snapshot {
	snapshot := limited()
	snapshot.Stats.Actions[1].Skipped = 17
	return snapshot
}

// hostile is a snapshot of texts that would do something to a terminal, or do not fit.
func hostile() Snapshot {
	snapshot := fixture()
	snapshot.Stats.Actions = []stint.ActionStats{
		{Action: "\x1b[2J\x1b]0;title\a", Ready: 1},
		{Action: "表表表表表表表表表表表表表表表表表表表表表表表", Ready: 2},
		{Action: strings.Repeat("long", 60), Ready: 1 << 62},
		{Action: "a\u202eb"},
		{Action: "\u0301\u0301mark"},
		{Action: "👩\u200d👩\u200d👧 family"},
		{Action: "two\nlines\ttab\r"},
		{Action: "\u009b2J"},
	}
	snapshot.Problems = stint.Problems{}
	for i, action := range snapshot.Stats.Actions {
		snapshot.Problems.Slow = append(snapshot.Problems.Slow, stint.TaskInfo{
			ID:     stint.TaskID(fmt.Sprint(strings.Repeat("prefix/", 10*i), action.Action)),
			Action: action.Action, State: stint.StateInProgress, Tries: 1 << 30, MaxTries: 1 << 30,
			Actor: stint.ActorID(action.Action), Status: action.Action,
			OwnedAt: fixtureNow.Add(-time.Duration(1<<62 - 1)),
		})
		snapshot.Actors = append(snapshot.Actors, stint.ActorInfo{
			Actor: stint.ActorID(action.Action), Actions: []string{action.Action, action.Action},
		})
	}
	return snapshot
}

var errRefused = errors.New("failed to connect to `user=app database=app`:\n" +
	"\t127.0.0.1:1 (db.example): dial error: connect: connection refused")

// frames make the screens that the golden files show, by the names of these.
var frames = map[string]func() *screen{
	"empty-80x24": func() *screen {
		return newScreen(80, 24, Snapshot{Now: fixtureNow})
	},
	"actions-80x24": func() *screen {
		return newScreen(80, 24, fixture())
	},
	"actions-120x40": func() *screen {
		s := newScreen(120, 40, fixture())
		next := fixture()
		next.Now = fixtureNow.Add(4 * time.Second)
		next.Stats.Actions[0].Tries += 500
		next.Stats.Actions[0].Retries++
		s.later(next)
		return s
	},
	"limited-120x40": func() *screen {
		return newScreen(120, 40, limited())
	},
	"limited-80x24": func() *screen {
		return newScreen(80, 24, limited())
	},
	"actions-40x10": func() *screen {
		return newScreen(40, 10, fixture())
	},
	"scrolled-80x24": func() *screen {
		return newScreen(80, 24, manyActions()).press("pgdown", "pgdown", "pgdown", "j", "up")
	},
	"scrolled-40x10": func() *screen {
		return newScreen(40, 10, manyActions()).press("G")
	},
	"ordered-80x24": func() *screen {
		return newScreen(80, 24, manyActions()).press("s")
	},
	"tasks-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("tab", "down")
	},
	"tasks-120x40": func() *screen {
		return newScreen(120, 40, fixture()).press("tab", "s")
	},
	"tasks-40x10": func() *screen {
		return newScreen(40, 10, fixture()).press("tab")
	},
	"actors-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("left")
	},
	"typing-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("tab", "/mai")
	},
	"filtered-80x24": func() *screen {
		s := newScreen(80, 24, fixture()).press("tab", "/mail/", "enter")
		s.source.snapshot.Found = []stint.TaskInfo{
			{ID: "mail/3", State: stint.StateAborted},
			{
				ID: "mail/5", Action: "mail", State: stint.StateCompleted, Tries: 1,
				FinishedAt: fixtureNow.Add(-time.Hour),
			},
		}
		s.answer()
		return s
	},
	"nothing-found-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("/nothing", "enter")
	},
	"skipped-120x40": func() *screen {
		return newScreen(120, 40, skipped())
	},
	"opened-80x24": func() *screen {
		return openedFixture(80, 24)
	},
	"opened-40x10": func() *screen {
		return openedFixture(40, 10).press("end")
	},
	"abort-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("tab", "a")
	},
	"abort-40x10": func() *screen {
		return newScreen(40, 10, fixture()).press("tab", "a")
	},
	"abort-opened-80x24": func() *screen {
		return openedFixture(80, 24).press("a")
	},
	"away-80x24": func() *screen {
		s := newScreen(80, 24, fixture())
		s.source.err = fmt.Errorf("stats: %w", errRefused)
		s.later(s.source.snapshot)
		return s
	},
	"never-there-80x24": func() *screen {
		s := newScreen(80, 24, Snapshot{})
		s.hasRead, s.past, s.rates = false, nil, nil
		s.source.err = fmt.Errorf("stats: %w", &pgconn.PgError{
			Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42501",
			Message: "permission\ndenied",
		})
		s.later(Snapshot{})
		return s
	},
	"paused-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("p")
	},
	"help-80x24": func() *screen {
		return newScreen(80, 24, fixture()).press("?")
	},
	"hostile-actions-80x24": func() *screen {
		return newScreen(80, 24, hostile())
	},
	"hostile-tasks-80x24": func() *screen {
		return newScreen(80, 24, hostile()).press("tab")
	},
	"hostile-tasks-120x40": func() *screen {
		return newScreen(120, 40, hostile()).press("tab")
	},
	"hostile-abort-80x24": func() *screen {
		return newScreen(80, 24, hostile()).press("tab", "G", "a")
	},
	"coloured-80x24": func() *screen {
		s := newScreen(80, 24, fixture()).press("tab")
		s.options.Colours = true
		return s
	},
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for name, show := range frames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			show().wantFrame(t, name)
		})
	}
}

func TestFrame_HasNoEscapesWithoutColours(t *testing.T) {
	t.Parallel()
	s := openedFixture(80, 24)
	for _, keys := range [][]string{nil, {"esc"}, {"a"}, {"n", "?"}, {"x", "tab"}} {
		if frame := s.press(keys...).content(); strings.Contains(frame, "\x1b") {
			t.Errorf("the frame is %q", frame)
		}
	}
}

func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || slices.Contains([]rune{'\u202e', '\u200d'}, r)
}
