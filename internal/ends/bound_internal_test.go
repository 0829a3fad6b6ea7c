package ends

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// moment is a time of the server, some seconds after another one.
func moment(seconds int) time.Time { return time.Unix(int64(1_000_000+seconds), 0) }

// looks has the bound see a look that began with what is known at present.
func (b *Bound) looks(at int, writers ...string) (holds bool) {
	bound, moves := b.get()
	return b.saw(bound, moves, moment(at), writers)
}

func wantBound(t *testing.T, b *Bound, seconds int) {
	t.Helper()
	want := moment(seconds)
	if got, _ := b.get(); got.InfinityModifier != pgtype.Finite || !got.Time.Equal(want) {
		t.Errorf("the bound is %v, want %v", got, want)
	}
}

// The bound moves to the time of a look as soon as another one, which began later, finds none of
// those who were writing at that time.
//
// Proves G332.
func TestBound_WaitsForThoseWhoWereWriting(t *testing.T) {
	t.Parallel()
	var b Bound
	b.looks(0, "1/1")
	if got, _ := b.get(); got.InfinityModifier == pgtype.Finite {
		t.Errorf("the bound is %v while somebody writes", got)
	}
	b.looks(1, "1/1", "2/1")
	b.looks(2, "2/1", "3/1") // of the writers at 0 none is left
	wantBound(t, &b, 0)
	b.looks(3, "3/1")
	wantBound(t, &b, 0) // 3/1 was writing at 2, whose writers are waited for now
	b.looks(4, "3/2")
	wantBound(t, &b, 2)
	b.looks(5)
	wantBound(t, &b, 5)
}

// A look that began before the time that is waited for says nothing of its writers.
//
// Proves G332.
func TestBound_IgnoresLooksThatBeganEarlier(t *testing.T) {
	t.Parallel()
	var b Bound
	bound, moves := b.get() // of a look that takes long
	b.looks(1, "1/1")
	if !b.saw(bound, moves, moment(0), nil) {
		t.Error("the early look does not hold")
	}
	if got, _ := b.get(); got.InfinityModifier == pgtype.Finite {
		t.Errorf("the bound is %v, though 1/1 may still write", got)
	}
}

// A prepared transaction has the same name as any other one.
//
// Proves G332.
func TestBound_WaitsWhileThereArePreparedTransactions(t *testing.T) {
	t.Parallel()
	var b Bound
	b.looks(0, "-1/17")
	b.looks(1, "-1/18")
	if got, _ := b.get(); got.InfinityModifier == pgtype.Finite {
		t.Errorf("the bound is %v, though a transaction is prepared", got)
	}
	b.looks(2)
	wantBound(t, &b, 2)
}

// A clock that is set back makes the bound unknown, and the look useless.
//
// Proves G332.
func TestBound_BeginsAnewWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	var b Bound
	b.looks(10)
	wantBound(t, &b, 10)
	if b.looks(5) {
		t.Error("a look before the bound holds")
	}
	if got, _ := b.get(); got.InfinityModifier == pgtype.Finite {
		t.Errorf("the bound is %v", got)
	}
	b.looks(6)
	wantBound(t, &b, 6)
}
