//go:build linux

package faults

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/chaos/system"
)

func notificationFaults() []Fault {
	return []Fault{
		{
			Name: "lost-notifications", Do: loseNotifications,
			Text: "notifications do not arrive, while all else does",
		},
		{
			Name: "repeated-notifications", Do: repeatNotifications,
			Text: "each notification comes again, up to three times",
		},
		{
			Name: "forged-notifications", Do: forgeNotifications,
			Text: "a stranger notifies of nonsense, and of what was so earlier, fifty times a " +
				"second",
		},
		{
			Name: "full-notify-queue", Do: fillNotifyQueue,
			Text: "the server's queue of notifications is full, for somebody listens in an open " +
				"transaction",
		},
	}
}

func loseNotifications(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	proxies, err := through(s, r)
	for _, proxy := range proxies {
		proxy.DropNotifications()
		defer proxy.PassNotifications()
	}
	pause(ctx, d)
	return err
}

func repeatNotifications(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) error {
	const most = 3
	return hearing(ctx, s, d, func(ctx context.Context, conn *pgx.Conn) error {
		for {
			heard, err := conn.WaitForNotification(ctx)
			if err != nil {
				return ended(ctx, err)
			}
			if heard.PID == conn.PgConn().PID() {
				continue
			}
			for range 1 + r.IntN(most) {
				if err := tell(ctx, s, conn, heard.Payload); err != nil {
					return ended(ctx, err)
				}
			}
		}
	})
}

// hearing calls do, for about d, with a session that hears what the stores tell each other.
func hearing(
	ctx context.Context, s *system.System, d time.Duration,
	do func(ctx context.Context, conn *pgx.Conn) error,
) error {
	return session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, statement(s, "listen", "")); err != nil {
			return err
		}
		live, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return do(live, conn)
	})
}

// ended is nil for an error that the end of ctx has caused.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func tell(ctx context.Context, s *system.System, conn *pgx.Conn, payload string) error {
	_, err := conn.Exec(ctx, statement(s, "notify", ""), s.Schema, payload)
	return err
}

func forgeNotifications(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) error {
	const keep, rest = 1000, 20 * time.Millisecond
	return hearing(ctx, s, d, func(ctx context.Context, conn *pgx.Conn) error {
		var heard []string
		return repeat(ctx, r, d, rest, rest, func() error {
			if err := tell(ctx, s, conn, forged(r, heard)); err != nil {
				return ended(ctx, err)
			}
			for heard = heard[max(0, len(heard)-keep):]; ; {
				// What came along with the answer is there already.
				at, cancel := context.WithTimeout(ctx, time.Millisecond)
				one, err := conn.WaitForNotification(at)
				cancel()
				if err != nil && !conn.IsClosed() {
					return nil
				}
				if err != nil {
					return ended(ctx, err)
				}
				heard = append(heard, one.Payload)
			}
		})
	})
}

// forged is a payload: something heard before, whole or changed, or nonsense.
func forged(r *rand.Rand, heard []string) string {
	const longest = 3900 // bytes, twice as many digits
	random := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(r.IntN(256)) //nolint:gosec // it fits
		}
		return hex.EncodeToString(text)
	}
	old := ""
	if len(heard) > 0 {
		old = heard[r.IntN(len(heard))]
	}
	switch r.IntN(5) {
	case 0:
		return old
	case 1:
		return old[:len(old)/2]
	case 2:
		return strings.ToUpper(old) + random(1+r.IntN(8))
	case 3:
		return random(r.IntN(longest))
	default:
		return ""
	}
}

// fillNotifyQueue makes the queue small, for which the server has to be restarted, and again.
func fillNotifyQueue(
	ctx context.Context, s *system.System, _ *rand.Rand, d time.Duration,
) (err error) {
	const setting, pages, since = "max_notify_queue_pages", "64", 170000
	version, err := value[int](ctx, s, "server_version")
	if err != nil {
		return err
	}
	if version < since {
		return notHere("before PostgreSQL 17, only 8 GB of notifications fill the queue")
	}
	return withSettings(ctx, s, true, settings{setting: pages}, func(ctx context.Context) error {
		return session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, statement(s, "listen_idle", "")); err != nil {
				return err
			}
			if err := notifyUntilFull(ctx, s); err != nil {
				return err
			}
			pause(ctx, d)
			return nil
		})
	})
}

// notifyUntilFull has its own session: those of before the restart are gone.
func notifyUntilFull(ctx context.Context, s *system.System) error {
	const full = "54000"
	return session(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
		for {
			_, err := conn.Exec(ctx, statement(s, "notify_much", ""))
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == full {
				return nil
			}
			if err != nil {
				return named("notify_much", err)
			}
		}
	})
}
