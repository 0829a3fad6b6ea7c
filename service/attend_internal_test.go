package service

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// An actor that does not read which tasks it has lost cannot name others without end.
func TestAttendance_BoundsWhatAnActorHasLost(t *testing.T) {
	t.Parallel()
	s := &attendance{held: map[stint.Token]stint.TaskID{}, told: make(chan struct{}, 1)}
	tell := func() error {
		message := &stintv1.AttendRequest{}
		for range heldMax / 2 {
			message.Held = append(message.Held, &stintv1.Performance{
				Id: "a", Token: uuid.NewString(),
			})
		}
		return s.note(message)
	}
	for range 2 {
		if err := tell(); err != nil {
			t.Fatal(err)
		}
		for _, task := range s.owned() {
			s.lose(task, stint.ErrInvalidToken)
		}
	}
	if err := tell(); !errors.Is(err, stint.ErrTooLarge) {
		t.Errorf("an actor that reads nothing names %d tasks: %v", len(s.held)+len(s.lost), err)
	}
}
