package work

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/service"
)

const serviceConns = 10

// serve is a service, as stint serve is.
func (p *process) serve(ctx context.Context) error {
	store, pool, err := p.open(ctx, serviceConns, stint.Options{})
	if err != nil {
		return err
	}
	served, err := service.New(pool, store, service.Options{Logger: p.logger})
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", p.Address)
	if err != nil {
		return err
	}
	server := service.NewServer(served)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
	case err := <-ended:
		return err
	}
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_ = server.Close() // calls that wait
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	_ = served.Close(ctx) // as of the store
	return closing(ctx, store, pool)
}

// beClient does with a service what workers and operators do with a store.
func (p *process) beClient(ctx context.Context) error {
	c, err := client.New("http://"+p.Address, client.Options{Logger: p.logger})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	h := &handler{process: p}
	o := &operator{process: p, store: c}
	p.all(ctx, []func(context.Context, *rand.Rand){
		o.watch, o.insert, o.wait, o.change, o.answer,
		func(ctx context.Context, _ *rand.Rand) {
			failed <- p.run(ctx, recorder{c, p.journal, &p.tally}, h,
				append(free(), keyedAction))
		},
	})
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	_ = c.Close(ctx) // what it could not give back, leases will
	return <-failed
}
