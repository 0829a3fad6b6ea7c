package stint

import (
	"testing"
	"time"
)

// What comes with the hand-out itself comes within its lease, also on a slow line.
func TestHandOut_BringsFewBodiesUnderAShortLease(t *testing.T) {
	t.Parallel()
	store := &Store{core: &core{handOutBytes: handOutBytes}}
	for lease, want := range map[time.Duration]int{
		time.Microsecond: 0, time.Second: 256 << 10 / 3, 3 * time.Second: 256 << 10,
		30 * time.Second: 2560 << 10, time.Hour: handOutBytes / 2, NoExpiry: handOutBytes / 2,
	} {
		h := &handOut{store: store, ownRequest: ownRequest{lease: lease}}
		if got := h.inlineBytes(); got != want {
			t.Errorf("under a lease of %v: %d bytes, want %d", lease, got, want)
		}
		if got := h.mostBytes(); got != handOutBytes {
			t.Errorf("under a lease of %v: %d bytes in all", lease, got)
		}
		h.chosen.Number = 1
		if got := h.mostBytes(); got != min(h.carriedBytes(), handOutBytes) {
			t.Errorf("under a claim and a lease of %v: %d bytes in all", lease, got)
		}
	}
}
