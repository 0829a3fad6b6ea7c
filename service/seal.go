package service

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
)

// A seal hides in cursors where a page ends: the place of a task among all tasks tells how many
// others there are, and may be that of a task of others.
type seal struct {
	pool   *pgxpool.Pool
	schema string

	mutex sync.Mutex
	key   []byte // nil as long as it is not known
}

const (
	// sealMark begins a sealed cursor.
	sealMark = "sealed:"

	// sealUnit is of what the length of a cursor is a multiple, which would tell something, too.
	sealUnit = 64
)

// keyOf returns a key that all services before a database have, and nobody else: the server's own
// number is in it. Where a role may not ask for that, each process has a key of its own.
func (s *seal) keyOf(ctx context.Context) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	var number int64
	err := doctor.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		number, err = doctor.SystemIdentifier(ctx, tx)
		return err
	})
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		s.key = make([]byte, sha256.Size)
		_, err = rand.Read(s.key)
		return s.key, err
	case err != nil:
		return nil, err
	}
	text := binary.BigEndian.AppendUint64(nil, uint64(number)) //nolint:gosec // the bits count
	sum := sha256.Sum256(append(text, s.schema...))
	s.key = sum[:]
	return s.key, nil
}

// box returns what seals the cursors of a caller.
func (s *seal) box(ctx context.Context) (box cipher.AEAD, key, whose []byte, err error) {
	if key, err = s.keyOf(ctx); err != nil {
		return nil, nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, nil, err
	}
	box, err = cipher.NewGCM(block)
	return box, key, []byte(callerOf(ctx).name()), err
}

// sealed returns a cursor that only its caller can use, and nobody can read. The same one looks the
// same each time.
func (s *seal) sealed(ctx context.Context, cursor stint.Cursor) (stint.Cursor, error) {
	box, key, whose, err := s.box(ctx)
	if err != nil {
		return "", err
	}
	length := (len(cursor)/sealUnit + 1) * sealUnit
	plain := append([]byte(cursor), make([]byte, length-len(cursor))...)
	mac := hmac.New(sha256.New, key)
	mac.Write(plain)
	mac.Write(whose)
	nonce := mac.Sum(nil)[:box.NonceSize()]
	text := base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, plain, whose))
	return stint.Cursor(sealMark + text), nil
}

func isSealed(cursor stint.Cursor) bool { return strings.HasPrefix(string(cursor), sealMark) }

// opened undoes sealed. It refuses an argument that the caller was not given.
func (s *seal) opened(
	ctx context.Context, argument string, cursor stint.Cursor,
) (stint.Cursor, error) {
	if cursor == "" {
		return "", nil
	}
	box, _, whose, err := s.box(ctx)
	if err != nil {
		return "", err
	}
	text, marked := strings.CutPrefix(string(cursor), sealMark)
	data, err := base64.RawURLEncoding.DecodeString(text)
	if !marked || err != nil || len(data) < box.NonceSize() {
		return "", errCursor(argument)
	}
	plain, err := box.Open(nil, data[:box.NonceSize()], data[box.NonceSize():], whose)
	if err != nil {
		return "", errCursor(argument)
	}
	return stint.Cursor(strings.TrimRight(string(plain), "\x00")), nil
}

func errCursor(argument string) error {
	return &stint.ArgumentError{
		Argument: argument, Index: -1, Err: stint.ErrInvalidArgument,
		Problem: "must be the next of a page that the caller was given",
	}
}
