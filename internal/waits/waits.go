// Package waits lets WaitForTask tell a worker, by the context of a handler, that the handler waits
// for other tasks. The store and the client of the service tell it, and the worker warns if
// handlers that wait have taken all slots.
package waits

import "context"

// A Watch is told that the call that got the context waits for tasks with these IDs, by source: a
// store, or a client of a service. The function that it returns ends the wait.
type Watch func(source any, ids []string) (over func())

type key struct{}

// With returns a context in which watch is told of waits.
func With(ctx context.Context, watch Watch) context.Context {
	return context.WithValue(ctx, key{}, watch)
}

// WithAll returns a context in which the watches of all others are told of waits, too.
func WithAll(ctx context.Context, others []context.Context) context.Context {
	return With(ctx, func(source any, ids []string) (over func()) {
		overs := make([]func(), len(others))
		for i, other := range others {
			overs[i] = Begin(other, source, ids)
		}
		return func() {
			for _, over := range overs {
				over()
			}
		}
	})
}

// Begin tells the watch of the context, if it has one, that a call waits for tasks.
func Begin[ID ~string](ctx context.Context, source any, ids []ID) (over func()) {
	watch, ok := ctx.Value(key{}).(Watch)
	if !ok {
		return func() {}
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return watch(source, texts)
}

type endKey struct{}

// Ending returns a context for WaitToOwnTasks, and a function that ends the wait: a look that is
// under way is not interrupted, so that what it owns is delivered, and known to the caller.
func Ending(ctx context.Context) (_ context.Context, end func()) {
	waiting, end := context.WithCancel(ctx)
	return context.WithValue(ctx, endKey{}, waiting), end
}

// End returns the context that ends the wait of a call: one of [Ending], or that of the call.
func End(ctx context.Context) context.Context {
	if waiting, ok := ctx.Value(endKey{}).(context.Context); ok {
		return waiting
	}
	return ctx
}
