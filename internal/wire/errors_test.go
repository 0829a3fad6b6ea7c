package wire_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

// However many tasks an error is about, and however long their names are, it fits into the headers
// that clients of gRPC read: 8 KiB, with the text twice and the detail in base64.
func TestDetail_FitsIntoHeaders(t *testing.T) {
	t.Parallel()
	const headerBytes, overhead = 8 << 10, 500
	long := strings.Repeat("ä", 254) // with a number as long as an ID may be
	var ids []stint.TaskID
	var refused []stint.RefusedDependency
	for i := range 1000 {
		id := stint.TaskID(fmt.Sprintf("%04d", i) + long)
		ids = append(ids, id)
		refused = append(refused, stint.RefusedDependency{
			Dependency: stint.Dependency{Predecessor: id, Dependent: id},
			Err:        stint.ErrTaskStarted, DependentState: stint.StateInProgress,
		})
	}
	for _, err := range []error{
		&stint.TaskError{IDs: ids, Err: stint.ErrTaskExists},
		&stint.CycleError{Path: ids},
		&stint.DependencyError{Refused: refused},
		&stint.ArgumentError{
			Argument: "Task.ID", ID: stint.TaskID(strings.Repeat(long, 1000)), Problem: long,
			Err: stint.ErrTooLarge,
		},
	} {
		detail, _, ok := wire.Detail(err)
		text := wire.Text(err)
		size := 3*len(text) + (len(text)+proto.Size(detail))*4/3 + overhead
		if !ok || size > headerBytes || !utf8.ValidString(text) {
			t.Errorf("%.80s…: %d bytes, text %q", err, size, text)
		}
		named := len(detail.GetIds()) + len(detail.GetPath()) + len(detail.GetRefused())
		if detail.GetId() == "" && (named == 0 || detail.GetTotal() != int64(len(ids))) {
			t.Errorf("%.80s…: names %d of %d", err, named, detail.GetTotal())
		}
	}
}

// A short error is told as it is.
func TestDetail_NamesAllOfFew(t *testing.T) {
	t.Parallel()
	ids := []stint.TaskID{"a", stint.TaskID(strings.Repeat("b", 512)), "c"}
	err := &stint.TaskError{IDs: ids, Err: stint.ErrTaskNotFound}
	detail, _, ok := wire.Detail(err)
	if !ok || !slices.Equal(wire.ToIDs(detail.GetIds()), ids) {
		t.Errorf("Detail names %q", detail.GetIds())
	}
	if text := wire.Text(errors.New("short")); text != "short" {
		t.Errorf("Text = %q", text)
	}
}
