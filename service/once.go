package service

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/responses"
	"github.com/stint-tasks/stint/internal/wire"
)

// isRepeated reports whether a call was made before, and got no answer.
func isRepeated(ctx context.Context) bool { return ctx.Value(repeatedKey{}) == "true" }

// isFirst reports whether a call was not made before, and its caller will say so if it is repeated.
func isFirst(ctx context.Context) bool { return ctx.Value(repeatedKey{}) == "false" }

type repeatedKey struct{}

// A repeatable call has a key of its caller's, by which it is known again when it is repeated.
type repeatable struct {
	call uuid.UUID
	// response is that of an earlier attempt, if it had to be looked up before the verb was called.
	response []byte
}

type repeatableKey struct{}

// withKey returns a context that has the key of a request, if it has one, and says whether the call
// is repeated. A key is known again for the same caller and procedure only.
func withKey(
	ctx context.Context, header http.Header, caller, procedure string,
) context.Context {
	ctx = context.WithValue(ctx, repeatedKey{}, header.Get(wire.RepeatedHeader))
	key := header.Get(wire.KeyHeader)
	if key == "" {
		return ctx
	}
	sum := sha256.Sum256([]byte(caller + "\x00" + procedure + "\x00" + key))
	return context.WithValue(ctx, repeatableKey{}, &repeatable{call: uuid.UUID(sum[:16])})
}

// isAnswered reports whether an earlier attempt of a call was answered, if it has a key.
func (s *Service) isAnswered(ctx context.Context) bool {
	of, ok := ctx.Value(repeatableKey{}).(*repeatable)
	if ok {
		of.response, _ = responses.Find(ctx, pg.Of(s.store), of.call) // or the call fails as it has
	}
	return ok && of.response != nil
}

// getsOnlyAnswer reports whether a call does nothing but get the response of an earlier attempt,
// since once finds it. A call that says that there was none, and a dry run, do not ask for it.
func (s *Service) getsOnlyAnswer(ctx context.Context, request any) bool {
	if dry, ok := request.(interface{ GetDryRun() bool }); ok && dry.GetDryRun() {
		return false
	}
	return !isFirst(ctx) && s.isAnswered(ctx)
}

// once calls a verb. If the call has a key, its response is kept in the transaction of the verb,
// and a call that is repeated takes effect once: it gets the response of the attempt that took
// effect. That waits for attempts that are under way, since it finds what they have locked, or the
// key.
func once[M proto.Message](
	ctx context.Context, s *Service, verb func(store *stint.Store) (M, error),
) (response M, err error) {
	of, ok := ctx.Value(repeatableKey{}).(*repeatable)
	if !ok {
		return verb(s.store)
	}
	if of.response == nil {
		err = s.store.Remote().Transact(ctx, func(store *stint.Store) error {
			if response, err = verb(store); err != nil {
				return err
			}
			packed, err := proto.Marshal(response)
			if err != nil {
				return err
			}
			return responses.Keep(ctx, pg.Of(store), of.call, packed)
		})
		if err == nil || !s.isAnswered(ctx) {
			return response, err
		}
	}
	again, _ := response.ProtoReflect().New().Interface().(M)
	return again, proto.Unmarshal(of.response, again)
}

// apart is once for verbs that cannot be a part of a transaction with others, and whose responses
// are empty: they keep the response themselves, together with what they change.
func apart[M proto.Message](
	ctx context.Context, response M, verb func(ctx context.Context) error,
) (M, error) {
	of, ok := ctx.Value(repeatableKey{}).(*repeatable)
	switch {
	case !ok:
		return response, verb(ctx)
	case of.response != nil:
		return response, nil
	}
	// Of an empty message; but what is not null is what is kept.
	return response, verb(responses.With(ctx, of.call, []byte{}))
}
