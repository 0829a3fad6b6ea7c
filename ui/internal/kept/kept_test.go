package kept_test

import (
	"context"
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
