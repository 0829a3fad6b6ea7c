// Package callctx has what a service and a worker tell the store by a context, and the store tells
// them.
package callctx

import "context"

// A Watch lets WaitForTask tell a worker, by the context of a handler, that the handler waits for
// other tasks: the worker warns if handlers that wait have taken all slots. It is told that the
// call that got the context waits for tasks with these IDs, by source: a store, or a client of a
// service. The function that it returns ends the wait.
type Watch func(source any, ids []string) (over func())

type key struct{}

// WithWatch returns a context in which watch is told of waits.
func WithWatch(ctx context.Context, watch Watch) context.Context {
	return context.WithValue(ctx, key{}, watch)
}

// WithWatches returns a context in which the watches of all others are told of waits, too.
func WithWatches(ctx context.Context, others []context.Context) context.Context {
	return WithWatch(ctx, func(source any, ids []string) (over func()) {
		overs := make([]func(), len(others))
		for i, other := range others {
			overs[i] = BeginWait(other, source, ids)
		}
		return func() {
			for _, over := range overs {
				over()
			}
		}
	})
}

// BeginWait tells the watch of the context, if it has one, that a call waits for tasks.
func BeginWait[ID ~string](ctx context.Context, source any, ids []ID) (over func()) {
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
