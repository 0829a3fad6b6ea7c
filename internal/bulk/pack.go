package bulk

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

var (
	// ErrPacked means that a text is not one that Pack writes.
	ErrPacked = errors.New("bulk: these are no packed tasks")
	// ErrManyPacked means that texts hold more tasks than are read at once.
	ErrManyPacked = errors.New("bulk: these are too many packed tasks")
)

// packedStates are the states by the number that stands for them, from 1 on. 0: not known.
func packedStates() []stint.State {
	return []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted, stint.StateSkipped,
	}
}

// Pack writes tasks as they were seen: of each the length of its ID, the ID, when it was inserted
// and has finished, in microseconds, and its state.
func Pack(tasks ...Task) string {
	var packed []byte
	micros := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMicro()
	}
	for i := range tasks {
		packed = binary.AppendUvarint(packed, uint64(len(tasks[i].ID)))
		packed = append(packed, tasks[i].ID...)
		packed = binary.AppendVarint(packed, micros(tasks[i].Inserted))
		packed = binary.AppendVarint(packed, micros(tasks[i].Finished))
		state := slices.Index(packedStates(), tasks[i].State) + 1
		packed = append(packed, byte(state)) //nolint:gosec // one of a few
	}
	return base64.RawURLEncoding.EncodeToString(packed)
}

// Unpack reads what Pack has written, so many tasks at most: each once, in the order of their IDs,
// which may be any bytes. Errors are ErrPacked and ErrManyPacked.
func Unpack(texts []string, most int) (tasks []Task, err error) {
	for _, text := range texts {
		packed, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil, ErrPacked
		}
		for len(packed) > 0 {
			task, rest, err := unpackOne(packed)
			switch {
			case err != nil:
				return nil, err
			case len(tasks) == most:
				return nil, ErrManyPacked
			}
			tasks, packed = append(tasks, task), rest
		}
	}
	byID := func(a, b Task) int { return strings.Compare(string(a.ID), string(b.ID)) }
	slices.SortStableFunc(tasks, byID)
	same := func(a, b Task) bool { return a.ID == b.ID }
	return slices.CompactFunc(tasks, same), nil
}

func unpackOne(packed []byte) (task Task, rest []byte, err error) {
	length, n := binary.Uvarint(packed)
	if n <= 0 || length > uint64(len(packed)-n) { //nolint:gosec // n is part of it
		return task, nil, ErrPacked
	}
	end := n + int(length) //nolint:gosec // it is not more than there is
	task.ID, rest = stint.TaskID(packed[n:end]), packed[end:]
	inserted, n := binary.Varint(rest)
	finished, m := binary.Varint(rest[max(n, 0):])
	if n <= 0 || m <= 0 || n+m == len(rest) || int(rest[n+m]) > len(packedStates()) {
		return task, nil, ErrPacked
	}
	moment := func(micros int64) time.Time {
		if micros == 0 {
			return time.Time{}
		}
		return time.UnixMicro(micros)
	}
	task.Inserted, task.Finished = moment(inserted), moment(finished)
	task.State = append([]stint.State{""}, packedStates()...)[rest[n+m]]
	return task, rest[n+m+1:], nil
}
