package wire_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

func TestToOwned_UndoesFromOwned(t *testing.T) {
	t.Parallel()
	token, err := stint.ParseToken("01234567-89ab-cdef-0123-456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	want := []stint.OwnedTask{
		{
			ID: "a", Token: token, Action: "act", Key: "k", Body: []byte{0, 0xff}, Try: 2,
			MaxTries: 3, Completed: 4, Aborted: 5, LeaseUntil: time.Unix(6, 0).UTC(),
		},
		{ID: "b", Token: token, Action: "act", Body: []byte{}, Try: 1, MaxTries: -1},
	}
	got, err := wire.ToOwned(wire.FromOwned(want, false))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}
