package numbering

import (
	"testing"

	"github.com/google/uuid"
)

// A token tells what it was made of, to whoever knows the task.
func TestNew_IsReadByOf(t *testing.T) {
	t.Parallel()
	const key = 1<<keyBits - 1
	for n := range 16 {
		h := Hints{n&1 != 0, n&2 != 0, n&4 != 0, n&8 != 0}
		claim := Claim(0xfedcba9876543210 + uint64(n))
		token := New(claim, key, "a", h)
		if got := uuid.UUID(token); got.Version() != 8 || got.Variant() != uuid.RFC4122 {
			t.Errorf("%s is of version %s and variant %s", got, got.Version(), got.Variant())
		}
		if k, c := Of(token, "a"); k != key || c != claim || HintsOf(token) != h {
			t.Errorf("Of = %x, %x with %v, want %x with %v", k, c, HintsOf(token), claim, h)
		}
		if _, c := Of(token, "b"); c == claim {
			t.Error("the token of a task is good for another")
		}
	}
	if _, claim := Of([16]byte{1}, "a"); claim != 0 {
		t.Errorf("a token of nobody has the claim %x", claim)
	}
}
