package stint

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint/internal/groupcommit"
)

// groups are the verbs whose calls share statements when many are made at the same time.
type groups struct {
	inserts *groupcommit.Group[struct{}, Task, error]
	owns    *groupcommit.Group[ownKey, int, ownAnswer]
	extends *groupcommit.Group[extendKey, []OwnedTask, []bool]
	returns *groupcommit.Group[struct{}, []Return, []error]
	records *groupcommit.Group[struct{}, recordedCall, recordAnswer]
	lists   *groupcommit.Group[struct{}, OwnedTask, listAnswer]
}

func (s *Store) newGroups() groups {
	return groups{
		inserts: &groupcommit.Group[struct{}, Task, error]{
			Run: s.insertTogether, Size: taskSize, Clone: cloneTask,
			MayHaveRun: wasCutOff, Go: s.startBatch,
		},
		owns: &groupcommit.Group[ownKey, int, ownAnswer]{
			Run: s.ownTogether, Size: itself, Clone: itself, Undo: s.release,
			MayHaveRun: wasCutOff, Go: s.startBatch,
		},
		extends: &groupcommit.Group[extendKey, []OwnedTask, []bool]{
			Run: s.extendTogether, Size: func(owned []OwnedTask) int { return len(owned) },
			Clone: slices.Clone[[]OwnedTask], MayHaveRun: wasCutOff, Go: s.startBatch,
		},
		returns: &groupcommit.Group[struct{}, []Return, []error]{
			Run: s.returnTogether, Size: returnsSize, Clone: cloneReturns,
			MayHaveRun: wasCutOff, Go: s.startBatch,
		},
		records: &groupcommit.Group[struct{}, recordedCall, recordAnswer]{
			Run: s.recordTogether, Size: recordedCall.size,
			Clone:      func(call recordedCall) recordedCall { return call }, // a copy already
			MayHaveRun: wasCutOff, Go: s.startBatch,
		},
		lists: &groupcommit.Group[struct{}, OwnedTask, listAnswer]{
			Run: s.listTogether, Size: func(OwnedTask) int { return 1 },
			Clone:      func(owned OwnedTask) OwnedTask { return owned },
			MayHaveRun: func(error) bool { return false }, Go: s.startBatch,
		},
	}
}

// startBatch starts a batch of calls, which Close waits for.
func (s *Store) startBatch(run func()) error {
	if !s.draining.start(func(context.Context) { run() }) {
		return ErrClosed
	}
	return nil
}

func itself(n int) int { return n }
