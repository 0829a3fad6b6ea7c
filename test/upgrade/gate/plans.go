package main

import (
	"context"
	"errors"
	"fmt"
)

// A plan is one way to run both releases together.
type plan struct {
	name  string
	steps func(context.Context, *check) error
}

func plans() []plan {
	return []plan{
		{"the old command on the new schema", func(ctx context.Context, c *check) error {
			return c.pair(ctx, c.latest, nil, c.old)
		}},
		{"a new client and an old service", func(ctx context.Context, c *check) error {
			return c.pair(ctx, c.old, c.old, c.latest)
		}},
		{
			"a new client and an old service on the new schema",
			func(ctx context.Context, c *check) error {
				return c.pair(ctx, c.latest, c.old, c.latest)
			},
		},
		{"an old client and a new service", func(ctx context.Context, c *check) error {
			return c.pair(ctx, c.latest, c.latest, c.old)
		}},
		{"an upgrade, rolled back halfway", upgrade},
	}
}

// pair lets a client insert, perform and wait, on the schema and the service of releases; without a
// service on the schema itself.
func (c *check) pair(ctx context.Context, schema, serving, client *release) error {
	if err := c.migrate(ctx, schema); err != nil {
		return err
	}
	var s *service
	if serving != nil {
		var err error
		if s, err = c.on(serving, nil).serve(ctx); err != nil {
			return err
		}
	}
	p := c.on(client, s)
	worker, err := p.work(ctx)
	if err != nil {
		return err
	}
	one, two := p.pour(ctx), p.pour(ctx)
	err = more(ctx, one, two)
	err = errors.Join(err, one.stop(), two.stop(), worker.stop())
	if s != nil {
		err = errors.Join(err, s.process.stop())
	}
	return err
}

// A fleet is what runs of one release: a worker and a flow on the tables, and both on the service.
type fleet struct {
	workers []*process
	flows   []*flow
}

func (c *check) fleet(ctx context.Context, r *release, s *service) (fleet, error) {
	var f fleet
	for _, p := range []party{c.on(r, nil), c.on(r, s)} {
		worker, err := p.work(ctx)
		if err != nil {
			return f, err
		}
		f.workers = append(f.workers, worker)
		f.flows = append(f.flows, p.pour(ctx))
	}
	return f, nil
}

// end stops the flows, then the workers. The flows' last tasks are performed by these, or others.
func (f fleet) end() error {
	var err error
	for _, flow := range f.flows {
		err = errors.Join(err, flow.stop())
	}
	for _, worker := range f.workers {
		err = errors.Join(err, worker.stop())
	}
	return err
}

// upgrade upgrades while tasks are inserted and performed, rolls back, and upgrades again.
func upgrade(ctx context.Context, c *check) error {
	if err := c.migrate(ctx, c.old); err != nil {
		return err
	}
	s, err := c.on(c.old, nil).serve(ctx)
	if err != nil {
		return err
	}
	before, err := c.fleet(ctx, c.old, s)
	if err == nil {
		err = more(ctx, before.flows...)
	}
	if err == nil {
		err = c.halfway(ctx, s, before)
	}
	if err == nil {
		err = c.completely(ctx, s, &before)
	}
	return errors.Join(err, before.end(), s.process.stop())
}

// halfway migrates, replaces the service and starts new workers beside the old ones. One of them is
// killed then, and all is taken back.
func (c *check) halfway(ctx context.Context, s *service, before fleet) error {
	if err := c.migrate(ctx, c.latest); err != nil {
		return err
	}
	if err := more(ctx, before.flows...); err != nil {
		return err
	}
	if err := c.on(c.latest, nil).replace(ctx, s); err != nil {
		return err
	}
	after, err := c.fleet(ctx, c.latest, s)
	if err == nil {
		err = more(ctx, append(before.flows, after.flows...)...)
	}
	if err == nil {
		c.kill(after.workers[0])
		after.workers = after.workers[1:]
		err = more(ctx, before.flows...)
	}
	if err := errors.Join(err, after.end()); err != nil {
		return err
	}
	if err := c.on(c.old, nil).replace(ctx, s); err != nil {
		return err
	}
	if err := more(ctx, before.flows...); err != nil {
		return err
	}
	if c.old.Schema == c.latest.Schema {
		return nil
	}
	err = c.migrate(ctx, c.latest, "--to", fmt.Sprint(c.old.Schema), "--down", "--yes")
	if err != nil {
		return err
	}
	return more(ctx, before.flows...)
}

// completely migrates again, and leaves nothing of the old release.
func (c *check) completely(ctx context.Context, s *service, fleet *fleet) error {
	if err := c.migrate(ctx, c.latest); err != nil {
		return err
	}
	if err := c.on(c.latest, nil).replace(ctx, s); err != nil {
		return err
	}
	after, err := c.fleet(ctx, c.latest, s)
	if err == nil {
		err = more(ctx, append(fleet.flows, after.flows...)...)
	}
	err = errors.Join(err, fleet.end())
	*fleet = after
	if err != nil {
		return err
	}
	return more(ctx, after.flows...)
}
