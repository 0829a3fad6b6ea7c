package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Notices are the changes of a transaction that others may wait for: topics, whose text says all,
// and keys of rows under a kind, the first word of a payload. A notification is only a hint; its
// receiver looks at the tables.
type Notices struct {
	topics map[string]bool
	keys   map[string][]int64
}

// Add adds a topic.
func (n *Notices) Add(topic string) {
	if n.topics == nil {
		n.topics = map[string]bool{}
	}
	n.topics[topic] = true
}

// AddKeys adds keys under a kind.
func (n *Notices) AddKeys(kind string, keys ...int64) {
	if len(keys) == 0 {
		return
	}
	if n.keys == nil {
		n.keys = map[string][]int64{}
	}
	n.keys[kind] = append(n.keys[kind], keys...)
}

// Merge adds those of others.
func (n *Notices) Merge(others *Notices) {
	for topic := range others.topics {
		n.Add(topic)
	}
	for kind, keys := range others.keys {
		n.AddKeys(kind, keys...)
	}
}

// Remove removes those of others.
func (n *Notices) Remove(others *Notices) {
	if others == nil {
		return
	}
	for topic := range others.topics {
		delete(n.topics, topic)
	}
	for kind, keys := range others.keys {
		if len(n.keys[kind]) == 0 {
			continue
		}
		known := make(map[int64]bool, len(keys))
		for _, key := range keys {
			known[key] = true
		}
		n.keys[kind] = slices.DeleteFunc(n.keys[kind], func(key int64) bool { return known[key] })
	}
}

// Empty reports whether there are none.
func (n *Notices) Empty() bool { return n == nil || len(n.topics) == 0 && n.countKeys() == 0 }

func (n *Notices) countKeys() int {
	count := 0
	for _, keys := range n.keys {
		count += len(keys)
	}
	return count
}

// payloadBytesMax is what PostgreSQL allows, less a byte for the end of the text.
const payloadBytesMax = 7999

// messages returns the topics and payloads of the notifications to send.
func (n *Notices) messages() (topics, payloads []string) {
	for topic := range n.topics {
		topics, payloads = append(topics, topic), append(payloads, topic)
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
	for _, kind := range slices.Sorted(maps.Keys(n.keys)) {
		add(kind, n.keys[kind])
	}
	return topics, payloads
}

// ParseKeys reads the keys of a payload. It leaves out words that are no numbers: anybody may send
// notifications.
func ParseKeys(text string) []int64 {
	var keys []int64
	for word := range strings.FieldsSeq(text) {
		if key, err := strconv.ParseInt(word, 10, 64); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Notify tells others about a call: after its commit or, in the caller's transaction, within it,
// since the DB does not see that commit. If Notify fails, the call does not, since a notification
// is only a hint.
func (db *DB) Notify(ctx context.Context, pending *Notices) {
	switch {
	case pending.Empty(), db.isQuiet():
	case db.pending != nil:
		db.pending.Merge(pending)
	case db.tx == nil:
		db.notifier.add(db, pending)
	default:
		db.LogUnsent(ctx, db.Run(ctx, db.notifyStep(pending)))
	}
}

// isQuiet reports whether nobody is notified.
func (db *DB) isQuiet() bool { return db.quiet || db.PollOnly }

// LogUnsent logs an error if others were not told of changes that they may wait for. It does so
// even if the caller has left.
func (db *DB) LogUnsent(ctx context.Context, err error) {
	if IsCode(err, CodeLimitExceeded) {
		err = fmt.Errorf("the server's queue of notifications is full, which one session causes "+
			"that listens and stays in a transaction; stint check names the oldest: %w", err)
	}
	Failed(context.WithoutCancel(ctx), db.logs.unsent, err)
}

// along returns the notices to send in the commit of the steps that they are about, or nil. It does
// so only while there is little to notify: it saves the server a transaction, and those who wait
// the time that it takes.
func (db *DB) along(known *Notices) *Notices {
	if db.tx != nil || db.isQuiet() || known.Empty() || !db.notifier.idle() {
		return nil
	}
	return known
}

// notifyStep notifies in the caller's transaction.
func (db *DB) notifyStep(pending *Notices) Step {
	topics, payloads := pending.messages()
	return Step{Name: "notify", Args: []any{db.Schema, topics, payloads, false, 0}}
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

// A notifier sends notifications after the commits that they tell of, those that gather meanwhile
// together.
type notifier struct {
	mutex   sync.Mutex
	pending Notices
	running bool
}

func (n *notifier) idle() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return !n.running
}

func (n *notifier) add(db *DB, pending *Notices) {
	n.mutex.Lock()
	n.run(db, 0)
	running := n.running
	if running && n.pending.countKeys() < notifiedTogetherMax {
		n.pending.Merge(pending)
	}
	n.mutex.Unlock()
	if !running { // the DB is closed, while the call was under way
		if _, err := db.sendNotices(context.Background(), pending); err != nil {
			db.LogUnsent(context.Background(), err)
		}
	}
}

// run starts to send the pending notices after a pause, unless a run is under way; the mutex is
// held.
func (n *notifier) run(db *DB, pause time.Duration) {
	n.running = n.running || db.draining.start(func(ctx context.Context) {
		db.sendPending(ctx, pause)
	})
}

// rest makes the next notices wait for a pause.
func (n *notifier) rest(db *DB, heard int64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.run(db, pauseAfter(heard))
}

func pauseAfter(heard int64) time.Duration {
	if heard == 0 {
		return notifyPauseUnheard
	}
	return notifyPause
}

// sendPending sends the pending notices, and ends when there are none.
func (db *DB) sendPending(ctx context.Context, pause time.Duration) {
	n := &db.notifier
	for {
		if pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		n.mutex.Lock()
		pending := n.pending
		n.pending = Notices{}
		if pending.Empty() {
			n.running = false
			n.mutex.Unlock()
			return
		}
		n.mutex.Unlock()
		heard, err := db.sendNotices(context.WithoutCancel(ctx), &pending)
		pause = pauseAfter(heard)
		if err != nil {
			pause = notifyPauseFailed
		}
		if err != nil || heard > 0 {
			db.LogUnsent(ctx, err)
		}
	}
}

// sendNotices sends notifications, and returns how many of them somebody wants to hear.
func (db *DB) sendNotices(ctx context.Context, pending *Notices) (heard int64, err error) {
	told := db.newTelling(pending)
	told.here()
	err = told.aside(ctx)
	return told.heard, err
}

// A telling tells of what is committed: those who hear in this process, and others, by
// notifications.
type telling struct {
	db               *DB
	topics, payloads []string
	// heard is how many messages somebody wants to hear.
	heard int64
	// process is that of the connection that sends them. Answered says that it is known which of
	// them were sent.
	process  uint32
	answered bool
	// left says that somebody wants to hear messages that were not sent.
	left bool
}

func (db *DB) newTelling(pending *Notices) *telling {
	t := &telling{db: db}
	t.topics, t.payloads = pending.messages()
	return t
}

// here tells those in this process: they need not wait until a notification has come back.
func (t *telling) here() {
	if t.db.Here != nil {
		t.heard = max(t.heard, t.db.Here.Tell(t.topics, t.payloads))
	}
}

// aside tells others in a transaction of its own.
func (t *telling) aside(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	db := t.db
	conn, err := db.acquirePooled(ctx)
	if err != nil {
		return err
	}
	defer db.release(ctx, conn)
	defer func() { db.giveUp(ctx, conn.Conn(), err) }()
	batch := &pgx.Batch{}
	t.queue(batch, conn.Conn(), false)
	defer func() { t.over(err == nil) }()
	if !readsTexts(conn.Conn(), conn.Conn()) {
		if err = db.open(ctx, conn.Conn(), "begin"); err != nil {
			return err
		}
		batch.Queue("commit")
	}
	err = conn.SendBatch(ctx, batch).Close()
	return err
}

// queue queues notifications for others, in a transaction of their own or along with what they tell
// of. Along, they stay if another commit is about to notify: [telling.rest] sends them.
func (t *telling) queue(batch *pgx.Batch, conn *pgx.Conn, along bool) {
	own := int64(0)
	if t.process = conn.PgConn().PID(); t.db.Here != nil {
		own = t.db.Here.ID()
		t.db.Here.Expect(t.process, t.payloads)
	}
	var payload string
	sent := true
	name, last, columns := "notify", []any{true, own}, []any{&payload, nil, nil}
	if along {
		name, last, columns = "notify_along", []any{own}, []any{&payload, &sent}
	}
	args := append([]any{t.db.Schema, t.topics, t.payloads}, last...)
	batch.Queue(t.db.text(name), args...).Query(func(rows pgx.Rows) error {
		wanted, unsent := int64(0), slices.Clone(t.payloads)
		_, err := pgx.ForEachRow(rows, columns, func() error {
			wanted++
			t.left = t.left || !sent
			if sent {
				unsent = slices.DeleteFunc(unsent, func(p string) bool { return p == payload })
			}
			return nil
		})
		t.unsent(unsent)
		t.heard = max(t.heard, wanted)
		if err != nil && along {
			return untoldError{err}
		}
		return err
	})
}

// An untoldError is why notifications could not be sent along.
type untoldError struct{ error }

func (e untoldError) Unwrap() error { return e.error }

// isUntold reports whether a transaction failed, or may have, because of its notifications.
func isUntold(err error) bool {
	var untold untoldError
	return errors.As(err, &untold)
}

// over ends the telling. If what the notifications were sent along with has failed, none was.
func (t *telling) over(succeeded bool) {
	if !t.answered || !succeeded {
		t.unsent(t.payloads)
	}
}

func (t *telling) unsent(payloads []string) {
	t.answered = true
	if t.db.Here != nil {
		t.db.Here.Unsent(t.process, payloads)
	}
}

// rest sends what is left of notifications that were sent along, and lets the next ones gather.
func (t *telling) rest() {
	again := &telling{db: t.db, topics: t.topics, payloads: t.payloads}
	send := func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx)
		again.db.LogUnsent(ctx, again.aside(ctx))
	}
	if t.left && !t.db.draining.start(send) { // the DB is closed, while the call was under way
		send(context.Background())
	}
	t.db.notifier.rest(t.db, t.heard)
}

// ToldAll reports whether no notification is left to send.
func (db *DB) ToldAll() bool { return db.notifier.idle() }
