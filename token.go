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
// It is a UUID of version 8: 60 random bits that the tasks of one hand-out share, mixed with the
// task's ID, so that the token is good for no other; the task's key, by which a return finds its
// rows without a search; and four hints for the return. Callers should not take it apart.
type Token uuid.UUID

// claim is the part of a token that is new at every hand-out.
type claim int64

// The last 64 bits of a token are the variant of the UUID, four hints, and the key. The hints save
// the return work: whether other tasks wait for this one, as far as was known at the hand-out,
// whether it posts its result, whether it shares its row of leased with others, and whether its
// action had limits.
const (
	keyBits    = 58
	limitedBit = 1 << keyBits
	sharesBit  = 2 << keyBits
	postsBit   = 4 << keyBits
	signalsBit = 8 << keyBits
	variant    = 0b10 << 62
	// variantBits are those that say which variant of a UUID it is.
	variantBits = 0b11 << 62
)

// newClaim makes a claim from random bits, in the form of the first half of a UUID of version 8.
func newClaim() (claim, error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return 0, fmt.Errorf("make a token: %w", err)
	}
	return Claim{Number: binary.BigEndian.Uint64(random[:8])}.claim(), nil
}

// versionBits are those of the first half of a UUID that say which version it is, versionBit the
// one that says 8.
const (
	versionBits = 0xf000
	versionBit  = 0x8000
)

// mixed mixes the random bits of a claim with an ID, by the hash FNV-1a, or takes the ID out again.
func mixed(bits uint64, id TaskID) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	hash := uint64(offset)
	for i := range len(id) {
		hash = (hash ^ uint64(id[i])) * prime
	}
	return bits ^ hash&^versionBits
}

// hints are what a token says to save the return work.
type hints struct{ signals, posts, shares, limited bool }

func newToken(c claim, key int64, id TaskID, h hints) Token {
	var t Token
	//nolint:gosec // the bits are what counts
	high, low := mixed(uint64(c), id), variant|uint64(key)
	if h.signals {
		low |= signalsBit
	}
	if h.posts {
		low |= postsBit
	}
	if h.shares {
		low |= sharesBit
	}
	if h.limited {
		low |= limitedBit
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

// performance takes the token of a task apart. One that this package did not make, or that was made
// for another task, gives a performance that never existed.
func (t Token) performance(id TaskID) performance {
	high, low := binary.BigEndian.Uint64(t[:8]), binary.BigEndian.Uint64(t[8:])
	if low&variantBits != variant {
		return performance{} // no claim is zero
	}
	return performance{
		key:   int64(low & (limitedBit - 1)),
		claim: claim(mixed(high, id)), //nolint:gosec // the bits are what counts
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

// shares reports whether the task shared its row of leased with others when it was handed out.
func (t Token) shares() bool {
	return binary.BigEndian.Uint64(t[8:])&sharesBit != 0
}

// limited reports whether the action of the task had limits when it was handed out.
func (t Token) limited() bool {
	return binary.BigEndian.Uint64(t[8:])&limitedBit != 0
}

// readPerformances reads rows of a key and a claim each into a set.
func readPerformances(set map[performance]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(set) // drops what an attempt that was undone had read
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
		return Token{}, fmt.Errorf("parse token: %w", argumentError("token", "must be a UUID"))
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
