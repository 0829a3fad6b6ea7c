package ui_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// change runs a statement.
func change(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement)
	wantNil(t, err)
}

// minutes are a span of some minutes, which grows while a test looks.
var minutes = regexp.MustCompile(`[23]m\d\ds`)

// An action for which nobody asks is told of after two minutes: its actors hang with all slots,
// have them full of other tasks, or never ask. One whose actors ask is not, nor one that often
// waits for so long.
func TestOverview_SaysSoonThatNobodyAsks(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	wantNil(t, store.RegisterActor(t.Context(), "worker-1", []string{"mail", "print"}))
	wantNil(t, store.RegisterActor(t.Context(), "worker-2", []string{"scan"}))
	insert(t, store, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"},
		stint.Task{ID: "c", Action: "scan"}, stint.Task{ID: "d", Action: "print"})
	owned, err := store.OwnTasks(t.Context(), "worker-1", 1, []string{"mail"}, time.Hour)
	wantNil(t, err)
	if len(owned) != 1 {
		t.Fatalf("%d tasks are handed out", len(owned))
	}
	change(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - interval '3 minutes'")
	change(t, pool, "UPDATE stint.leases SET owned_at = owned_at - interval '3 minutes'")
	const (
		hangs = "mail is behind: 1 task ready, the oldest for long; nobody has asked " +
			"for more for long; 1 is in progress, for long."
		never = "scan is behind: 1 task ready, the oldest for long; nobody has asked " +
			"for any, though 1 actor is registered for it, which hangs, or lacks what it needs: " +
			"its log may tell."
		busy = "print is behind: 1 task ready, the oldest for long; nobody has asked " +
			"for any: the actor registered for it has 1 other task in progress."
	)
	look := func(when string, want ...string) {
		t.Helper()
		page := text(t, ui.New(store, open()), "/")
		got := attentionOf(t, page)
		if bad := strings.Contains(page, `class="bad"`); bad != slices.Contains(want, never) {
			t.Errorf("%s, something is bad: %v", when, bad)
		}
		said := minutes.ReplaceAllString(strings.Join(got, "\n"), "long")
		if len(got) != len(want) {
			t.Errorf("%s, the overview tells of %d things, want %d:\n%s",
				when, len(got), len(want), said)
		}
		for _, part := range want {
			if !strings.Contains(said, part) {
				t.Errorf("%s, the overview lacks %q:\n%s", when, part, said)
			}
		}
	}
	look("while somebody asks, or has just registered")
	change(t, pool, `
		UPDATE stint.action_stats SET asked_at = asked_at - interval '150 seconds'`)
	change(t, pool, "UPDATE stint.actors SET since = since - interval '150 seconds'")
	look("when nobody has asked for long", hangs, never, busy)
	change(t, pool, fetchedOnceIn("20 minutes"))
	look("when nobody has for so long once before", hangs, never, busy)
	change(t, pool, fetchedOnceIn("10 minutes"))
	look("when nobody has for so long time and again", never, busy)
}

// The overview of all shards says of each what its own overview says that waits, and leads there.
func TestShards_SayWhatWaitsOnEach(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	us, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, us.Close(context.WithoutCancel(t.Context()))) })
	s := &sharding{eu: newStore(t), us: us}
	now := time.Now()
	wantNil(t, us.RegisterActor(t.Context(), "worker-1", []string{"scan"}))
	insert(t, us, stint.Task{ID: "a", Action: "mail", Key: "shop"},
		stint.Task{ID: "b", Action: "scan"}, stint.Task{ID: "c", Action: "print"},
		stint.Task{ID: "soon", Action: "mail", NotBefore: now.Add(time.Hour)},
		stint.Task{ID: "far", Action: "mail", NotBefore: now.Add(4000 * 24 * time.Hour)})
	_, err = us.OwnTasks(t.Context(), "gone", 1, []string{"print"}, 240*time.Hour)
	wantNil(t, err)
	by := stint.WithAuthor(t.Context(), stint.Author{Name: "ann", Reason: "the relay is down"})
	wantNil(t, us.PauseKeys(by, "mail", "shop"))
	change(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - interval '3 minutes'")
	change(t, pool, "UPDATE stint.actors SET since = since - interval '3 minutes'")
	change(t, pool, `
		UPDATE stint.scheduled SET not_before = now() - interval '3 hours'
		WHERE not_before < now() + interval '2 hours'`)
	page := text(t, s.pages(t, open()), "/")
	got := minutes.ReplaceAllString(strings.Join(attentionOf(t, page), "\n"), "long")
	for _, want := range []string{
		"us: scan is behind: 1 task ready, the oldest for long; nobody has asked for " +
			"any, though 1 actor is registered for it",
		"us: The key shop of mail was paused ", "s ago by ann (“the relay is down”).",
		"us: Nobody maintains the store, it seems, or something holds that up, since 3h00m ago: " +
			"a scheduled task has not become ready.",
		"us: 1 task is scheduled for more than a year from now: far starts in 10y.",
		"1 task is owned by processes that nobody watches",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "eu: ") {
		t.Errorf("on eu nothing waits:\n%s", got)
	}
	wantParts(t, page, `href="shard/us/task?id=far"`, `href="shard/us/actors"`,
		`href="shard/us/changes?action=mail"`, `href="shard/us/action?name=mail"`)
}

// fetchedOnceIn notes that mails were fetched so long ago, not for two minutes, and then again.
func fetchedOnceIn(ago string) string {
	return `
		INSERT INTO stint.minutes (minute, since, until, all_tries, all_retries, tries, retries,
			completed, failed, ready, estimated, action)
		SELECT begun.at, begun.at, begun.at + interval '1 minute', 0, 0, minute.tries, 0, 0, 0, 2,
			false, 'mail'
		FROM (VALUES (0, 3), (1, 0), (2, 0), (3, 3)) AS minute (n, tries)
		CROSS JOIN LATERAL (
			SELECT date_trunc('minute', now()) - interval '` + ago + `'
				+ minute.n * interval '1 minute' AS at
		) AS begun`
}
