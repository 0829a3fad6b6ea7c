package stint

import (
	"encoding/binary"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A Token is the performance token of one hand-out of one task. Whoever holds the newest token of a
// task owns it; every verb of an owner checks it (R8). It is new at every hand-out and cannot be
// guessed.
//
// It is a UUID of version 8: 60 random bits that the tasks of one hand-out share, the task's key,
// by which a return finds its rows without a search, and two hints as to who may wait for its end.
// Callers should not take it apart.
type Token uuid.UUID

// claim is the part of a token that is new at every hand-out.
type claim int64

// The last 64 bits of a token are the variant of the UUID, two hints, and the key. The hints save
// the return work: whether other tasks wait for this one, as far as was known at the hand-out, and
// whether it posts its result.
const (
	keyBits    = 60
	postsBit   = 1 << keyBits
	signalsBit = 2 << keyBits
	variant    = 0b10 << 62
)

// newClaim makes a claim from random bits, in the form of the first half of a UUID of version 8.
func newClaim() (claim, error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return 0, fmt.Errorf("make a token: %w", err)
	}
	high := binary.BigEndian.Uint64(random[:8])
	return claim(high&^0xf000 | 0x8000), nil //nolint:gosec // the bits are what counts
}

func newToken(c claim, key int64, signals, posts bool) Token {
	var t Token
	//nolint:gosec // the bits are what counts
	high, low := uint64(c), variant|uint64(key)
	if signals {
		low |= signalsBit
	}
	if posts {
		low |= postsBit
	}
	binary.BigEndian.PutUint64(t[:8], high)
	binary.BigEndian.PutUint64(t[8:], low)
	return t
}

// A performance is what a token stands for: one hand-out of one task.
type performance struct {
	key   int64
	claim claim
}

// performance takes a token apart. One that this package did not make gives a performance that
// never was.
func (t Token) performance() performance {
	high, low := binary.BigEndian.Uint64(t[:8]), binary.BigEndian.Uint64(t[8:])
	return performance{
		key:   int64(low & (postsBit - 1)),
		claim: claim(high), //nolint:gosec // the bits are what counts
	}
}

// signals reports whether tasks may have waited for this one when it was handed out.
func (t Token) signals() bool {
	return binary.BigEndian.Uint64(t[8:])&signalsBit != 0
}

// posts reports whether the task posts its result.
func (t Token) posts() bool {
	return binary.BigEndian.Uint64(t[8:])&postsBit != 0
}

// readPerformances reads rows of a key and a claim each into a set.
func readPerformances(set map[performance]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(set) // of what an attempt that was undone had read
		for rows.Next() {
			var p performance
			if err := rows.Scan(&p.key, &p.claim); err != nil {
				return err
			}
			set[p] = true
		}
		return rows.Err()
	}
}

// ParseToken reads a token in the form that [Token.String] writes.
func ParseToken(text string) (Token, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return Token{}, fmt.Errorf("parse token: %w", argumentError("token", "not a UUID"))
	}
	return Token(id), nil
}

// String returns the token in the usual form of a UUID. It gives control over the task: keep it out
// of logs.
func (t Token) String() string { return uuid.UUID(t).String() }

// MarshalText writes the token as [Token.String] does.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the token as [ParseToken] does.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// LogValue hides the token from [slog].
func (t Token) LogValue() slog.Value { return slog.StringValue("hidden") }
