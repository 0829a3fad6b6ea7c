package command

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

func TestAge_ReadsDaysAndDurations(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "7d": 7 * day, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute,
		"0": stint.KeepNone, "0d": stint.KeepNone, "65535d": 65535 * day, "0.5h": 30 * time.Minute,
	} {
		var got age
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%q is %v, %v, want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{
		"", "7", "d", "-1h", "-7d", "1d-1h", "7days", "1h2d", "70000d", "soon", "1.5d",
		"65535d2000000h", "1e3h",
	} {
		got := age(time.Second)
		if err := got.Set(text); err == nil || time.Duration(got) != time.Second {
			t.Errorf("%q is read as %v", text, time.Duration(got))
		}
	}
}
