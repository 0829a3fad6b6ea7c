package taskstore

import (
	"errors"
	"fmt"
	"strings"
)

// ErrConflict reports that tasks which a call names are gone or belong to somebody else. It comes
// in a [*ConflictError].
var ErrConflict = errors.New("tasks are gone or owned by others")

// A ConflictError lists the tasks because of which a call did nothing, each list in the order of
// the IDs. The caller should give up what it has done for these tasks, or read them again.
type ConflictError struct {
	Changes []int64 // not there to be updated
	Deletes []int64 // not there to be deleted
	Depends []int64 // not there to depend on
	Owned   []int64 // owned by another client, so they can be neither updated nor deleted
}

func (e *ConflictError) Error() string {
	var text strings.Builder
	text.WriteString(ErrConflict.Error())
	separator := ": "
	for _, list := range []struct {
		problem string
		ids     []int64
	}{
		{"not there to update", e.Changes},
		{"not there to delete", e.Deletes},
		{"not there to depend on", e.Depends},
		{"owned by another client", e.Owned},
	} {
		if len(list.ids) == 0 {
			continue
		}
		const namedMax = 5
		named := list.ids[:min(len(list.ids), namedMax)]
		fmt.Fprintf(&text, "%s%s: %s", separator, list.problem,
			strings.Trim(strings.Join(strings.Fields(fmt.Sprint(named)), ", "), "[]"))
		if more := len(list.ids) - len(named); more > 0 {
			fmt.Fprintf(&text, " and %d more", more)
		}
		separator = "; "
	}
	return text.String()
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// isEmpty reports whether there is no conflict at all.
func (e *ConflictError) isEmpty() bool {
	return len(e.Changes)+len(e.Deletes)+len(e.Depends)+len(e.Owned) == 0
}
