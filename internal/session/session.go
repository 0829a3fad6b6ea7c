// Package session keeps the one connection of a store that is not from the pool: it listens for
// notifications on behalf of all that wait, and shows by an advisory lock that the process lives.
package session

import (
	"context"
	"embed"
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
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How long the session hears nothing before it pings, and then before it is given up; and how
	// long each step of making or using it may take.
	pingEvery = 2 * time.Second
	stepMax   = 5 * time.Second

	// The pauses before a session that was lost is made anew grow from this one, each with full
	// jitter. This one is much shorter than the grace.
	reattachPauseFirst = 50 * time.Millisecond

	// TakeoverDelay is how long after the end of the grace the rows of the actors are handed on at
	// the latest: other stores look only now and then.
	TakeoverDelay = time.Second

	// ping is the kind of the notification that a session sends to check that it hears them.
	ping = "ping"

	// A topic of several words that nobody has waited for this long is dropped, when the session
	// looks for such topics, which it does this often: so the topics say who waits.
	dropAfter = time.Minute
	dropEvery = 10 * time.Second

	// againAfter is how long a short transaction may take that told of nothing, since it did not
	// know that the session listens.
	againAfter = time.Second

	// Busy is the topic of stores that check more often while some task is in progress, and the
	// notification for them.
	Busy = "busy"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

// A Config says what a session is for.
type Config struct {
	DB *pg.DB

	// Grace is how long the session may be lost before others believe that its process is dead.
	Grace time.Duration

	// Topics is to how many topics of several words the session listens at most, and Waited whether
	// somebody waits for what such a topic tells of.
	Topics int
	Waited func(topic string) bool

	// Heard is called with each notification of others: its first word, and the rest. Told is, with
	// each message of this process. Any is called when the session begins to hear of more:
	// something may have happened before.
	Heard, Told func(kind, rest string)
	Any         func()

	// Leave is called before the session ends because its DB is closed.
	Leave func(ctx context.Context, conn *pgx.Conn, id int64, actors []string) error
}

// A Session is made when it is first needed, and made anew whenever it is lost. A nil Session hears
// nothing, and nobody is registered at it.
type Session struct {
	Config
	id int64

	mutex   sync.Mutex
	running bool
	// pooled says that there can be no session, because of a pooler in between.
	pooled bool
	// lost says that the session stood, and is gone.
	lost bool
	// watches says that the store looks for sessions that are gone.
	watches bool
	// topics are what the session listens for, with when somebody last wanted that.
	topics map[string]time.Time
	// fewer says that nothing has changed since but that topics were dropped, and looked when the
	// session last looked for these.
	fewer  bool
	looked time.Time
	// refused says that the session does not listen for all topics that it should.
	refused bool
	// again says that all who wait are about to be woken once more, after againAfter.
	again      bool
	againAfter time.Duration

	actors map[string][]string
	// wanted counts the changes of watches, topics and actors; known counts those that the database
	// knows of.
	wanted, known int
	// learned is closed when known grows, or pooled is set.
	learned chan struct{}
	// interrupt ends the wait for notifications.
	interrupt context.CancelFunc

	echoes echoes
}

// New returns a session that nothing has been asked of.
func New(config Config) *Session {
	return &Session{
		Config: config, id: rand.Int64(), //nolint:gosec // no secret
		topics: map[string]time.Time{}, actors: map[string][]string{},
		learned: make(chan struct{}), interrupt: func() {}, againAfter: againAfter,
	}
}

// Listen makes the session listen for topics soon. When it does, it calls Any.
func (s *Session) Listen(topics ...string) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := now()
	isNew := func(topic string) bool {
		_, known := s.topics[topic]
		if known {
			s.topics[topic] = at
		}
		return !known
	}
	if !slices.ContainsFunc(topics, isNew) {
		return
	}
	if len(s.topics) > s.Topics && strings.Contains(topics[0], " ") {
		s.refused = true // callers may make up ever new ones
		return
	}
	for _, topic := range topics {
		s.topics[topic] = at
	}
	s.change()
}

// dropTopics drops the topics that nobody has waited for lately. Whoever waits has said so before
// he relies on being told, and says it again if his topic was dropped.
func (s *Session) dropTopics() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := now()
	if at.Sub(s.looked) < dropEvery {
		return
	}
	s.looked = at
	unchanged := s.known == s.wanted
	for topic, wanted := range s.topics {
		switch {
		case !strings.Contains(topic, " "):
		case s.Waited(topic):
			s.topics[topic] = at
		case at.Sub(wanted) > dropAfter:
			delete(s.topics, topic)
			if s.known == s.wanted {
				s.wanted++
			}
		}
	}
	s.fewer = s.fewer || unchanged && s.known != s.wanted
}

// ListensToAll reports whether the session was asked for no topic that it does not listen for.
func (s *Session) ListensToAll() bool {
	if s == nil {
		return false
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return !s.refused && !s.pooled
}

// ID returns the number of the session, whether or not it stands; 0 if there is none.
func (s *Session) ID() int64 {
	if s == nil {
		return 0
	}
	return s.id
}

// Watch tells the others that this store looks for sessions that are gone.
func (s *Session) Watch() {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.watches = true
	s.topics[Busy] = now()
	if s.running {
		s.change()
	}
}

// change makes the session tell the database of a change; the mutex is held.
func (s *Session) change() {
	s.wanted++
	s.fewer = false
	s.interrupt()
	s.running = s.running || s.DB.StartBackground(s.keep)
}

// Of returns the number of the session if an actor is registered at it, or nil.
func (s *Session) Of(actor string) *int64 {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, ok := s.actors[actor]; !ok || s.pooled {
		return nil
	}
	return &s.id
}

// Register changes who is registered, and waits until the database knows.
func (s *Session) Register(ctx context.Context, change func(actors map[string][]string)) error {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	change(s.actors)
	s.change()
	return s.await(ctx, s.wanted)
}

// Number returns the number of the session, and makes it if there is none; 0 if there can be none.
func (s *Session) Number(ctx context.Context) (int64, error) {
	if s == nil {
		return 0, nil
	}
	s.mutex.Lock()
	if !s.running {
		s.change()
	}
	if err := s.await(ctx, 1); err != nil {
		return 0, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pooled {
		return 0, nil
	}
	return s.id, nil
}

// await waits until the database knows of so many changes of the session, or there can be none. It
// unlocks the mutex, which is held.
func (s *Session) await(ctx context.Context, wanted int) error {
	for s.known < wanted && !s.pooled {
		learned := s.learned
		s.mutex.Unlock()
		select {
		case <-learned:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.DB.Closing():
			return pg.ErrClosed
		}
		s.mutex.Lock()
	}
	s.mutex.Unlock()
	return nil
}

var errPooled = errors.New("a pooler stands between")

// keep keeps a session until the store is closed.
func (s *Session) keep(ctx context.Context) {
	outages := outage.New(s.DB.Logger, "the session is lost, it is made anew")
	pause, lost := reattachPauseFirst, time.Now() //nolint:forbidigo // how long for this process
	for {
		stood, err := s.keepOnce(ctx, outages)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPooled) {
			s.DB.Logger.WarnContext(ctx, "a pooler stands between the store and the database, so "+
				"the store polls; set Options.PollOnly (--poll-only) if this is intended",
				slog.Any("error", err))
			s.giveUp()
			return
		}
		pg.Failed(ctx, outages, err)
		if stood > reattachPauseFirst { // a session that is lost at once does not count
			pause, lost = reattachPauseFirst, time.Now() //nolint:forbidigo // as above
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(pause)): //nolint:gosec // no secret
		}
		pause = reattachPause(pause, time.Since(lost), s.hurry())
	}
}

// hurry is for how long after its loss the session should be made anew quickly: if actors are
// registered, their tasks are handed on unless it is back within the grace.
func (s *Session) hurry() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.actors) == 0 {
		return 0
	}
	return s.Grace + TakeoverDelay
}

// reattachPause is the pause after another failed attempt, given the pause before that attempt and
// how long the session has been away. While there is hurry, it leaves time for some attempts within
// a grace. After that there is nothing left to save, and it grows.
func reattachPause(pause, away, hurry time.Duration) time.Duration {
	const attempts = 4 // within a grace
	limit := pg.OutagePauseMax
	if away < hurry {
		limit = min(max((hurry-TakeoverDelay)/attempts, reattachPauseFirst), limit)
	}
	return min(2*pause, limit)
}

// IsLost reports whether the session stood and is gone.
func (s *Session) IsLost() bool {
	if s == nil {
		return false
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.lost
}

func (s *Session) setLost(lost bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lost = lost
}

func (s *Session) giveUp() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pooled, s.lost = true, false // and that is no outage
	close(s.learned)
}

// keepOnce keeps a session until it is lost, and reports for how long it stood.
func (s *Session) keepOnce(
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
			s.setLost(true)
		}
		ctx, cancel := pg.Undoing(ctx)
		defer cancel()
		if s.DB.Closed() && !conn.IsClosed() {
			err = errors.Join(err, s.leave(ctx, conn))
		}
		err = errors.Join(err, conn.Close(ctx))
	}()
	if err := s.introduce(ctx, conn); err != nil {
		return 0, err
	}
	s.setLost(false)
	outages.Worked(ctx)
	began = time.Now() //nolint:forbidigo // how long for this process
	return 0, s.listen(ctx, conn)
}

// connectSession opens the connection of the session.
func (s *Session) connectSession(ctx context.Context) (*pgx.Conn, error) {
	return s.DB.Connect(ctx, func(config *pgx.ConnConfig) {
		config.OnNotification = nil // the pool's handler would keep them from the session
		// The wait for notifications is interrupted often, which must not break the connection.
		config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
		}
	})
}

// introduce prepares a connection to be the session.
func (s *Session) introduce(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	var number uint32
	ask := pg.Step{Name: "session_process", NoPlanner: true, Read: func(rows pgx.Rows) (err error) {
		number, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[uint32])
		return err
	}}
	if err := s.DB.RunOn(ctx, conn, nil, ask); err != nil {
		return err
	}
	if number != conn.PgConn().PID() {
		return fmt.Errorf("%w: connected to process %d, served by %d",
			errPooled, conn.PgConn().PID(), number)
	}
	s.echoes.reset()
	steps := []pg.Step{
		{Name: "prepare_session", NoPlanner: true},
		{Name: "listen", NoPlanner: true},
		{Name: "lock_session", NoPlanner: true, Args: []any{s.id}},
	}
	if err := s.DB.RunOn(ctx, conn, nil, steps...); err != nil {
		return err
	}
	s.mutex.Lock()
	s.fewer = false // it heard nothing while it was lost
	s.mutex.Unlock()
	return s.update(ctx, conn)
}

// update tells the database the topics and actors of the session, and then wakes all who wait,
// unless there are only fewer topics: nobody was told of anything that happened before.
func (s *Session) update(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	s.mutex.Lock()
	wanted, watches, fewer := s.wanted, s.watches, s.fewer
	topics := slices.AppendSeq([]string{}, maps.Keys(s.topics)) // nil would be null
	actors, actions := []string{}, []string{}
	for actor, named := range s.actors {
		for _, action := range named {
			actors, actions = append(actors, actor), append(actions, action)
		}
	}
	s.mutex.Unlock()
	args := []any{s.id, s.Grace, watches, topics, actors, actions}
	err := s.DB.RunOn(ctx, conn, nil, pg.Step{Name: "attend_session", Args: args})
	if err != nil {
		return err
	}
	s.mutex.Lock()
	s.known = wanted
	close(s.learned)
	s.learned = make(chan struct{})
	s.fewer = s.fewer && s.known != s.wanted
	s.mutex.Unlock()
	if !fewer {
		s.Any()
		s.lookAgain()
	}
	return nil
}

// LookAgainAfter sets how long the session waits until it wakes all who wait once more, for tests.
// Nobody has waited yet.
func (s *Session) LookAgainAfter(wait time.Duration) { s.againAfter = wait }

// lookAgain soon wakes all who wait once more: a transaction that was about to commit when the
// session told the database of a topic has told it nothing, since it did not know, and whoever
// looked at once did not see what it did.
func (s *Session) lookAgain() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.again = s.again || s.DB.StartBackground(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.againAfter):
		}
		s.mutex.Lock()
		s.again = false
		s.mutex.Unlock()
		s.Any()
	})
}

// listen passes on notifications until the session is lost. When it has heard nothing for a while
// it sends a ping, which all sessions hear: a connection that the other end has forgotten looks
// like one on which nothing happens.
func (s *Session) listen(ctx context.Context, conn *pgx.Conn) error {
	silence := time.NewTimer(pg.Around(pingEvery))
	defer silence.Stop()
	pinged := false
	for {
		notification, err := s.nextNotification(ctx, conn)
		if err != nil {
			return err
		}
		if notification != nil {
			if !s.echoes.takes(notification.PID, notification.Payload) {
				kind, rest, _ := strings.Cut(notification.Payload, " ")
				s.Heard(kind, rest)
			}
			silence.Reset(pg.Around(pingEvery))
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
			silence.Reset(pg.Around(pingEvery))
		}
	}
}

// nextNotification waits for a notification, but only so long that pings go out in time. It returns
// nil when there is something else to do.
func (s *Session) nextNotification(
	ctx context.Context, conn *pgx.Conn,
) (*pgconn.Notification, error) {
	waitCtx, interrupt := context.WithTimeout(ctx, pingEvery/2)
	defer interrupt()
	s.mutex.Lock()
	s.interrupt = interrupt
	changed := s.known != s.wanted
	s.mutex.Unlock()
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
func (s *Session) keepUp(ctx context.Context, conn *pgx.Conn) error {
	s.dropTopics()
	s.mutex.Lock()
	changed := s.known != s.wanted
	s.mutex.Unlock()
	if !changed {
		return nil
	}
	return s.update(ctx, conn)
}

// ping sends a notification that is to come back. If the server's queue is full, it has sent none,
// but the server has answered.
func (s *Session) ping(ctx context.Context, conn *pgx.Conn) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	ping := pg.Step{Name: "ping_session", NoPlanner: true, Args: []any{s.DB.Schema, ping}}
	err = s.DB.RunOn(ctx, conn, nil, ping)
	if pg.IsCode(err, pg.CodeLimitExceeded) {
		s.DB.LogUnsent(ctx, err)
		return false, nil
	}
	return err == nil, err
}

// leave ends a session whose DB is closed.
func (s *Session) leave(ctx context.Context, conn *pgx.Conn) error {
	s.mutex.Lock()
	actors := slices.Collect(maps.Keys(s.actors))
	s.mutex.Unlock()
	return s.Leave(ctx, conn, s.id, actors)
}
