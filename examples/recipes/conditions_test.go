package recipes

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// insertArticle has an article reviewed. What happens next depends on what the reviewer answers.
func insertArticle(ctx context.Context, store *stint.Store, article string) error {
	id := func(step string) stint.TaskID { return stint.TaskID(article + "/" + step) }
	notFailed := []stint.State{stint.StateCompleted, stint.StateSkipped}
	return store.InsertTasks(ctx, []stint.Task{
		{ID: id("review"), Action: "review", Body: []byte(article)},

		// One of these two runs, as the result of the review says. The other one is skipped.
		{ID: id("publish"), Action: "publish", When: []stint.Condition{
			{After: id("review"), Results: []string{"yes"}},
		}},
		{ID: id("rework"), Action: "rework", When: []stint.Condition{
			{After: id("review"), Results: []string{"no", "later"}},
		}},

		// This runs behind the branch that was taken.
		{ID: id("tell-author"), Action: "tell", When: []stint.Condition{
			{After: id("publish"), States: notFailed},
			{After: id("rework"), States: notFailed},
		}},

		// This runs only if the article should have been published, and was not.
		{ID: id("alarm"), Action: "alarm", When: []stint.Condition{
			{After: id("publish"), States: []stint.State{stint.StateAborted}},
		}},

		// The first copy is enough for the announcement. If the article is not published, all
		// three are skipped.
		{ID: id("copy-to-eu"), Action: "copy", After: []stint.TaskID{id("publish")}},
		{ID: id("copy-to-us"), Action: "copy", After: []stint.TaskID{id("publish")}},
		{ID: id("announce"), Action: "announce", WhenAny: []stint.Condition{
			{After: id("copy-to-eu")}, {After: id("copy-to-us")},
		}},
	})
}

// review is the handler of a task with two ways on: its result is the answer.
func review(
	ask func(ctx context.Context, article string) (answer string, err error),
) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		answer, err := ask(ctx, string(task.Body))
		return worker.Result{Bytes: []byte(answer)}, err
	}
}

func TestInsertArticle_GoesTheWayOfTheAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	fails := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, worker.Abort(errors.New("no"))
	}
	succeeds := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	for name, c := range map[string]struct {
		answer  string
		publish worker.Handler
		want    string // by the names of the tasks
	}{
		"yes": {"yes", succeeds, "alarm skipped, announce completed, copy-to-eu completed, " +
			"copy-to-us completed, publish completed, review completed, rework skipped, " +
			"tell-author completed"},
		"no": {"later", succeeds, "alarm skipped, announce skipped, copy-to-eu skipped, " +
			"copy-to-us skipped, publish skipped, review completed, rework completed, " +
			"tell-author completed"},
		"failed": {"yes", fails, "alarm completed, announce aborted, copy-to-eu aborted, " +
			"copy-to-us aborted, publish aborted, review completed, rework skipped, " +
			"tell-author aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := stinttest.New(t, stint.Options{})
			if err := insertArticle(t.Context(), store.Store, "a"); err != nil {
				t.Fatalf("insertArticle = %v", err)
			}
			handlers := []worker.Registration{
				worker.Handle("review", review(func(context.Context, string) (string, error) {
					return c.answer, nil
				})),
				worker.Handle("publish", c.publish),
			}
			for _, action := range []string{"rework", "tell", "alarm", "copy", "announce"} {
				handlers = append(handlers, worker.Handle(action, succeeds))
			}
			stinttest.Drain(t, store, newWorker(t, store, handlers...))
			page, err := store.ListTasks(t.Context(), stint.Filter{})
			if err != nil {
				t.Fatalf("ListTasks = %v", err)
			}
			var got []string
			for _, task := range page.Tasks {
				got = append(got, strings.TrimPrefix(string(task.ID), "a/")+" "+string(task.State))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("the tasks are\n%s, want\n%s", text, c.want)
			}
		})
	}
}

// What the page about networks shows of conditions is above, word for word.
func TestPage_ShowsConditionsThatAreTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/networks.md")
	if err != nil {
		t.Fatalf("ReadFile = %v", err)
	}
	source, err := os.ReadFile("conditions_test.go")
	if err != nil {
		t.Fatalf("ReadFile = %v", err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Conditions, any of, skipping\n")
	section, _, _ = strings.Cut(section, "\n## ")
	shown := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	if !ok || len(shown) != 1 {
		t.Errorf("the section has %d blocks, want 1", len(shown))
	}
	for _, block := range shown {
		if !strings.Contains(string(source), block[1]) {
			t.Errorf("this block is not in the test:\n%s", block[1])
		}
	}
}
