package stint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// How long the session hears nothing before it pings, and then before it is given up; and how
	// long each step of making or using it may take.
	pingEvery      = 2 * time.Second
	sessionTimeout = 5 * time.Second

	// The pauses before a session that was lost is made anew grow from this one, each with full
	// jitter. This one is much shorter than the grace.
	reattachPauseFirst = 50 * time.Millisecond

	// How long after the end of the grace the tasks of the actors are handed on at the latest:
	// other stores look only now and then.
	handOnDelay = time.Second
)

// A session is the one connection of a store that is not from the pool: it listens for
// notifications on behalf of all that wait, and shows by an advisory lock that the process lives
// (R15). It is made when it is first needed, and made anew whenever it is lost.
type session struct {
	id    int64
	grace time.Duration

	mutex   sync.Mutex
	running bool
	// pooled says that there can be no session, because of a pooler in between.
	pooled bool
	// lost says that the session stood, and is gone.
	lost bool
	// watches says that the store looks for sessions that are gone.
	watches bool
	topics  map[string]bool
	actors  map[ActorID][]string
	// wanted counts the changes of watches, topics and actors; known counts those that the database
	// knows of.
	wanted, known int
	// learned is closed when known grows, or pooled is set.
	learned chan struct{}
	// interrupt ends the wait for notifications.
	interrupt context.CancelFunc
}

func newSession(grace time.Duration) *session {
	return &session{
		id:    rand.Int64(), //nolint:gosec // no secret
		grace: grace, topics: map[string]bool{}, actors: map[ActorID][]string{},
		learned: make(chan struct{}), interrupt: func() {},
	}
}

// hear makes the session listen for topics soon. When it does, those who wait look once more.
func (s *Store) hear(topics ...string) {
	if s.session == nil {
		return
	}
	s.session.mutex.Lock()
	defer s.session.mutex.Unlock()
	isNew := func(topic string) bool { return !s.session.topics[topic] }
	if !slices.ContainsFunc(topics, isNew) ||
		len(s.session.topics) > actionsMax && strings.HasPrefix(topics[0], kindReady) {
		return // callers may make up ever new actions
	}
	for _, topic := range topics {
		s.session.topics[topic] = true
	}
	s.changeSession()
}

// watching tells the others that this store looks for sessions that are gone.
func (s *Store) watching() {
	if s.session == nil {
		return
	}
	s.session.mutex.Lock()
	defer s.session.mutex.Unlock()
	s.session.watches = true
	if s.session.running {
		s.changeSession()
	}
}

// changeSession makes the session tell the database of a change; the mutex is held.
func (s *Store) changeSession() {
	s.session.wanted++
	s.session.interrupt()
	s.session.running = s.session.running || s.background.start(s.attend)
}

// sessionOf is the session that an actor is registered at, or nil.
func (s *Store) sessionOf(actor ActorID) *int64 {
	if s.session == nil {
		return nil
	}
	s.session.mutex.Lock()
	defer s.session.mutex.Unlock()
	if _, ok := s.session.actors[actor]; !ok || s.session.pooled {
		return nil
	}
	return &s.session.id
}

var errPooled = errors.New("a pooler stands between")

// attend keeps a session until the store is closed.
func (s *Store) attend(ctx context.Context) {
	outages := outage.New(s.logger, "the session is lost, it is made anew")
	pause, lost := reattachPauseFirst, time.Now() //nolint:forbidigo // how long for this process
	for {
		stood, err := s.attendOnce(ctx, outages)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPooled) {
			s.logger.WarnContext(ctx, "a pooler stands between the store and the database, so "+
				"the store polls; set Options.PollOnly if this is intended", slog.Any("error", err))
			s.session.giveUp()
			return
		}
		s.failed(ctx, outages, err)
		if stood > reattachPauseFirst { // a session that is lost at once does not count
			pause, lost = reattachPauseFirst, time.Now() //nolint:forbidigo // as above
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(pause)): //nolint:gosec // no secret
		}
		pause = reattachPause(pause, time.Since(lost), s.session.hurry())
	}
}

// hurry is for how long after its loss the session should be made anew quickly: if actors are
// registered, their tasks are handed on unless it is back within the grace.
func (n *session) hurry() time.Duration {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(n.actors) == 0 {
		return 0
	}
	return n.grace + handOnDelay
}

// reattachPause is the pause after another failed attempt, given the pause before that attempt and
// how long the session has been away. While there is hurry, it leaves time for some attempts within
// a grace. After that there is nothing left to save, and it grows.
func reattachPause(pause, away, hurry time.Duration) time.Duration {
	const attempts = 4 // within a grace
	limit := outagePauseMax
	if away < hurry {
		limit = min(max((hurry-handOnDelay)/attempts, reattachPauseFirst), limit)
	}
	return min(2*pause, limit)
}

// isSessionLost reports whether the session stood and is gone.
func (s *Store) isSessionLost() bool {
	if s.session == nil {
		return false
	}
	s.session.mutex.Lock()
	defer s.session.mutex.Unlock()
	return s.session.lost
}

func (n *session) setLost(lost bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.lost = lost
}

func (n *session) giveUp() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.pooled, n.lost = true, false // and that is no outage
	close(n.learned)
}

// attendOnce keeps a session until it is lost, and reports for how long it stood.
func (s *Store) attendOnce(
	ctx context.Context, outages *outage.Log,
) (stood time.Duration, err error) {
	conn, err := s.connectSession(ctx)
	if err != nil {
		return 0, err
	}
	var began time.Time
	defer func() {
		if !began.IsZero() {
			stood = time.Since(began)
			s.session.setLost(true)
		}
		ctx, cancel := undoing(ctx)
		defer cancel()
		if s.closed.Load() && !conn.IsClosed() {
			err = errors.Join(err, s.leave(ctx, conn))
		}
		err = errors.Join(err, conn.Close(ctx))
	}()
	if err := s.introduce(ctx, conn); err != nil {
		return 0, err
	}
	s.session.setLost(false)
	outages.Worked(ctx)
	began = time.Now() //nolint:forbidigo // how long for this process
	return 0, s.listen(ctx, conn)
}

// connectSession opens the connection of the session.
func (s *Store) connectSession(ctx context.Context) (*pgx.Conn, error) {
	return s.connect(ctx, func(config *pgx.ConnConfig) {
		config.OnNotification = nil // the pool's handler would keep them from the session
		// The wait for notifications is interrupted often, which must not break the connection.
		config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
		}
	})
}

// connect opens a connection as the pool does, but for what adapt changes.
func (s *Store) connect(ctx context.Context, adapt func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	pool := s.pool.Config()
	config := pool.ConnConfig
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	adapt(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return conn, nil
}

// introduce prepares a connection to be the session.
func (s *Store) introduce(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	var number uint32
	ask := step{name: "session_process", unplanned: true, read: func(rows pgx.Rows) (err error) {
		number, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[uint32])
		return err
	}}
	if err := s.sendAlone(ctx, conn, conn, nil, []step{ask}); err != nil {
		return err
	}
	if number != conn.PgConn().PID() {
		return fmt.Errorf("%w: connected to process %d, served by %d",
			errPooled, conn.PgConn().PID(), number)
	}
	steps := []step{
		{name: "prepare_session", unplanned: true},
		{name: "listen", unplanned: true},
		{name: "lock_session", unplanned: true, args: []any{s.session.id}},
	}
	if err := s.sendAlone(ctx, conn, conn, nil, steps); err != nil {
		return err
	}
	return s.update(ctx, conn)
}

// update tells the database the topics and actors of the session, and then wakes all who wait:
// nobody was told of anything that happened before.
func (s *Store) update(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	n := s.session
	n.mutex.Lock()
	wanted, watches := n.wanted, n.watches
	topics := slices.AppendSeq([]string{}, maps.Keys(n.topics)) // nil would be null
	actors, actions := []string{}, []string{}
	for actor, named := range n.actors {
		for _, action := range named {
			actors, actions = append(actors, string(actor)), append(actions, action)
		}
	}
	n.mutex.Unlock()
	args := []any{n.id, n.grace, watches, topics, actors, actions}
	err := s.sendAlone(ctx, conn, conn, nil, []step{{name: "attend_session", args: args}})
	if err != nil {
		return err
	}
	n.mutex.Lock()
	n.known = wanted
	close(n.learned)
	n.learned = make(chan struct{})
	n.mutex.Unlock()
	s.awaiting.any()
	s.waiting.finishedAny()
	s.owners.lostAny()
	return nil
}

// listen passes on notifications until the session is lost. When it has heard nothing for a while
// it sends a ping, which all sessions hear: a connection that the other end has forgotten looks
// like one on which nothing happens.
func (s *Store) listen(ctx context.Context, conn *pgx.Conn) error {
	silence := time.NewTimer(around(pingEvery))
	defer silence.Stop()
	pinged := false
	for {
		notification, err := s.nextNotification(ctx, conn)
		if err != nil {
			return err
		}
		if notification != nil {
			s.pass(notification.Payload)
			silence.Reset(around(pingEvery))
			pinged = false
		}
		if err := s.keepUp(ctx, conn); err != nil {
			return err
		}
		select {
		default:
		case <-silence.C:
			if pinged {
				return errors.New("the session does not hear its ping")
			}
			if pinged, err = s.ping(ctx, conn); err != nil {
				return err
			}
			silence.Reset(around(pingEvery))
		}
	}
}

// nextNotification waits for a notification, but only so long that pings go out in time. It returns
// nil when there is something else to do.
func (s *Store) nextNotification(
	ctx context.Context, conn *pgx.Conn,
) (*pgconn.Notification, error) {
	waitCtx, interrupt := context.WithTimeout(ctx, pingEvery/2)
	defer interrupt()
	s.session.mutex.Lock()
	s.session.interrupt = interrupt
	changed := s.session.known != s.session.wanted
	s.session.mutex.Unlock()
	if changed {
		return nil, nil //nolint:nilnil // as the comment says
	}
	notification, err := conn.WaitForNotification(waitCtx)
	if err != nil && waitCtx.Err() != nil && ctx.Err() == nil && !conn.IsClosed() {
		return nil, nil //nolint:nilnil // as the comment says
	}
	return notification, err
}

// keepUp tells the database of a change of the session's topics or actors, if there is one.
func (s *Store) keepUp(ctx context.Context, conn *pgx.Conn) error {
	s.session.mutex.Lock()
	changed := s.session.known != s.session.wanted
	s.session.mutex.Unlock()
	if !changed {
		return nil
	}
	return s.update(ctx, conn)
}

// ping sends a notification that is to come back. If the server's queue is full, it has sent none,
// but the server has answered.
func (s *Store) ping(ctx context.Context, conn *pgx.Conn) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	ping := step{name: "ping_session", unplanned: true, args: []any{s.schema, kindPing}}
	err = s.sendAlone(ctx, conn, conn, nil, []step{ping})
	if isCode(err, codeLimitExceeded) {
		s.logUnsent(ctx, err)
		return false, nil
	}
	return err == nil, err
}

// pass wakes those whom a notification concerns.
func (s *Store) pass(payload string) {
	switch kind, rest, _ := strings.Cut(payload, " "); kind {
	case kindReady:
		s.awaiting.ready(rest)
	case kindFinished:
		s.waiting.finished(parseKeys(rest))
	case kindLost:
		s.owners.lostSome(parseKeys(rest))
	}
}
