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
		"0": 0, "0d": 0, "65535d": 65535 * day, "0.5h": 30 * time.Minute,
	} {
		var got age
		if err := got.Set(text); err != nil || got != (age{want, true}) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "7", "d", "-1h", "-7d", "1d-1h", "7days", "1h2d", "70000d", "soon", "1.5d",
		"65535d2000000h", "1e3h",
	} {
		var got age
		if err := got.Set(text); err == nil || got.given {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestKeeping_ReadsAgesAndForever(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"36h": 36 * time.Hour, "forever": stint.KeepForever, "0": stint.KeepNone,
	} {
		var got keeping
		if err := got.Set(text); err != nil || got != (keeping{text, want}) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "-1h", "Forever", "never"} {
		var got keeping
		if err := got.Set(text); err == nil || got != (keeping{}) {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
