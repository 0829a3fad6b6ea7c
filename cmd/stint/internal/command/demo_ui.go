package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// demoTries is how many tries of a task are kept where they can be looked at.
const demoTries = 10

// showDemo serves pages that show the demo. It plays the demo once somebody looks, and serves the
// pages until ctx ends.
func (p *program) showDemo(ctx context.Context, db *database, s uiSetup, keep bool) (err error) {
	listening, err := s.open(ctx)
	if err != nil {
		return err
	}
	options := demoOptions(p.schema, 0)
	options.PollOnly, options.Maintenance = true, stint.MaintainNever // it only looks
	store, err := stint.New(db.pool, options)
	if err != nil {
		return errors.Join(err, listening.Close())
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	shown, err := p.uiOptions("Stint, the demo", db, true)
	if err != nil {
		return errors.Join(err, listening.Close())
	}
	pages, looked := untilLookedAt(ui.New(store, shown))
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.serve(serving, listening, pages) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	fmt.Fprintf(p.stderr, "open http://%s/ in a browser: the demo begins when you look\n",
		listening.Addr())
	select {
	case <-looked:
	case <-ctx.Done():
		return nil
	}
	if err := p.playAll(ctx, db, keep, demoTries); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "http://%s/ stays until Ctrl-C\n", listening.Addr())
	<-ctx.Done()
	return nil
}

// untilLookedAt also returns a channel that is closed when somebody first asks for a page.
func untilLookedAt(pages http.Handler) (http.Handler, <-chan struct{}) {
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r)
		look()
	}), looked
}
