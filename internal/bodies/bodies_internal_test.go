package bodies

import (
	"math"
	"testing"
	"time"
)

// What comes with the fetch itself comes within its lease, also on a slow line.
// Proves G26.
func TestFetch_BringsFewBodiesUnderAShortLease(t *testing.T) {
	t.Parallel()
	for lease, want := range map[time.Duration]int{
		time.Microsecond: 0, time.Second: 256 << 10 / 3, 3 * time.Second: 256 << 10,
		30 * time.Second: 2560 << 10, time.Hour: MostDefault / 2, math.MaxInt64: MostDefault / 2,
	} {
		b := Budget{Limit: MostDefault, Lease: lease}
		if got := b.Inline(); got != want {
			t.Errorf("under a lease of %v: %d bytes, want %d", lease, got, want)
		}
		if got := b.Most(); got != MostDefault {
			t.Errorf("under a lease of %v: %d bytes in all", lease, got)
		}
		b.Remote = true
		if got := b.Most(); got != min(b.carried(), MostDefault) {
			t.Errorf("to somebody far away under a lease of %v: %d bytes in all", lease, got)
		}
	}
}
