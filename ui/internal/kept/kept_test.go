package kept_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint/ui/internal/kept"
)

// Those who ask the same share the answer; what nobody asked for lately is forgotten.
func TestAnswers_KeepsTheLatest(t *testing.T) {
	t.Parallel()
	r := kept.Answers[int]{Most: 2, Timeout: time.Minute}
	asked := 0
	ask := func(context.Context) (int, error) {
		asked++
		return asked, nil
	}
	for i, step := range []struct {
		key  string
		want int
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"a", 1}, {"c", 3}, {"a", 1}, {"b", 4}} {
		if got, err := r.Get(t.Context(), step.key, ask); got != step.want || err != nil {
			t.Errorf("step %d: %d, %v, want %d", i, got, err, step.want)
		}
	}
}

// Whoever does not wait for the next answer has the last one.
func TestAnswer_IsTheLastOneForThoseWhoGo(t *testing.T) {
	t.Parallel()
	hold, asked := make(chan struct{}), 0
	a := kept.Answer[int]{Timeout: time.Minute, Ask: func(context.Context) (int, error) {
		if asked++; asked > 1 {
			<-hold
		}
		return asked, nil
	}}
	defer close(hold)
	if got, err := a.Get(t.Context()); got != 1 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	a.Forget()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := a.Get(gone); got != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v for one who goes", got, err)
	}
}
