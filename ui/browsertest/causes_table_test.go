package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

const (
	shop  = "shop" // a key
	brief = 2 * time.Minute
	long  = 20 * time.Minute
	years = 10 * 366 * 24 * time.Hour
)

// causes are those that a test walks to.
func causes() []cause {
	return slices.Concat(pauses(), schedules(), actors(), limits(), keys(), failures(), ends(),
		stores())
}

// back is a check that so many mails are handed out again.
func back(n int) func(s *trouble) {
	return func(s *trouble) { s.Helper(); s.own(n, "mail") }
}

func pauses() []cause {
	resume := []press{{text: "Resume…"}, {text: "Resume"}}
	return []cause{{
		name: "an action is paused",
		make: func(s *trouble) {
			s.insert(1, stint.Task{})
			wantNil(s.T, s.store.Pause(s.Context(), "mail"))
		},
		notice: "mail was paused", mend: resume, mended: back(1),
	}, {
		name: "a key is paused",
		make: func(s *trouble) {
			s.insert(1, stint.Task{Key: shop})
			wantNil(s.T, s.store.PauseKeys(s.Context(), "mail", shop))
		},
		notice: "The key shop of mail was paused", mend: resume, mended: back(1),
	}, {
		name: "blocked tasks wait for a paused action",
		make: func(s *trouble) {
			wantNil(s.T, s.store.InsertTasks(s.Context(), []stint.Task{
				{ID: "render", Action: "render"},
			}))
			s.insert(1, stint.Task{After: []stint.TaskID{"render"}})
			wantNil(s.T, s.store.Pause(s.Context(), "render"))
		},
		notice: "render was paused", mend: resume,
		mended: func(s *trouble) {
			s.give(s.own(1, "render"), stint.Return{Code: stint.StatusCompleted})
			s.own(1, "mail")
		},
	}}
}

func schedules() []cause {
	put := func(s *trouble, spec string) {
		s.Helper()
		wantNil(s.T, s.store.PutSchedules(s.Context(), []stint.Schedule{{
			Name: "nightly", Spec: spec, Tasks: []stint.Task{{Action: "mail"}},
			Overlap: stint.OverlapSkip,
		}}))
	}
	now := func(s *trouble) stint.ScheduleInfo {
		s.Helper()
		found, err := s.store.ListSchedules(s.Context(), "nightly")
		wantNil(s.T, err)
		return found[0]
	}
	fire := func(s *trouble) {
		s.Helper()
		s.exec("due", 2*time.Hour)
		wantNil(s.T, s.store.Maintain(s.Context()))
	}
	occurs := func(s *trouble) {
		s.Helper()
		if found := now(s); !found.PausedSince.IsZero() || found.NextAt.IsZero() {
			s.Errorf("the schedule is %+v", found)
		}
	}
	return []cause{{
		name: "a schedule is paused",
		make: func(s *trouble) {
			put(s, "0 3 * * *")
			wantNil(s.T, s.store.PauseSchedules(s.Context(), "nightly"))
		},
		notice: "The schedule nightly was paused",
		mend:   []press{{text: "Resume…"}, {text: "Resume"}}, mended: occurs,
	}, {
		name: "a schedule leaves its occurrences out",
		make: func(s *trouble) {
			put(s, "every 1h")
			fire(s)
			put(s, "every 1s") // one that is due again would not be left out
			fire(s)
		},
		notice: "The schedule nightly left its last occurrences out, since tasks of the one",
		mend:   []press{{text: "nightly/*"}, {text: "Abort…"}, {text: "Abort 1 task"}},
		mended: func(s *trouble) {
			before := now(s).LastAt
			fire(s)
			if after := now(s).LastAt; !after.After(before) {
				s.Errorf("it occurred last at %v, and before that at %v", after, before)
			}
		},
	}}
}

func actors() []cause {
	abortAll := []press{
		{text: "Abort…", fill: map[string]string{"of": "all"}}, {text: "Abort 1 task"},
	}
	return []cause{{
		name:   "nobody performs an action",
		make:   func(s *trouble) { s.insert(1, stint.Task{}); s.exec("age", long) },
		notice: "No registered actor performs mail: 1 task ready, the oldest for 20m",
		follow: "Look", says: "none registered for it", told: "stint worker --action=mail",
		done: work, mended: performed,
	}, {
		name: "an actor hangs in all its slots",
		make: hang, notice: "; nobody has asked for more for 2m",
		mend:   append([]press{{text: "1 is in progress, for 2m*"}}, abortAll...),
		mended: performed,
	}, {
		name: "an actor is registered, and never asks",
		make: func(s *trouble) {
			register(s)
			s.insert(1, stint.Task{})
			s.exec("age", brief)
			s.exec("asked", brief)
		},
		notice: "; nobody has asked for any, though 1 actor is registered for it",
		told:   "hangs, or lacks what it needs: its log may tell", done: work, mended: performed,
	}, {
		name: "an owner is gone, whose lease is long",
		make: func(s *trouble) {
			s.insert(1, stint.Task{})
			_, err := s.store.OwnTasks(s.Context(), "gone", 1, []string{"mail"}, 240*time.Hour)
			wantNil(s.T, err)
		},
		notice: "1 task is owned by processes that nobody watches: if these are gone, the last " +
			"lease, of gone, expires in 9d.",
		mend: append([]press{{text: "gone"}}, abortAll...),
		mended: func(s *trouble) {
			s.want(stint.StateAborted, "mail/1")
			_, err := s.store.RetryTasks(s.Context(), []stint.TaskID{"mail/1"})
			wantNil(s.T, err)
			s.own(1, "mail")
		},
	}, {
		name:   "tasks are scheduled absurdly far ahead",
		make:   func(s *trouble) { s.insert(1, stint.Task{NotBefore: time.Now().Add(years)}) },
		notice: "1 task is scheduled for more than a year from now: mail/1 starts in 10y.",
		mend:   []press{{text: "mail/1"}, {text: "Run now…"}, {text: "Run now 1 task"}},
		mended: back(1),
	}}
}

// performed is a check that a worker has performed a mail.
func performed(s *trouble) { <-s.performed }

// work starts a worker for mails, which tells of each that it has performed.
func work(s *trouble) {
	s.Helper()
	perform := worker.Handle("mail", func(
		ctx context.Context, task *worker.Task,
	) (worker.Result, error) {
		if task.ID == "mail/1" && string(task.Body) == "hang" {
			<-ctx.Done()
			return worker.Result{}, ctx.Err()
		}
		s.performed <- task.ID
		return worker.Result{}, nil
	})
	w, err := worker.New(s.store, worker.Options{
		Concurrency: 1, Actor: "worker-1", Logger: slog.New(slog.DiscardHandler),
		Lease: time.Second,
	}, perform)
	wantNil(s.T, err)
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		wantNil(s.T, <-ended)
	})
}

// hang has a worker hang with its first mail.
func hang(s *trouble) {
	s.Helper()
	s.insert(2, stint.Task{Body: []byte("hang")})
	work(s)
	eventually(s.T, func() bool { return s.state("mail/1") == stint.StateInProgress })
	s.exec("age", brief)
	s.exec("asked", brief)
}

// register says that there is a worker for mails.
func register(s *trouble) {
	s.Helper()
	wantNil(s.T, s.store.RegisterActor(s.Context(), "worker-1", []string{"mail"}))
}

func limits() []cause {
	set := func(limits stint.Limits) func(s *trouble) {
		return func(s *trouble) {
			s.Helper()
			wantNil(s.T, s.store.SetLimits(s.Context(), "mail", limits))
			register(s)
			s.insert(3, stint.Task{Key: shop})
			s.own(1, "mail")
			s.exec("age", long)
		}
	}
	none := map[string]string{"concurrency": "", "per-key": "", "rate": ""}
	return []cause{{
		name: "a limit of concurrency is full", make: set(stint.Limits{Concurrency: 1}),
		notice: "mail is behind: 2 tasks ready, the oldest for 20m; its limit is full",
		mend: []press{
			{text: "Set the limits of…"}, {text: "Set the limits", fill: none},
		},
		mended: back(2),
	}, {
		name:   "a rate is too low",
		make:   set(stint.Limits{Rate: stint.Rate{Tasks: 1, Per: time.Hour}}),
		notice: "mail is behind: 2 tasks ready, the oldest for 20m",
		follow: "mail/2", says: "the rate of mail is used up: the next task may begin in ",
		mend:   []press{{text: "Set the limits…"}, {text: "Set the limits", fill: none}},
		mended: back(2),
	}, {
		name: "the limit of a key is full", make: set(stint.Limits{ConcurrencyPerKey: 1}),
		notice: "2 parked by limits, pauses or turns of their keys",
		follow: "mail/2",
		says:   "the limit of its key is full: 1 of 1 tasks with the key shop are in progress",
		mend:   []press{{text: "Set the limits…"}, {text: "Set the limits", fill: none}},
		mended: func(s *trouble) {
			wantNil(s.T, s.store.Maintain(s.Context()))
			s.own(2, "mail")
		},
	}}
}

func keys() []cause {
	return []cause{{
		name: "a failing task holds those of its key",
		make: func(s *trouble) {
			order := stint.Limits{ConcurrencyPerKey: 1, Ordered: true}
			register(s)
			wantNil(s.T, s.store.SetLimits(s.Context(), "mail", order))
			s.insert(3, stint.Task{Key: shop})
			s.give(s.own(1, "mail"), stint.Return{
				Code: stint.StatusPending, Status: "no route to host", RetryAfter: 6 * time.Hour,
			})
			s.exec("age", long)
		},
		notice: "2 parked by limits, pauses or turns of their keys", follow: "mail/2",
		says: "tasks with the key shop come one at a time, in order, and one has not ended.",
		mend: []press{{text: "Abort mail/1…"}, {text: "Abort 1 task"}},
		mended: func(s *trouble) {
			s.want(stint.StateAborted, "mail/1")
			wantNil(s.T, s.store.Maintain(s.Context()))
			s.own(1, "mail")
		},
	}, {
		name: "nobody answers an external task",
		make: func(s *trouble) {
			wantNil(s.T, s.store.InsertTasks(s.Context(), []stint.Task{
				{ID: "approve", Action: stint.External},
			}))
			s.insert(1, stint.Task{After: []stint.TaskID{"approve"}})
			s.exec("age", long)
		},
		notice: "1 task waits for an answer from outside, the oldest for 20m.",
		mend: []press{
			{text: "Look"},
			{text: "Answer…"},
			{text: "Answer", fill: map[string]string{"code": "completed"}},
		},
		mended: back(1),
	}}
}

func failures() []cause {
	const fault = "no route to host 10.0.0.%d"
	return []cause{{
		name: "one aborted task has taken 90 with it",
		make: func(s *trouble) {
			wantNil(s.T, s.store.InsertTasks(s.Context(), []stint.Task{
				{ID: "render", Action: "render"},
			}))
			s.insert(90, stint.Task{After: []stint.TaskID{"render"}})
			s.give(s.own(1, "render"), stint.Return{
				Code: stint.StatusAborted, Status: "no template",
			})
		},
		notice: "mail: 90 tasks were aborted since tasks that they depend on were.",
		follow: "Look", says: "Because of aborted render no template",
		mend:   []press{{text: "Retry where it began…"}, {text: "Retry 91 tasks"}},
		mended: func(s *trouble) { s.own(1, "render"); s.want(stint.StateBlocked, "mail/90") },
	}, {
		name: "many tasks fail alike",
		make: func(s *trouble) {
			s.insert(30, stint.Task{})
			for i, owned := range s.own(30, "mail") {
				s.give([]stint.OwnedTask{owned}, stint.Return{
					Code: stint.StatusAborted, Status: fmt.Sprintf(fault, i),
				})
			}
		},
		notice: "mail: 30 tasks failed or were given back: “no route to host",
		mend: []press{
			{text: "30 tasks"}, {text: "Retry these 30 tasks…"}, {text: "Retry 30 tasks"},
		},
		mended: back(30),
	}, {
		name: "tasks have one try left",
		make: func(s *trouble) {
			s.insert(2, stint.Task{MaxTries: 2})
			s.give(s.own(2, "mail"), stint.Return{
				Code: stint.StatusPending, Status: strings.Replace(fault, "%d", "7", 1),
			})
		},
		notice: "mail: 2 tasks failed or were given back, 2 of which have one try left",
		mend: []press{
			{text: "2 tasks"}, {text: "Allow 25 tries…"}, {text: "Change 2 tasks"},
		},
		mended: func(s *trouble) {
			for _, task := range s.own(2, "mail") {
				found, err := s.store.GetTasks(s.Context(), []stint.TaskID{task.ID})
				wantNil(s.T, err)
				if found[0].MaxTries != 25 {
					s.Errorf("%s has %d tries", task.ID, found[0].MaxTries)
				}
			}
		},
	}}
}

func ends() []cause {
	return []cause{{
		name: "a task seems to kill its owners",
		make: func(s *trouble) {
			s.insert(1, stint.Task{})
			for range 3 {
				s.own(1, "mail")
				s.exec("expire", 2*time.Hour)
				wantNil(s.T, s.store.Maintain(s.Context()))
			}
			s.want(stint.StateAborted, "mail/1")
		},
		notice: "mail: 1 task failed or was given back: “lease expired on try 3 of 25",
		follow: "Look", says: "several of its owners in a row died, or did not extend it.",
		mend:   []press{{text: "Retry…"}, {text: "Retry 1 task"}},
		mended: back(1),
	}, {
		name: "a deadline has passed",
		make: func(s *trouble) {
			s.insert(1, stint.Task{
				Deadline: time.Now().Add(time.Hour), Body: []byte("to: ann"), Key: shop,
			})
			s.exec("expire", 2*time.Hour)
			wantNil(s.T, s.store.Maintain(s.Context()))
			s.want(stint.StateAborted, "mail/1")
		},
		notice: "mail: 1 task was aborted: its deadline passed.",
		mend: []press{
			{text: "Look"}, {text: "Insert it again, without the deadline…"}, {text: "Insert"},
		},
		mended: func(s *trouble) {
			if task := s.own(1, "mail")[0]; string(task.Body) != "to: ann" || task.Key != shop {
				s.Errorf("the copy is %+v", task)
			}
		},
	}}
}

func stores() []cause {
	return []cause{{
		name: "nobody maintains the store",
		make: func(s *trouble) {
			s.insert(1, stint.Task{})
			s.own(1, "mail")
			s.exec("expire", 2*time.Hour)
		},
		notice: "Nobody maintains the store, it seems, or something holds that up, since",
		told:   "A program with a store does, such as a worker",
		done:   func(s *trouble) { s.open(stint.Options{Maintenance: stint.MaintainAlways}) },
		mended: func(s *trouble) {
			eventually(s.T, func() bool { return s.state("mail/1") == stint.StateReady })
		},
	}, {
		name: "the database is a copy",
		make: func(s *trouble) {
			s.insert(1, stint.Task{})
			_, err := s.store.OwnTasks(s.Context(), "a", 1, []string{"other"}, time.Hour)
			wantNil(s.T, err)
			s.exec("copy")
			s.pool.Reset()
			s.store = s.open(stint.Options{Maintenance: stint.MaintainNever})
		},
		notice: "The database is a copy", told: "until somebody runs stint adopt",
		done: func(s *trouble) { wantNil(s.T, stint.Adopt(s.Context(), s.store)) },
		mended: func(s *trouble) {
			eventually(s.T, func() bool {
				owned, err := s.store.OwnTasks(s.Context(), "a", 1, []string{"mail"}, time.Hour)
				return err == nil && len(owned) == 1
			})
		},
	}}
}
