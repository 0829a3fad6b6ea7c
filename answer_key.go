package stint

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
)

// An AnswerKey lets somebody answer one external task who may do nothing else with the store, such
// as a person with a link, or another system that calls back. Whoever inserts the task makes the
// key, [NewAnswerKey], and hands it on with the ID. The store keeps a hash of it only, so it cannot
// be asked for it later. 16 to 255 bytes of UTF-8 without NUL.
type AnswerKey string

const (
	answerKeyBytesLeast = 16
	answerKeyBytesMax   = 255
)

// NewAnswerKey returns a random key that cannot be guessed, of letters and digits, fit for a link.
func NewAnswerKey() AnswerKey { return AnswerKey(rand.Text()) }

// String hides the key, which gives control over the task, from logs. A conversion to string yields
// it.
func (k AnswerKey) String() string {
	if k == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the key as String does.
func (k AnswerKey) GoString() string { return fmt.Sprintf("stint.AnswerKey(%q)", k.String()) }

func (k AnswerKey) check(argument string) error {
	if err := checkText(argument, string(k), answerKeyBytesMax); err != nil {
		return err
	}
	if len(k) < answerKeyBytesLeast {
		return argumentError(argument, fmt.Sprintf("must have %d bytes or more: see NewAnswerKey",
			answerKeyBytesLeast))
	}
	return nil
}

// opens reports whether the key is that of a task, of which the store has a hash, or none if the
// task has no key.
func (k AnswerKey) opens(hash []byte) bool {
	if hash == nil || k == "" {
		return hash == nil && k == ""
	}
	sum := sha256.Sum256([]byte(k))
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}

// answerKeys are rows of tasks with a key to answer them: the places of these tasks, and the hashes
// of their keys.
func answerKeys(tasks []Task) (places []int, hashes [][]byte) {
	for i := range tasks {
		if key := tasks[i].AnswerKey; key != "" {
			sum := sha256.Sum256([]byte(key))
			places, hashes = append(places, i), append(hashes, sum[:])
		}
	}
	return places, hashes
}

// insertAnswerKeys is the step for the tasks of an insert that have a key, if some have. keys are
// those of the tasks in the store, in their order.
func insertAnswerKeys(tasks []Task, keys []int64) []step {
	places, hashes := answerKeys(tasks)
	if len(places) == 0 {
		return nil
	}
	of := make([]int64, len(places))
	for n, i := range places {
		of[n] = keys[i]
	}
	return []step{{name: "insert_answer_keys", unplanned: true, args: []any{of, hashes}}}
}

// answerKeyRows are those of an insert by COPY, whose tasks come in an order of their own.
func answerKeyRows(tasks []Task, order []int, keys []int64) (rows [][]any) {
	keyOf := make(map[int]int64)
	places, hashes := answerKeys(tasks)
	if len(places) == 0 {
		return nil
	}
	for place, i := range order {
		keyOf[i] = keys[place]
	}
	for n, i := range places {
		rows = append(rows, []any{keyOf[i], hashes[n]})
	}
	return rows
}
