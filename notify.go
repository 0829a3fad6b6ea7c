package stint

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The kinds of notifications: the first word of each. A notification is only a hint; its receiver
// looks at the tables.
const (
	kindReady    = "ready"    // and an action: a task with it became ready
	kindFinished = "finished" // and keys: tasks that post their results have ended
	kindLost     = "lost"     // and keys: tasks were taken from their owners
	kindPing     = "ping"     // a session wants to hear whether it hears
)

// readyTopic is the topic of those who wait for tasks with an action, and the payload for them.
func readyTopic(action string) string { return kindReady + " " + action }

// notices are the changes of a transaction that others may wait for.
type notices struct {
	ready          map[string]bool // actions
	finished, lost []int64         // keys

	// counted is the cause by which settling counts the tasks that it ends, if anybody asks.
	counted *int16
	count   int
}

func (n *notices) addReady(action string) {
	if n.ready == nil {
		n.ready = map[string]bool{}
	}
	n.ready[action] = true
}

func (n *notices) merge(other *notices) {
	for action := range other.ready {
		n.addReady(action)
	}
	n.finished = append(n.finished, other.finished...)
	n.lost = append(n.lost, other.lost...)
}

// remove removes the actions in others from ready, and the finished keys in others from finished.
func (n *notices) remove(others *notices) {
	if others == nil {
		return
	}
	for action := range others.ready {
		delete(n.ready, action)
	}
	pending := make(map[int64]bool, len(others.finished))
	for _, key := range others.finished {
		pending[key] = true
	}
	n.finished = slices.DeleteFunc(n.finished, func(key int64) bool { return pending[key] })
}

func (n *notices) empty() bool {
	return n == nil || len(n.ready)+len(n.finished)+len(n.lost) == 0
}

// payloadBytesMax is what PostgreSQL allows, less a byte for the end of the text.
const payloadBytesMax = 7999

// messages returns the topics and payloads of the notifications to send.
func (n *notices) messages() (topics, payloads []string) {
	for action := range n.ready {
		topics, payloads = append(topics, readyTopic(action)), append(payloads, readyTopic(action))
	}
	add := func(kind string, keys []int64) {
		payload := []byte(kind)
		flush := func() {
			topics, payloads = append(topics, kind), append(payloads, string(payload))
			payload = payload[:len(kind)]
		}
		for _, key := range keys {
			digits := strconv.FormatInt(key, 10)
			if len(payload)+1+len(digits) > payloadBytesMax {
				flush()
			}
			payload = append(append(payload, ' '), digits...)
		}
		if len(payload) > len(kind) {
			flush()
		}
	}
	add(kindFinished, n.finished)
	add(kindLost, n.lost)
	return topics, payloads
}

// parseKeys reads the keys of a payload. It leaves out words that are no numbers: anybody may send
// notifications.
func parseKeys(text string) []int64 {
	var keys []int64
	for word := range strings.FieldsSeq(text) {
		if key, err := strconv.ParseInt(word, 10, 64); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// notify tells others what a verb did: after the commit or, in the caller's transaction, within it,
// since the store does not see that commit. If notify fails, the verb does not, since a
// notification is only a hint.
func (s *Store) notify(ctx context.Context, pending *notices) {
	switch {
	case pending.empty(), s.isQuiet():
	case s.pending != nil:
		s.pending.merge(pending)
	case s.tx == nil:
		s.notifier.add(s, pending)
	default:
		s.logUnsent(ctx, s.run(ctx, s.notifyStep(pending, false)))
	}
}

// isQuiet reports whether the store notifies nobody.
func (s *Store) isQuiet() bool { return s.quiet || s.session == nil }

// logUnsent logs an error if others were not told of changes that they may wait for. It does so
// even if the caller has left.
func (s *Store) logUnsent(ctx context.Context, err error) {
	if isCode(err, codeLimitExceeded) {
		err = fmt.Errorf("the server's queue of notifications is full, which one session causes "+
			"that listens and stays in a transaction; stint check names the oldest: %w", err)
	}
	s.failed(context.WithoutCancel(ctx), s.logs.unsent, err)
}

// early returns the notices to send in the round trip of the steps that they are about, or nil. It
// does so only while there is little to notify: it saves those who wait a round trip, but it does
// not save the server any work.
func (s *Store) early(expected *notices) *notices {
	if s.tx != nil || s.isQuiet() || expected.empty() || !s.notifier.idle() {
		return nil
	}
	return expected
}

func (s *Store) notifyStep(pending *notices, aside bool) step {
	topics, payloads := pending.messages()
	return step{name: "notify", args: []any{s.schema, topics, payloads, aside}}
}

const (
	// The pauses after a notification: everything that happens during one is told together. The
	// pause is longer if nobody wanted to hear the last notification, or if it could not be sent.
	notifyPause         = 2 * time.Millisecond
	notifyPauseUnheard  = 50 * time.Millisecond
	notifyPauseFailed   = time.Second
	notifyTimeout       = 5 * time.Second
	notifiedTogetherMax = 100_000 // keys; nobody is told of more
)

// A notifier sends notifications after the commits that they tell of: the first one at once, and
// those that gather meanwhile together.
type notifier struct {
	mutex   sync.Mutex
	pending notices
	running bool
}

func (n *notifier) idle() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return !n.running
}

func (n *notifier) add(s *Store, pending *notices) {
	n.mutex.Lock()
	n.run(s, 0)
	running := n.running
	if running && len(n.pending.finished)+len(n.pending.lost) < notifiedTogetherMax {
		n.pending.merge(pending)
	}
	n.mutex.Unlock()
	if !running { // the store is closed, while the verb was under way
		if _, err := s.sendNotices(context.Background(), pending); err != nil {
			s.logUnsent(context.Background(), err)
		}
	}
}

// run starts to send the pending notices after a pause, unless a run is under way; the mutex is
// held.
func (n *notifier) run(s *Store, pause time.Duration) {
	n.running = n.running || s.draining.start(func(ctx context.Context) {
		s.sendPending(ctx, pause)
	})
}

// rest makes the next notices wait for a pause.
func (n *notifier) rest(s *Store, heard int64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.run(s, pauseAfter(heard))
}

func pauseAfter(heard int64) time.Duration {
	if heard == 0 {
		return notifyPauseUnheard
	}
	return notifyPause
}

// sendPending sends the pending notices, and ends when there are none.
func (s *Store) sendPending(ctx context.Context, pause time.Duration) {
	n := &s.notifier
	for {
		if pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		n.mutex.Lock()
		pending := n.pending
		n.pending = notices{}
		if pending.empty() {
			n.running = false
			n.mutex.Unlock()
			return
		}
		n.mutex.Unlock()
		heard, err := s.sendNotices(context.WithoutCancel(ctx), &pending)
		pause = pauseAfter(heard)
		if err != nil {
			pause = notifyPauseFailed
		}
		if err != nil || heard > 0 {
			s.logUnsent(ctx, err)
		}
	}
}

// sendNotices sends notifications, and returns how many of them somebody wants to hear.
func (s *Store) sendNotices(ctx context.Context, pending *notices) (heard int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	batch := &pgx.Batch{}
	s.queueNotify(batch, pending, func(n int64) { heard = n })
	err = s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return conn.SendBatch(ctx, batch).Close()
	})
	return heard, err
}

// queueNotices puts notifications into a batch, after the commit that they tell of.
func (s *Store) queueNotices(batch *pgx.Batch, pending *notices, heard *int64) {
	s.queueNotify(batch, pending, func(n int64) {
		*heard = n
		s.notifier.rest(s, n)
	})
}

// queueNotify puts notifications into a batch, in an implicit transaction of their own.
func (s *Store) queueNotify(batch *pgx.Batch, pending *notices, heard func(int64)) {
	notify := s.notifyStep(pending, true)
	batch.Queue(s.statements[notify.name], notify.args...).Exec(
		func(tag pgconn.CommandTag) error {
			heard(tag.RowsAffected())
			return nil
		})
}
