//go:build unix

package main

import (
	"os/user"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G225.
func TestChanges_TellWhoHasChangedWhat(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/1", Action: "mail"}, stint.Task{ID: "mail/2", Action: "mail"},
		stint.Task{ID: "mail/1+", Action: "mail", After: []stint.TaskID{"mail/1"}},
		stint.Task{ID: "ask", Action: stint.External})
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	db.run(t, "", "changes").wantExit(t, 0, "no changes are known")
	db.run(t, "", "abort", "mail/1", "--dry-run", "--reason", "only a test").wantExit(t, 0)
	db.run(t, "", "abort", "mail/1", "--reason", "no longer\tneeded").wantExit(t, 0)
	if got := db.get(t, "mail/1").Status; got != "no longer\tneeded" {
		t.Errorf("the status is %q", got)
	}
	db.run(t, "", "retry", "mail/1", "--by", "ann").wantExit(t, 0)
	db.run(t, "", "show", "mail/1").wantExit(t, 0).wantOutput(t,
		" by "+who.Username+" with 1 other: \"no longer\\tneeded\"", "retried ", " by ann")
	var shown struct {
		Changes []struct{ Verb, By, Reason string }
	}
	db.run(t, "", "show", "mail/1", "--json").wantExit(t, 0).decode(t, &shown)
	if len(shown.Changes) != 2 || shown.Changes[0].Verb != "RetryTasks" ||
		shown.Changes[1].Reason != "no longer\tneeded" {
		t.Errorf("show --json has the changes %+v", shown.Changes)
	}
	db.run(t, "", "delete", "--action", "mail", "--yes", "--by", "ann", "--reason", "a mistake").
		wantExit(t, 0)
	db.run(t, "", "show", "mail/1").wantExit(t, 3, "it was deleted ",
		" by ann with 2 others: a mistake")
	db.run(t, "", "show", "none").wantExit(t, 3)
	db.run(t, "", "pause", "mail", "--reason", "broken").wantExit(t, 0)
	db.run(t, "", "limit", "mail", "--concurrency", "3").wantExit(t, 0)
	db.run(t, "", "answer", "ask", "--completed", "--by", "bob").wantExit(t, 0)
	db.run(t, "", "schedule", "put", "--name", "daily", "--spec", "@daily", "--action", "mail").
		wantExit(t, 0)
	db.run(t, "", "changes").wantExit(t, 0).wantOutput(t,
		"put 1 schedule: daily", "answered 1 task of stint.External: ask", "bob",
		"set the limits of mail: none → concurrency 3", "paused mail", "broken",
		"deleted 3 tasks of mail: mail/1, mail/1+, mail/2", "retried 1 task of mail and 1 other")
	db.run(t, "", "changes", "mail/2").wantExit(t, 0).wantOutput(t, "deleted 3 tasks")
	page := db.run(t, "", "changes", "--action", "mail", "--limit", "2", "--json").wantExit(t, 0)
	_, after, found := strings.Cut(strings.TrimSpace(page.stderr), "--after ")
	if !found || strings.Count(page.stdout, "\n") != 2 {
		t.Errorf("the first page: %s%s", page.stdout, page.stderr)
	}
	rest := db.run(t, "", "changes", "--action", "mail", "--after", after).wantExit(t, 0)
	rest.wantOutput(t, "deleted 3 tasks")
	if strings.Contains(rest.stdout, "paused") {
		t.Errorf("the second page: %s", rest.stdout)
	}
	db.exec(t, "INSERT INTO stint.changes (number, items, verb, author, action) "+
		"SELECT n, 1, 'PauseActions', 'ann', 'rare' FROM generate_series(1, 10001) AS n")
	none := db.run(t, "", "changes", "--action", "mail").wantExit(t, 0,
		"none among the changes that were looked at", "--after ")
	if strings.Contains(none.stderr, "no changes are known") {
		t.Errorf("where there may be more: %s", none.stderr)
	}
	db.run(t, "", "changes", "--limit", "0").wantExit(t, 2)
	db.run(t, "", "changes", "a", "--action", "mail").wantExit(t, 2)
	db.run(t, "", "changes", "a", "b").wantExit(t, 2)
}

// Proves G227.
func TestChanges_OfAServiceNameItsCaller(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/1", Action: "mail"})
	s := db.serve(t)
	remote := func(args ...string) ran {
		return run(t, nil, "", append(args, "--server", s.address)...)
	}
	remote("delete", "mail/1", "--by", "ann", "--reason", "a mistake").wantExit(t, 0)
	remote("show", "mail/1").wantExit(t, 3, "it was deleted ", " by ann: a mistake")
	remote("changes").wantExit(t, 0).wantOutput(t, "deleted 1 task of mail: mail/1")
	remote("changes", "mail/1", "--json").wantExit(t, 0).wantOutput(t, `"by":"ann"`)
}
