package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// A frame fits its screen and does nothing to the terminal, whatever the size, the keys and the
// texts.
func TestFrame_FitsAnyScreen(t *testing.T) {
	t.Parallel()
	keys := []string{
		"tab", "enter", "esc", "down", "up", "pgdown", "pgup", "end", "home", "left", "right",
		"backspace", "j", "k", "g", "G", "s", "p", "?", "a", "y", "n", "r", "/", "表\x1b", "e",
	}
	snapshots := map[string]Snapshot{
		"none": {}, "empty": {Now: fixtureNow}, "fixture": fixture(), "many": manyActions(),
		"hostile": hostile(),
	}
	name := rapid.SampledFrom([]string{"none", "empty", "fixture", "many", "hostile"})
	rapid.Check(t, func(t *rapid.T) {
		size := func(name string) int { return rapid.IntRange(0, 130).Draw(t, name) }
		s := newScreen(size("width"), size("height"), snapshots[name.Draw(t, "snapshot")])
		s.options.Colours = rapid.Bool().Draw(t, "colours")
		opened := openedFixture(80, 24).source.details
		for _, task := range hostile().Problems.Slow {
			opened[task.ID] = &Details{task, stint.Explanation{Task: task}}
		}
		s.source.details = opened
		t.Repeat(map[string]func(*rapid.T){
			"press": func(t *rapid.T) { s.press(rapid.SampledFrom(keys).Draw(t, "key")) },
			"paste": func(*rapid.T) { s.Update(tea.PasteMsg{Content: "a\x1b[2J\nb"}) },
			"resize": func(t *rapid.T) {
				width, height := rapid.IntRange(0, 130), rapid.IntRange(0, 50)
				s.Update(tea.WindowSizeMsg{
					Width: width.Draw(t, "width"), Height: height.Draw(t, "height"),
				})
			},
			"answer": func(*rapid.T) { s.answer() },
			"read":   func(t *rapid.T) { s.later(snapshots[name.Draw(t, "snapshot")]) },
			"fail": func(*rapid.T) {
				s.source.err = errors.New("no\x1b[2J\nroute " + strings.Repeat("x", 300))
				s.later(s.source.snapshot)
				s.source.err = nil
			},
			"": func(t *rapid.T) { s.check(t) },
		})
	})
}

func TestRead_BeginsWhenTheOneBeforeHasEnded(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture())
	s.Update(tickMsg{s.reads})
	if len(s.pending) != 1 {
		t.Fatalf("a tick began %d reads, want 1", len(s.pending))
	}
	s.Update(tickMsg{s.reads})
	s.press("tab", "/m", "enter")
	if len(s.pending) != 1 {
		t.Fatalf("there are %d reads under way, want 1", len(s.pending))
	}
	s.answer() // also the one that the filter asked for
	if s.source.prefix != "m" || s.reads != 3 {
		t.Errorf("read %d is for %q, want read 3 for m", s.reads, s.source.prefix)
	}
	s.Update(tickMsg{s.reads - 1})
	if len(s.pending) != 0 {
		t.Error("the tick of an earlier read began one")
	}
}

func TestRead_WaitsWhilePaused(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture()).press("p")
	s.Update(tickMsg{s.reads})
	if len(s.pending) != 0 {
		t.Error("it reads while it is paused")
	}
	if s.press("p"); len(s.pending) != 1 {
		t.Error("it does not read when it goes on")
	}
}

func TestRead_ThatFailedIsForgottenWhenTheNextIsGood(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture())
	s.source.err = errors.New("connection refused")
	s.later(s.source.snapshot)
	if frame := s.content(); !strings.Contains(frame, "no answer: connection refused") ||
		!strings.Contains(frame, "copy") {
		t.Errorf("while it is away the frame is\n%s", frame)
	}
	s.source.err = nil
	s.later(s.source.snapshot)
	if frame := s.content(); strings.Contains(frame, "no answer") {
		t.Errorf("when it is back the frame is\n%s", frame)
	}
	s.source.err = fmt.Errorf("%w: no grant", stint.ErrRefused)
	s.later(s.source.snapshot)
	if frame := s.content(); strings.Contains(frame, "no answer") ||
		!strings.Contains(frame, "no grant") {
		t.Errorf("whoever is refused sees\n%s", frame)
	}
}

func TestRead_OfAPartNamesWhatIsAway(t *testing.T) {
	t.Parallel()
	snapshot := fixture()
	snapshot.Away = errors.New("shard us is away")
	s := newScreen(80, 24, snapshot)
	if frame := s.content(); !strings.Contains(frame, "shard us is away") ||
		strings.Contains(frame, "no answer") || !strings.Contains(frame, "copy") {
		t.Errorf("while a shard is away the frame is\n%s", frame)
	}
}

// Whoever may not see all tasks is told so, and never that there are none.
// Proves G311.
func TestFrame_SaysThatSomethingMayBeHidden(t *testing.T) {
	t.Parallel()
	for _, partly := range []bool{false, true} {
		for keys, empty := range map[string]string{
			"": "no tasks", "tab": "no task", "tab tab": "no actors", "/ x enter": "nothing",
		} {
			s := newScreen(100, 30, Snapshot{Now: fixtureNow, Partly: partly})
			s.press(strings.Fields(keys)...)
			s.answer()
			frame := strings.Join(s.frame(), "\n")
			if said := strings.Contains(frame, empty+" that you may see"); said != partly {
				t.Errorf("partly %t, after %q:\n%s", partly, keys, frame)
			}
			if said := strings.Contains(frame, "you may not see all tasks"); said != partly {
				t.Errorf("partly %t, after %q:\n%s", partly, keys, frame)
			}
		}
		s := newScreen(100, 30, Snapshot{
			Now: fixtureNow, Partly: partly, Actors: []stint.ActorInfo{{Actor: "a", Tasks: 7}},
		})
		tasks := map[bool]string{false: "7", true: "-"}[partly] // a service does not tell
		if got := s.press("tab", "tab").rows()[0].cells()[1]; got != tasks {
			t.Errorf("partly %t, an actor with 7 tasks has %q", partly, got)
		}
	}
}

func TestCursor_StaysWithItsTask(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture()).press("tab", "down")
	snapshot := fixture()
	snapshot.Problems.Slow = append([]stint.TaskInfo{{ID: "new"}}, snapshot.Problems.Slow...)
	s.later(snapshot)
	if row, _ := s.selected(); row.key != "export/main/0002" {
		t.Errorf("the cursor is on %q", row.key)
	}
	s.press("g")
	snapshot.Problems.Slow = append([]stint.TaskInfo{{ID: "newer"}}, snapshot.Problems.Slow...)
	s.later(snapshot)
	if row, _ := s.selected(); row.key != "newer" {
		t.Errorf("the cursor on the first row is on %q", row.key)
	}
}

func TestChange_IsMadeWhenConfirmedAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys    []string
		changes []string
		message string
	}{
		{[]string{"a"}, nil, "abort export/main/0001 and what depends on it? y/n"},
		{[]string{"a", "n"}, nil, ""},
		{[]string{"a", "esc"}, nil, ""},
		{[]string{"a", "enter"}, nil, ""},
		{[]string{"a", "y"}, []string{"abort export/main/0001"}, "aborted export/main/0001"},
		{[]string{"a", "n", "y"}, nil, ""},
		{[]string{"r"}, nil, "only what has finished can be retried"},
		{[]string{"end", "a"}, nil, "mail/3 is aborted already"},
		{[]string{"end", "r", "y"}, []string{"retry mail/3"}, "retried mail/3"},
		{[]string{"enter", "a"}, nil, "abort: choose a task first"}, // not known yet
		{[]string{"tab", "a"}, nil, "abort: choose a task first"},
		{[]string{"tab", "r", "y"}, nil, ""},
	} {
		s := newScreen(80, 24, fixture()).press("tab")
		for _, key := range c.keys {
			if s.press(key); key == "y" {
				s.answer()
			}
		}
		if !slices.Equal(s.source.changes, c.changes) {
			t.Errorf("%q changed %q, want %q", c.keys, s.source.changes, c.changes)
		}
		if frame := s.content(); !strings.Contains(frame, c.message) {
			t.Errorf("%q: the frame is\n%s\nwant %q in it", c.keys, frame, c.message)
		}
	}
}

func TestChange_ThatFailsIsTold(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture()).press("tab", "a", "y")
	s.source.err = fmt.Errorf("abort tasks: %w", context.DeadlineExceeded)
	s.press("q") // waits for what comes of it
	s.answer()
	if frame := s.content(); !strings.Contains(frame, "abort tasks: context deadline") {
		t.Errorf("the frame is\n%s", frame)
	}
}

func TestQuit_WaitsForAChange(t *testing.T) {
	t.Parallel()
	s := newScreen(80, 24, fixture()).press("tab", "a", "y", "q")
	if s.last != nil {
		t.Fatal("it quits before the task is aborted")
	}
	change := s.pending[len(s.pending)-1]
	_, cmd := s.Update(change(t.Context()))
	if _, quits := cmd().(tea.QuitMsg); !quits {
		t.Error("it does not quit when the task is aborted")
	}
}

func TestKeys_QuitFromEverywhere(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{}, {"?"}, {"tab", "enter"}, {"tab", "a", "n"}} {
		s := newScreen(80, 24, fixture()).press(keys...).press("q")
		if _, quits := s.last().(tea.QuitMsg); !quits {
			t.Errorf("q after %q does not quit", keys)
		}
	}
	for _, keys := range [][]string{{}, {"?"}, {"/"}, {"tab", "enter"}, {"tab", "a"}} {
		s := newScreen(80, 24, fixture()).press(keys...).press("ctrl+c")
		if _, ends := s.last().(tea.InterruptMsg); !ends {
			t.Errorf("Ctrl-C after %q does not interrupt", keys)
		}
	}
}

func TestFilter_IsEdited(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"mail": "mail", "qa?": "qa?", "a\x00b": "ab", "é": "é",
	} {
		if s := newScreen(80, 24, fixture()).press("/", typed); s.filter != want {
			t.Errorf("typing %q gives %q", typed, s.filter)
		}
	}
	s := newScreen(80, 24, fixture()).press("/né", "backspace")
	if s.filter != "n" {
		t.Errorf("the filter is %q, want n", s.filter)
	}
	s.press("enter", "esc")
	if s.filter != "" || len(s.rows()) != 3 {
		t.Errorf("after esc the filter is %q, and there are %d rows", s.filter, len(s.rows()))
	}
	s.press("enter") // on copy
	if s.filter != "copy" || s.panel != panelTasks {
		t.Errorf("enter on an action gives filter %q, panel %d", s.filter, s.panel)
	}
}

func TestRates_AreOfTheLastTenSeconds(t *testing.T) {
	t.Parallel()
	at := func(seconds int, tries int64) Snapshot {
		return Snapshot{
			Now:   fixtureNow.Add(time.Duration(seconds) * time.Second),
			Stats: stint.Stats{Actions: []stint.ActionStats{{Action: "act", Tries: tries}}},
		}
	}
	s := newScreen(80, 24, at(0, 1000))
	for _, step := range []struct {
		snapshot Snapshot
		want     float64
	}{
		{at(1, 1010), 10},
		{at(5, 1010), 2},
		{at(10, 1100), 10},
		{at(15, 1110), 10},
		{at(100, 1280), 2},
		{at(101, 0), 0},
		{at(50, 10), 0},
		{at(51, 20), 10},
	} {
		s.later(step.snapshot)
		if got := s.rates["act"].tries; got != step.want {
			t.Errorf("at %v the rate is %v, want %v", step.snapshot.Now, got, step.want)
		}
	}
}

// An action that the first snapshot lacks has a rate from the first on that has it, and none
// before.
func TestRates_OfAnActionThatBeginsAreShown(t *testing.T) {
	t.Parallel()
	at := func(seconds int, actions ...stint.ActionStats) Snapshot {
		return Snapshot{
			Now:   fixtureNow.Add(time.Duration(seconds) * time.Second),
			Stats: stint.Stats{Actions: actions},
		}
	}
	act := func(tries int64) stint.ActionStats {
		return stint.ActionStats{Action: "act", Tries: tries}
	}
	old := stint.ActionStats{Action: "old", Tries: 7}
	s := newScreen(150, 24, at(0, old))
	for _, step := range []struct {
		snapshot Snapshot
		want     string // of act
		sum      string
	}{
		{at(1, old, act(500)), "", "tries 0/s"},
		{at(3, old, act(1500)), "500", "tries 500/s"},
		{at(9, old, act(1700)), "150", "tries 150/s"},
	} {
		s.later(step.snapshot)
		const tries = 6 // the column
		got := s.actionCells(step.snapshot.Stats.Actions[1])[tries]
		if got != step.want || !strings.Contains(s.content(), step.sum) {
			t.Errorf("at %v the rate is %q, want %q, and %q in\n%s", step.snapshot.Now, got,
				step.want, step.sum, s.content())
		}
		if got := s.actionCells(old)[tries]; got != "0" {
			t.Errorf("at %v the rate of an idle action is %q", step.snapshot.Now, got)
		}
	}
}
