package demo

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint"
)

const (
	// scanners is how many films are scanned at once.
	scanners = 6

	// parcels is how many books of the last year wait to be sent.
	parcels     = 12
	actionShip  = "ship"
	parcelsName = "last-year"
)

// decide does what the office of the agency has decided, beside the yearbook: it limits an action,
// pauses another one, whose tasks wait, and has a schedule order the next yearbook. Who has
// decided it, and why, is in the audit log.
func (s *story) decide(ctx context.Context) error {
	because := func(reason string) context.Context {
		return stint.WithAuthor(ctx, stint.Author{Name: "ann", Reason: reason})
	}
	err := s.Store.SetLimits(because("the agency has six scanners"), actionScan,
		stint.Limits{Concurrency: scanners})
	if err != nil {
		return err
	}
	if err := s.Store.Pause(because("the couriers are on strike"), actionShip); err != nil {
		return err
	}
	books := make([]stint.Task, parcels)
	for i := range books {
		id := stint.TaskID(fmt.Sprintf("%s/parcel-%d", parcelsName, i+1))
		books[i] = stint.Task{ID: id, Action: actionShip}
	}
	if err := s.Store.InsertTasks(ctx, books); err != nil {
		return err
	}
	return s.Store.PutSchedules(because("there is one each year"), []stint.Schedule{{
		Name: "next-yearbook", Spec: "@yearly", Tasks: []stint.Task{{Action: actionOrder}},
	}})
}
