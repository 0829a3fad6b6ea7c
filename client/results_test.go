package client_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// noise returns bytes that no compression makes fewer.
func noise(size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(size >> 20)}) //nolint:mnd // a seed
	content := make([]byte, size)
	_, _ = random.Read(content)
	return content
}

// The largest body and the largest result go over the service, and so do several large results at
// once, also with a fetch.
// Proves G3.
func TestClient_TakesTheLargestBodiesAndResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	const most, some = 64 << 20, 12 << 20
	largest := noise(most)
	r.insert(t, stint.Task{ID: "a", Action: "act", Body: largest})
	own := func(n int) []stint.OwnedTask {
		owned, err := r.OwnTasks(t.Context(), "actor", n, []string{"act"}, time.Hour)
		if err != nil || len(owned) != n {
			t.Fatalf("OwnTasks = %v, %v, want %d tasks", ids(owned), err, n)
		}
		return owned
	}
	owned := own(1)
	if !bytes.Equal(owned[0].Body, largest) {
		t.Error("it has another body")
	}
	want := map[stint.TaskID][]byte{"a": largest}
	verdicts, err := r.ReturnTasks(t.Context(), []stint.Return{{
		ID: "a", Token: owned[0].Token, Code: stint.StatusCompleted, Result: largest,
	}})
	if err != nil || verdicts[0] != nil {
		t.Fatalf("ReturnTasks = %v, %v", verdicts, err)
	}
	for _, id := range []stint.TaskID{"b", "c", "d", "e"} {
		r.insert(t, stint.Task{ID: id, Action: "act"})
	}
	var returns []stint.Return
	for _, task := range own(3) {
		want[task.ID] = noise(some + int(task.ID[0]))
		returns = append(returns, stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Result: want[task.ID],
		})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.ReturnTasks(canceled, returns)
	wantErr(t, "ReturnTasks", err, context.Canceled)
	verdicts, owned, err = r.ReturnAndOwnTasks(t.Context(), returns, stint.Want{
		Actor: "actor", MaxTasks: 1, Actions: []string{"act"}, Lease: time.Hour,
	})
	if err != nil || len(owned) != 1 || owned[0].ID != "e" {
		t.Fatalf("ReturnAndOwnTasks = %v, %v", ids(owned), err)
	}
	for i, verdict := range verdicts {
		wantErr(t, string(returns[i].ID), verdict, nil)
	}
	for id, result := range want {
		infos, err := r.store.GetTasks(t.Context(), []stint.TaskID{id})
		if err != nil || len(infos) != 1 || !bytes.Equal(infos[0].Result, result) {
			t.Errorf("%s has another result, %v", id, err)
		}
	}
}
