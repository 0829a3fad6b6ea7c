package pg

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/outage"
)

// beatEvery is how often a transaction that is between two statements shows that it goes on.
const beatEvery = time.Second

// beatMax is how long the server may take to hear one.
const beatMax = 5 * time.Second

// A pulse shows the server that the process is alive while it prepares the next statement of a
// transaction of the DB's own: on a busy machine, that takes seconds for hundreds of thousands
// of tasks. So the server ends the transaction (limit_idling) only if the process was stopped or is
// gone. A nil pulse shows nothing.
type pulse struct {
	conn  *pgx.Conn
	timer *time.Timer

	mutex sync.Mutex // held by those who use the connection
	ended bool
	used  time.Time // when the connection was last used
}

func newPulse(conn *pgx.Conn) *pulse {
	p := &pulse{conn: conn, used: time.Now()} //nolint:forbidigo // how long for this process
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.timer = time.AfterFunc(beatEvery, p.beat)
	return p
}

// beat sends an empty query. It goes past the driver's tracers, which know nothing of it. If it
// fails, the next statement says why.
func (p *pulse) beat() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatMax)
	defer cancel()
	if p.conn.PgConn().Exec(ctx, "-- stint goes on").Close() == nil {
		p.timer.Reset(beatEvery)
		p.used = time.Now() //nolint:forbidigo // as above
	}
}

// hold keeps the connection for a statement, until the returned function is called.
func (p *pulse) hold() (release func()) {
	if p == nil {
		return func() {}
	}
	p.mutex.Lock()
	p.timer.Stop()
	return func() {
		if !p.ended {
			p.timer.Reset(beatEvery)
		}
		p.used = time.Now() //nolint:forbidigo // as above
		p.mutex.Unlock()
	}
}

// explain returns the error of a statement of the one who holds the connection. If the connection
// was found broken, and the process had not used it for longer than it does while it runs, the
// server has ended the transaction: it says so, but often nobody can read that any more.
func (p *pulse) explain(err error) error {
	const missed = 3 // beats
	if p == nil || err == nil || time.Since(p.used) < missed*beatEvery || !WasCutOff(err) {
		return err
	}
	return outage.AdviseIdling(err)
}

// end ends the pulse, ahead of the end of the transaction.
func (p *pulse) end() {
	release := p.hold()
	defer release()
	p.ended = true
}
