package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/shards"
)

// A loser loses the answer to the first attempt of a verb, when the service has given it, and lets
// others act before the next one.
type loser struct {
	verb      string
	loses     bool
	meanwhile func()
	attempts  atomic.Int32
	next      http.RoundTripper
}

func (l *loser) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/"+l.verb) || l.attempts.Add(1) > 1 {
		return response, err
	}
	if !l.loses {
		return response, nil
	}
	_, err = io.Copy(io.Discard, response.Body)
	err = errors.Join(errCut, err, response.Body.Close())
	l.meanwhile()
	return nil, err
}

// A repetition is a call of a verb, and what others do between its first attempt and the next one.
type repetition struct {
	prepare, meanwhile func(r *remote)
	// call returns what the caller is told.
	call func(r *remote, c *client.Client) (told any, err error)
	// once says that the verb is not repeated, so that its caller is told ErrUnavailable.
	once bool
	// lacks says that the result lacks what an attempt has done whose answer was lost, as the
	// comment of the verb says.
	lacks bool
	// silent says that the client calls the verb in the background, and nobody is told.
	silent bool
}

// A verb that is repeated by the client tells its caller what one call would have, whatever others
// have made of it since: the verbs are those of the service.
// Proves G286.
func TestClient_TellsOfARepeatedCallWhatItWouldHaveTold(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	all := repetitions()
	for _, verb := range changingVerbs() {
		if _, ok := all[verb]; !ok {
			t.Errorf("%s is not tried", verb)
		}
	}
	for _, verb := range testrun.Some(changingVerbs()) {
		tried, ok := all[verb]
		if !ok || tried.silent {
			continue
		}
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			want, _ := tried.tell(t, verb, false)
			got, attempts := tried.tell(t, verb, true)
			switch {
			case tried.once:
				if attempts != 1 || !strings.Contains(got, client.ErrUnavailable.Error()) {
					t.Errorf("after %d attempts it tells %s", attempts, got)
				}
			case attempts < 2:
				t.Errorf("it was not repeated, and tells %s", got)
			case got != want && !tried.lacks:
				t.Errorf("it tells %s, want %s", got, want)
			}
		})
	}
}

// An insert of one task is known again by what it has inserted, also if the task has ended since,
// and a task of others with the same ID is not taken for it.
// Proves G286.
func TestClient_KnowsTheOneTaskAgainThatItHasInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	task := stint.Task{ID: "a", Action: "act", Key: "k", Body: []byte("body")}
	older := func(r *remote) {
		_, err := r.pool.Exec(context.Background(),
			"UPDATE stint.tasks SET inserted_at = inserted_at - interval '2 minutes'")
		must(err)
	}
	for name, tried := range map[string]struct {
		others    []stint.Task
		prepare   func(r *remote)
		meanwhile func(r *remote)
		want      error
	}{
		"one's own": {meanwhile: perform("act")},
		"of others, another body": {
			others: []stint.Task{{ID: "a", Action: "act", Key: "k"}}, want: stint.ErrTaskExists,
		},
		"of others, older": {
			others: []stint.Task{task}, prepare: older, want: stint.ErrTaskExists,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, stint.Options{})
			if len(tried.others) > 0 {
				insertAll(tried.others...)(r)
			}
			if tried.prepare != nil {
				tried.prepare(r)
			}
			way := &loser{verb: "InsertTasks", loses: true, next: newTransport()}
			way.meanwhile = func() {
				if tried.meanwhile != nil {
					tried.meanwhile(r)
				}
			}
			c := testservice.Client(t, r.address, client.Options{
				HTTPClient: &http.Client{Transport: way},
			})
			err := c.InsertTasks(t.Context(), []stint.Task{task})
			if !errors.Is(err, tried.want) || (err == nil) != (tried.want == nil) {
				t.Errorf("InsertTasks = %v, want %v", err, tried.want)
			}
			if got := way.attempts.Load(); got < 2 {
				t.Errorf("it was attempted %d times", got)
			}
		})
	}
}

// changingVerbs are the procedures of the service that change something, but for streams.
func changingVerbs() (verbs []string) {
	for _, file := range []protoreflect.FileDescriptor{
		stintv1.File_stint_v1_task_service_proto, stintv1.File_stint_v1_worker_service_proto,
		stintv1.File_stint_v1_cluster_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				method := methods.Get(k)
				options, _ := method.Options().(*descriptorpb.MethodOptions)
				reads := options.GetIdempotencyLevel() ==
					descriptorpb.MethodOptions_NO_SIDE_EFFECTS
				if !reads && !method.IsStreamingClient() {
					verbs = append(verbs, string(method.Name()))
				}
			}
		}
	}
	return verbs
}

// tell makes the call on a database of its own, which keeps no tasks that have completed, and
// returns what its caller is told, and how often the service was asked.
func (p repetition) tell(t *testing.T, verb string, loses bool) (told string, attempts int32) {
	t.Helper()
	r := newRemote(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepForever},
	})
	act := func(what func(r *remote)) {
		if what != nil {
			what(r)
		}
	}
	act(p.prepare)
	way := &loser{
		verb: verb, loses: loses, meanwhile: func() { act(p.meanwhile) }, next: newTransport(),
	}
	c := testservice.Client(t, r.address, client.Options{HTTPClient: &http.Client{Transport: way}})
	result, err := p.call(r, c)
	if !loses {
		act(p.meanwhile)
	}
	wantErr(t, "Close", c.Close(context.WithoutCancel(t.Context())), nil)
	page, listErr := r.store.ListTasks(t.Context(), stint.Filter{})
	wantErr(t, "ListTasks", listErr, nil)
	text := &strings.Builder{}
	fmt.Fprintf(text, "%+v, %v;", result, err)
	for _, task := range page.Tasks {
		fmt.Fprintf(text, " %s %s after %d,", task.ID, task.State, task.Tries)
	}
	tellSettings(t, r, text)
	return text.String(), way.attempts.Load()
}

// tellSettings writes which limits, pauses and schedules there are.
func tellSettings(t *testing.T, r *remote, text io.Writer) {
	t.Helper()
	limits, err := r.store.ListLimits(t.Context())
	wantErr(t, "ListLimits", err, nil)
	for _, l := range limits {
		fmt.Fprintf(text, " %s has %+v, paused: %t, keys: %d, weights: %v,", l.Action, l.Limits,
			!l.PausedSince.IsZero(), len(l.PausedKeys), l.Weights)
	}
	schedules, err := r.store.ListSchedules(t.Context())
	wantErr(t, "ListSchedules", err, nil)
	for _, s := range schedules {
		fmt.Fprintf(text, " %s is %s, paused: %t,", s.Name, s.Spec, !s.PausedSince.IsZero())
	}
}

// insertAll inserts tasks that others have.
func insertAll(tasks ...stint.Task) func(r *remote) {
	return func(r *remote) { must(r.store.InsertTasks(context.Background(), tasks)) }
}

// perform completes the next task of an action.
func perform(action string) func(r *remote) {
	return func(r *remote) {
		task := ownOne(r, action)
		must(r.store.ReturnTask(
			context.Background(), task.ID, task.Token, "", stint.StatusCompleted))
	}
}

func ownOne(r *remote, action string) stint.OwnedTask {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	owned, err := r.store.WaitToOwnTasks(ctx, "other", 1, []string{action}, time.Hour)
	must(err)
	return owned[0]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// repetitions are those of all verbs.
func repetitions() map[string]repetition {
	all := changesRepeated()
	for _, more := range []map[string]repetition{
		insertsRepeated(), limitsRepeated(), schedulesRepeated(), ownersRepeated(),
	} {
		for verb, tried := range more {
			all[verb] = tried
		}
	}
	return all
}

func insertsRepeated() map[string]repetition {
	ctx := context.Background()
	one, two := stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "next"}
	return map[string]repetition{
		"InsertTasks": {
			call: func(_ *remote, c *client.Client) (any, error) {
				return nil, c.InsertTasks(ctx, []stint.Task{one})
			},
			meanwhile: perform("act"),
		},
		"EnsureTasks": {
			prepare: insertAll(two),
			call: func(_ *remote, c *client.Client) (any, error) {
				return c.EnsureTasks(ctx, []stint.Task{two, one})
			},
			meanwhile: perform("act"),
		},
		"ReplaceTasks": {once: true, call: func(_ *remote, c *client.Client) (any, error) {
			return nil, c.ReplaceTasks(ctx, []stint.Task{one})
		}},
		"Debounce": {
			call: func(_ *remote, c *client.Client) (any, error) {
				return nil, c.Debounce(ctx, one, time.Millisecond, time.Hour)
			},
			meanwhile: perform("act"),
		},
		"InsertShardTasks": {once: true, call: func(_ *remote, c *client.Client) (any, error) {
			return nil, c.InsertShardTasks(ctx, []shards.Task{{Shard: "eu", Task: one}})
		}},
	}
}

func changesRepeated() map[string]repetition {
	ctx, a := context.Background(), []stint.TaskID{"a"}
	one, two := stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "next"}
	behind := stint.Task{ID: "b", Action: "next", After: a}
	abort := func(r *remote) { _, err := r.store.AbortTasks(ctx, a, "other"); must(err) }
	retry := func(r *remote) { _, err := r.store.RetryTasks(ctx, a); must(err) }
	return map[string]repetition{
		"AddDependencies": {
			prepare: insertAll(one, two),
			call: func(_ *remote, c *client.Client) (any, error) {
				return nil, c.AddDependencies(ctx,
					[]stint.Dependency{{Predecessor: "a", Dependent: "b"}})
			},
			meanwhile: func(r *remote) { perform("act")(r); ownOne(r, "next") },
		},
		"AbortTasks": {
			prepare: insertAll(one, behind), meanwhile: retry,
			call: func(_ *remote, c *client.Client) (any, error) {
				return c.AbortTasks(ctx, a, "why not")
			},
		},
		"AnswerTasks": {
			prepare: insertAll(stint.Task{ID: "a", Action: stint.External}),
			call: func(_ *remote, c *client.Client) (any, error) {
				return c.AnswerTasks(ctx, "ann",
					[]stint.Answer{{ID: "a", Code: stint.StatusAborted}})
			},
			meanwhile: retry,
		},
		"RetryTasks": {
			prepare: func(r *remote) { insertAll(one, behind)(r); abort(r) }, meanwhile: abort,
			call: func(_ *remote, c *client.Client) (any, error) { return c.RetryTasks(ctx, a) },
		},
		"ChangeTasks": {
			prepare: insertAll(stint.Task{
				ID: "a", Action: "act", NotBefore: time.Now().Add(time.Hour),
			}),
			call: func(_ *remote, c *client.Client) (any, error) {
				return c.ChangeTasks(ctx, a, stint.TaskChanges{StartNow: true})
			},
			meanwhile: func(r *remote) { ownOne(r, "act") },
		},
		"DeleteTasks": {
			prepare: insertAll(one, behind), meanwhile: insertAll(one),
			call: func(_ *remote, c *client.Client) (any, error) { return c.DeleteTasks(ctx, a) },
		},
		"Transact": {
			prepare: insertAll(one),
			call: func(r *remote, c *client.Client) (any, error) {
				owned := ownOne(r, "act")
				return c.Transact(ctx, client.Transaction{
					Insert: []stint.Task{{ID: "c", Action: "new"}}, Abort: []stint.TaskID{"c"},
					Return: []stint.Return{{
						ID: "a", Token: owned.Token, Code: stint.StatusCompleted,
					}},
				})
			},
			meanwhile: func(r *remote) {
				_, err := r.store.DeleteTasks(ctx, []stint.TaskID{"c"})
				must(err)
			},
		},
		"PruneTasks": {lacks: true, call: func(_ *remote, c *client.Client) (any, error) {
			return c.PruneTasks(ctx, stint.Retention{
				Completed: stint.KeepForever, Aborted: stint.KeepNone,
			}, false)
		}},
	}
}

// onStore has a verb of the store called, by others or ahead of the call.
func onStore(act func(ctx context.Context, s *stint.Store) error) func(r *remote) {
	return func(r *remote) { must(act(context.Background(), r.store)) }
}

// repeating is a call of a verb whose answer is empty.
func repeating(
	call func(ctx context.Context, c *client.Client) error,
) func(*remote, *client.Client) (any, error) {
	return func(_ *remote, c *client.Client) (any, error) {
		return nil, call(context.Background(), c)
	}
}

func limitsRepeated() map[string]repetition {
	limit := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.SetLimits(ctx, "act", stint.Limits{Concurrency: 5})
	})
	pause := onStore(func(ctx context.Context, s *stint.Store) error { return s.Pause(ctx, "act") })
	resume := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.Resume(ctx, "act")
	})
	pauseKey := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.PauseKeys(ctx, "act", "k")
	})
	resumeKey := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.ResumeKeys(ctx, "act", "k")
	})
	weigh := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.SetWeights(ctx, "act", map[string]int{"k": 5})
	})
	return map[string]repetition{
		"SetLimits": {
			meanwhile: limit, call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.SetLimits(ctx, "act", stint.Limits{Concurrency: 3})
			}),
		},
		"Pause": {
			meanwhile: resume, call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.Pause(ctx, "act")
			}),
		},
		"Resume": {
			prepare: pause, meanwhile: pause,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.Resume(ctx, "act")
			}),
		},
		"PauseKeys": {
			meanwhile: resumeKey,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.PauseKeys(ctx, "act", "k")
			}),
		},
		"ResumeKeys": {
			prepare: pauseKey, meanwhile: pauseKey,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.ResumeKeys(ctx, "act", "k")
			}),
		},
		"SetWeights": {
			prepare: limit, meanwhile: weigh,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.SetWeights(ctx, "act", map[string]int{"k": 2})
			}),
		},
	}
}

func schedulesRepeated() map[string]repetition {
	some := []stint.Schedule{{
		Name: "s", Spec: "@yearly", Tasks: []stint.Task{{Action: "scheduled"}},
	}}
	others := []stint.Schedule{{Name: "s", Spec: "@monthly", Tasks: some[0].Tasks}}
	put := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.PutSchedules(ctx, some)
	})
	putOthers := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.PutSchedules(ctx, others)
	})
	unput := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.DeleteSchedules(ctx, "s")
	})
	rest := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.PauseSchedules(ctx, "s")
	})
	unrest := onStore(func(ctx context.Context, s *stint.Store) error {
		return s.ResumeSchedules(ctx, "s")
	})
	return map[string]repetition{
		"PutSchedules": {
			meanwhile: putOthers,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.PutSchedules(ctx, some)
			}),
		},
		"EnsureSchedules": {
			meanwhile: unput, call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.EnsureSchedules(ctx, some)
			}),
		},
		"PauseSchedules": {
			prepare: put, meanwhile: unrest,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.PauseSchedules(ctx, "s")
			}),
		},
		"ResumeSchedules": {
			prepare: put, meanwhile: rest,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.ResumeSchedules(ctx, "s")
			}),
		},
		"DeleteSchedules": {
			prepare: put, meanwhile: put,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return c.DeleteSchedules(ctx, "s")
			}),
		},
		"TriggerSchedule": {
			prepare: put, once: true,
			call: repeating(func(ctx context.Context, c *client.Client) error {
				return errOf(c.TriggerSchedule(ctx, "s"))
			}),
		},
	}
}

func ownersRepeated() map[string]repetition {
	ctx := context.Background()
	prepare := insertAll(stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	// owner has calls of who owns a.
	owner := func(
		call func(c *client.Client, owned stint.OwnedTask) (any, error),
	) func(*remote, *client.Client) (any, error) {
		return func(r *remote, c *client.Client) (any, error) { return call(c, ownOne(r, "act")) }
	}
	completed := func(owned stint.OwnedTask) []stint.Return {
		return []stint.Return{{ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted}}
	}
	prune := func(r *remote) { _, err := r.store.Prune(ctx); must(err) }
	return map[string]repetition{
		"OwnTasks": {prepare: prepare, meanwhile: prune, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				verdicts, others, err := c.ReturnAndOwnTasks(ctx, completed(owned), stint.Want{
					Actor: "actor", MaxTasks: 1, Actions: []string{"act"}, Lease: time.Hour,
				})
				return fmt.Sprint(verdicts, ids(others)), err
			})},
		"ReleaseClaim": {silent: true},
		"ExtendTasksOwnership": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return c.ExtendTasksOwnership(ctx, "other", []stint.OwnedTask{owned}, time.Minute)
			})},
		"ReturnTasks": {prepare: prepare, meanwhile: prune, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return c.ReturnTasks(ctx, completed(owned))
			})},
		"SetStatus": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return nil, c.SetStatus(ctx, owned, "half", 0.5)
			})},
		"DrawFence": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return nil, errOf(c.Fence(ctx, owned)) // another number is as good
			})},
		"RecordStep": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return c.RecordStep(ctx, owned, "step", []byte("value"))
			})},
		"GetInputs": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return c.Inputs(ctx, owned)
			})},
		"ListSteps": {prepare: prepare, call: owner(
			func(c *client.Client, owned stint.OwnedTask) (any, error) {
				return c.Steps(ctx, owned)
			})},
	}
}
