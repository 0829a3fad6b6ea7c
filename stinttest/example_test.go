package stinttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// signUp is what is tested: it has a mail sent, and another one after a week.
func signUp(ctx context.Context, store *stint.Store, name string) error {
	const week = 7 * 24 * time.Hour
	return store.InsertTasks(ctx, []stint.Task{
		{ID: stint.TaskID("welcome/" + name), Action: "mail", Body: []byte(name)},
		{
			ID: stint.TaskID("remind/" + name), Action: "mail", Body: []byte(name),
			NotBefore: time.Now().Add(week),
		},
	})
}

// newMailer is the worker of the service, with all its handlers.
func newMailer(store *stint.Store) (*worker.Worker, error) {
	mail := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if task.Try == 1 {
			return worker.Result{}, errors.New("the mail server is down")
		}
		return worker.Result{Status: "sent to " + string(task.Body)}, nil
	}
	return worker.New(store, worker.Options{}, worker.Handle("mail", mail))
}

// This is the body of a test, and t is its *testing.T.
func Example() {
	t, end := newT()
	defer end()

	store := stinttest.New(t, stint.Options{})
	if err := signUp(t.Context(), store.Store, "ann"); err != nil {
		t.Fatalf("signUp = %v", err)
	}
	stinttest.RequireInserted(t, store, stint.Task{ID: "welcome/ann", Body: []byte("ann")})

	mailer, err := newMailer(store.Store)
	if err != nil {
		t.Fatalf("newMailer = %v", err)
	}
	for _, performed := range stinttest.Drain(t, store, mailer) {
		fmt.Println(performed.Task.ID, performed.Outcome, performed.Err)
	}
	fmt.Println("as time passes:")
	for _, performed := range stinttest.Drain(t, store, mailer, stinttest.WithScheduled()) {
		fmt.Println(performed.Task.ID, performed.Outcome, performed.Err)
	}
	// Output:
	// welcome/ann retried the mail server is down
	// as time passes:
	// welcome/ann completed <nil>
	// remind/ann retried the mail server is down
	// remind/ann completed <nil>
}

// What differs is in the message.
func ExampleRequireInserted() {
	t, end := newT()
	defer end()
	store := stinttest.New(t, stint.Options{})
	if err := signUp(t.Context(), store.Store, "ann"); err != nil {
		t.Fatalf("signUp = %v", err)
	}

	inserted := stinttest.RequireInserted(t, store, stint.Task{ID: "welcome/ann", Action: "mail"})
	fmt.Println(inserted[0].State)
	stinttest.RequireInserted(t, store,
		stint.Task{ID: "welcome/ann", Body: []byte("bob"), MaxTries: 5})
	// Output:
	// ready
	// FAIL: RequireInserted: task "welcome/ann" is not as wanted
	//	Body: got "ann", want "bob"
	//	MaxTries: got 25, want 5
}

func ExampleRequireNotInserted() {
	t, end := newT()
	defer end()
	store := stinttest.New(t, stint.Options{})
	if err := signUp(t.Context(), store.Store, "ann"); err != nil {
		t.Fatalf("signUp = %v", err)
	}

	stinttest.RequireNotInserted(t, store, stint.Task{Body: []byte("bob")})
	stinttest.RequireNotInserted(t, store, stint.Task{Action: "mail"})
	// Output:
	// FAIL: RequireNotInserted: task "remind/ann" is like {Action: "mail"}
	//	task "welcome/ann" is like {Action: "mail"}
}

// An owner that was not heard of for too long finds its token refused.
func ExampleExpireLeases() {
	t, end := newT()
	defer end()
	ctx, store := t.Context(), stinttest.New(t, stint.Options{})
	if err := store.InsertTasks(ctx, []stint.Task{{ID: "task", Action: "act"}}); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}

	own := func(actor stint.ActorID) stint.OwnedTask {
		owned, err := store.OwnTasks(ctx, actor, 1, []string{"act"}, time.Hour)
		if err != nil || len(owned) != 1 {
			t.Fatalf("OwnTasks = %v, %v", owned, err)
		}
		return owned[0]
	}
	late := own("late")
	stinttest.ExpireLeases(t, store, "task")
	fmt.Println("another one is at try", own("another").Try)
	err := store.ReturnTask(ctx, "task", late.Token, "", stint.StatusCompleted)
	fmt.Println(errors.Is(err, stint.ErrInvalidToken))
	// Output:
	// another one is at try 2
	// true
}

func ExampleMakeDue() {
	t, end := newT()
	defer end()
	store := stinttest.New(t, stint.Options{})
	if err := signUp(t.Context(), store.Store, "ann"); err != nil {
		t.Fatalf("signUp = %v", err)
	}

	stinttest.MakeDue(t, store, "remind/ann")
	fmt.Println(stinttest.RequireInserted(t, store, stint.Task{ID: "remind/ann"})[0].State)
	// Output:
	// ready
}

func ExamplePassDeadlines() {
	t, end := newT()
	defer end()
	ctx, store := t.Context(), stinttest.New(t, stint.Options{})
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "quote", Action: "quote", Deadline: time.Now().Add(time.Hour)},
	})
	if err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}

	stinttest.PassDeadlines(t, store, "quote")
	quote := stinttest.RequireInserted(t, store, stint.Task{ID: "quote"})[0]
	fmt.Println(quote.State, quote.AbortCause)
	// Output:
	// aborted expired
}

// An exampleT takes the place of a *testing.T, which examples do not have.
type exampleT struct {
	testing.TB
	context  func() context.Context
	cleanups []func()
}

// failed is what a failure panics with: an example that exits would end the program.
const failed = "the example has failed"

// newT returns an exampleT and what must be deferred.
func newT() (t *exampleT, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t = &exampleT{context: func() context.Context { return ctx }}
	return t, func() {
		if value := recover(); value != nil && value != failed {
			panic(value)
		}
		cancel()
		for len(t.cleanups) > 0 {
			last := len(t.cleanups) - 1
			cleanup := t.cleanups[last]
			t.cleanups = t.cleanups[:last]
			cleanup()
		}
	}
}

func (t *exampleT) Helper()                  {}
func (t *exampleT) Context() context.Context { return t.context() }
func (t *exampleT) Cleanup(cleanup func())   { t.cleanups = append(t.cleanups, cleanup) }
func (t *exampleT) Error(args ...any)        { fmt.Println("FAIL:", fmt.Sprint(args...)) }
func (t *exampleT) Fatal(args ...any)        { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *exampleT) Errorf(format string, args ...any) {
	fmt.Println("FAIL:", fmt.Sprintf(format, args...))
}

func (t *exampleT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(failed)
}
