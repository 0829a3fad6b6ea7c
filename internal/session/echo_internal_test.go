package session

import (
	"slices"
	"testing"
)

// A message that the process was told of is passed over once, and only from its sender.
func TestEchoes_ArePassedOverOnce(t *testing.T) {
	t.Parallel()
	var e echoes
	e.expect(7, []string{"ready act", "ready act", "finished 1"})
	var taken []bool
	for _, message := range []echo{
		{8, "ready act"}, {7, "ready act"}, {7, "ready act"}, {7, "ready act"}, {7, "finished 1"},
	} {
		taken = append(taken, e.takes(message.process, message.payload))
	}
	if want := []bool{false, true, true, false, true}; !slices.Equal(taken, want) {
		t.Errorf("takes = %v, want %v", taken, want)
	}
	if len(e.due) > 0 {
		t.Errorf("%v are still due", e.due)
	}
}

func TestTell_TellsAllAndCountsWhatIsListenedFor(t *testing.T) {
	t.Parallel()
	var told []string
	s := New(Config{Told: func(kind, rest string) { told = append(told, kind+"/"+rest) }})
	s.topics["ready act"] = now()
	heard := s.Tell([]string{"ready act", "finished"}, []string{"ready act", "finished 1 2"})
	if want := []string{"ready/act", "finished/1 2"}; heard != 1 || !slices.Equal(told, want) {
		t.Errorf("Tell = %d, and told %q, want 1 and %q", heard, told, want)
	}
	if heard := (*Session)(nil).Tell([]string{"lost"}, []string{"lost"}); heard != 0 {
		t.Errorf("nobody heard %d", heard)
	}
}
