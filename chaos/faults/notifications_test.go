//go:build linux

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// listener is a connection through the proxy that hears what stores hear.
func (r *rig) listener() *pgx.Conn {
	r.t.Helper()
	conn := r.conn()
	_, err := conn.Exec(r.t.Context(), "LISTEN stint")
	noErr(r.t, err)
	return conn
}

// hears is the next notification within a moment, "" if none comes.
func (r *rig) hears(conn *pgx.Conn) string {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second/5)
	defer cancel()
	heard, err := conn.WaitForNotification(ctx)
	if err != nil {
		return ""
	}
	return heard.Payload
}

func (r *rig) notify(payload string) {
	r.t.Helper()
	noErr(r.t, r.exec(r.Server.Pool(), "SELECT pg_notify('stint', $1)", payload))
}

func TestLostNotifications_DoNotArrive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.listener()
	r.during("lost-notifications", func() {
		r.eventually("a notification does not arrive", func() bool {
			r.notify("lost")
			return r.hears(conn) == ""
		})
	})
	r.eventually("notifications arrive again", func() bool {
		r.notify("heard")
		return r.hears(conn) == "heard"
	})
}

func TestRepeatedNotifications_ArriveAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.listener()
	r.during("repeated-notifications", func() {
		r.eventually("a notification arrives twice", func() bool {
			r.notify("once")
			first, again := r.hears(conn), r.hears(conn)
			return first == "once" && again == "once"
		})
	})
}

func TestForgedNotifications_ArriveThoughNobodySendsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.listener()
	r.during("forged-notifications", func() {
		heard := 0
		r.notify("genuine")
		r.eventually("nonsense arrives", func() bool {
			if payload := r.hears(conn); payload != "" && payload != "genuine" {
				heard++
			}
			return heard > 10
		})
	})
}

func TestFullNotifyQueue_FailsWhoNotifies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if r.number("SHOW server_version_num") < 170000 {
		t.Skip("before PostgreSQL 17, only 8 GB fill the queue")
	}
	r.during("full-notify-queue", func() {
		r.eventually("a notification fails", func() bool {
			err := r.exec(r.Server.Pool(), "SELECT pg_notify('stint', repeat('.', 7900))")
			return code(err) == "54000"
		})
	})
}
