package stint

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The kinds of notifications: the first word of each. A notification is only a hint; what it says is
// looked up.
const (
	kindReady    = "ready"    // and an action: a task with it became ready
	kindFinished = "finished" // and keys: tasks that post their results have ended
	kindLost     = "lost"     // and keys: tasks were taken from their owners
	kindPing     = "ping"     // a session wants to hear whether it hears
)

// readyTopic is the topic of those who wait for tasks with an action, and the payload for them.
func readyTopic(action string) string { return kindReady + " " + action }

// News is what a transaction did that others may wait for.
type news struct {
	ready          map[string]bool // actions
	finished, lost []int64         // keys
}

func (n *news) addReady(action string) {
	if n.ready == nil {
		n.ready = map[string]bool{}
	}
	n.ready[action] = true
}

func (n *news) merge(other *news) {
	for action := range other.ready {
		n.addReady(action)
	}
	n.finished = append(n.finished, other.finished...)
	n.lost = append(n.lost, other.lost...)
}

func (n *news) empty() bool { return len(n.ready)+len(n.finished)+len(n.lost) == 0 }

// payloadBytesMax is what PostgreSQL allows, less a byte for the end of the text.
const payloadBytesMax = 7999

// messages returns the topics and payloads of the notifications to send.
func (n *news) messages() (topics, payloads []string) {
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

// parseKeys reads the keys of a payload. What is no number is left out: anybody may send
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

// tell passes on what a verb did: once the transaction has committed, or in the caller's
// transaction, behind which there is no after. It never fails the verb, since it is only a hint.
func (s *Store) tell(ctx context.Context, told *news) {
	switch {
	case told.empty():
	case s.told != nil:
		s.told.merge(told)
	case s.tx == nil:
		s.notifier.tell(s, told)
	default:
		if err := s.run(ctx, s.notify(told)); err != nil {
			s.logger.WarnContext(ctx, "others were not told of tasks they may wait for",
				slog.Any("error", err))
		}
	}
}

// runTelling is run for steps of which it is known before what they do that others may wait for: in
// the caller's transaction the notification travels with them.
func (s *Store) runTelling(ctx context.Context, told *news, steps ...step) error {
	if s.tx != nil && s.told == nil && !told.empty() {
		return s.run(ctx, append(steps, s.notify(told))...)
	}
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	s.tell(ctx, told)
	return nil
}

func (s *Store) notify(told *news) step {
	topics, payloads := told.messages()
	return step{name: "notify", args: []any{s.schema, topics, payloads}}
}

const (
	// The pauses behind a notification: what happens meanwhile is told together. It is longer where
	// nobody wanted to hear the last one, and where it could not be sent.
	notifyPause         = 2 * time.Millisecond
	notifyPauseUnheard  = 50 * time.Millisecond
	notifyPauseFailed   = time.Second
	notifyTimeout       = 5 * time.Second
	notifiedTogetherMax = 100_000 // keys; of more nobody is told
)

// A notifier sends notifications after the commits that they tell of: the first one at once, those
// that gather behind it together.
type notifier struct {
	mutex   sync.Mutex
	pending news
	running bool
}

func (n *notifier) tell(s *Store, told *news) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(n.pending.finished)+len(n.pending.lost) < notifiedTogetherMax {
		n.pending.merge(told)
	}
	n.running = n.running || s.background.start(s.sendNews)
}

// sendNews sends what there is to tell, and ends when there is nothing.
func (s *Store) sendNews(ctx context.Context) {
	n := &s.notifier
	for {
		n.mutex.Lock()
		told := n.pending
		n.pending = news{}
		if told.empty() || ctx.Err() != nil {
			n.running = false
			n.mutex.Unlock()
			return
		}
		n.mutex.Unlock()
		heard, err := s.sendNotifications(ctx, &told)
		pause := notifyPause
		switch {
		case err != nil && ctx.Err() == nil:
			s.logger.WarnContext(ctx, "others were not told of tasks they may wait for",
				slog.Any("error", err))
			pause = notifyPauseFailed
		case heard == 0:
			pause = notifyPauseUnheard
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// sendNotifications sends them, in one implicit transaction, and returns how many somebody wants to
// hear.
func (s *Store) sendNotifications(ctx context.Context, told *news) (heard int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	notify := s.notify(told)
	batch := &pgx.Batch{}
	batch.Queue(s.statements["relax_commit"])
	batch.Queue(s.statements[notify.name], notify.args...).Exec(
		func(tag pgconn.CommandTag) error {
			heard = tag.RowsAffected()
			return nil
		})
	return heard, s.pool.SendBatch(ctx, batch).Close()
}
