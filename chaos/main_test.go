//go:build unix

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/chaos/faults"
	"github.com/stint-tasks/stint/chaos/record"
	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// TestMain makes the test program a process of a round, if it is told to.
func TestMain(m *testing.M) {
	if job := os.Getenv(work.Variable); job != "" {
		if err := work.Main(context.Background(), job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

//go:embed testdata/forget.sql
var forgetSQL string

//go:embed testdata/change.sql
var changeSQL string

// tampering is a fault that no store survives: a stranger changes its rows.
func tampering(name, sql string) faults.Fault {
	return faults.Fault{
		Name: name,
		Do: func(ctx context.Context, s *system.System, _ *rand.Rand, _ time.Duration) error {
			for {
				_, err := s.Server.Pool().Exec(ctx, sql)
				var refused *pgconn.PgError
				const deadlock = "40P01" // with the workers, who lock the same rows
				if !errors.As(err, &refused) || refused.Code != deadlock {
					return err
				}
			}
		},
	}
}

// chooseQuick chooses a fault that takes little time and no programs, and a seed: by the commit, so
// that each run of a commit tries the same.
func chooseQuick(commit string) (fault string, seed uint64) {
	quick := []string{
		"kill-workers", "kill-all-workers", "kill-service", "end-backends", "cancel-statements",
		"lost-answer", "lost-commit", "reset-connections",
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(commit)) // never fails
	number := hash.Sum64()
	return quick[number%uint64(len(quick))], number / uint64(len(quick)) % seedsMax
}

func TestChooseQuick_GoesByTheCommit(t *testing.T) {
	t.Parallel()
	faults, seeds := map[string]bool{}, map[uint64]bool{}
	for i := range 100 {
		name, seed := chooseQuick(fmt.Sprint(i))
		if again, same := chooseQuick(fmt.Sprint(i)); again != name || same != seed {
			t.Errorf("one commit chooses %s, %d and %s, %d", name, seed, again, same)
		}
		if _, err := chosenFaults(name); err != nil {
			t.Error(err)
		}
		faults[name], seeds[seed] = true, true
	}
	if len(faults) < 8 || len(seeds) < 90 {
		t.Errorf("100 commits choose %d faults and %d seeds", len(faults), len(seeds))
	}
}

// Rounds share a server, as those of the program do.
func TestPlay_AFaultBreaksNoPromiseAndAStrangerDoes(t *testing.T) {
	t.Parallel()
	name, seed := chooseQuick(commit(t.Context()))
	chosen, err := chosenFaults(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := begin(t.Context(), options{seed: seed, lasts: 2 * time.Second, load: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(c.dir); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		if err := c.end(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r := play(t, c, chosen[0])
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Tasks == 0 || r.Calls < r.Tasks/2 || r.Moves < int64(r.Tasks) ||
		strings.HasPrefix(name, "kill-") && r.Deaths == 0 {
		t.Errorf("the round has done little: %+v", r)
	}
	for _, stranger := range testrun.Some([]struct{ sql, found string }{
		{forgetSQL, "the task is not there"}, {changeSQL, "moved from completed to aborted"},
	}) {
		r := play(t, c, tampering("tampering", stranger.sql))
		text, err := os.ReadFile(filepath.Join(r.Kept, "violations"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), stranger.found) {
			t.Errorf("a round finds %d violations, and not %q:\n%.2000s", r.Found,
				stranger.found, text)
		}
	}
}

func play(t *testing.T, c *campaign, f faults.Fault) record.Round {
	t.Helper()
	c.number++
	r, err := c.play(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	return r
}

func TestChosenFaults_RefusesANameThatThereIsNot(t *testing.T) {
	t.Parallel()
	if _, err := chosenFaults("kill-workers,earthquake"); err == nil {
		t.Error("it accepts any name")
	}
}
