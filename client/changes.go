package client

import (
	"context"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/wire"
)

// ListChanges is [stint.Store.ListChanges]. A caller who may not read all tasks sees the changes of
// those that he may read, and not how many others changed with them. The changes of the client are
// noted where their context names an author ([stint.WithAuthor]).
func (c *Client) ListChanges(
	ctx context.Context, filter stint.ChangeFilter,
) (page stint.ChangePage, err error) {
	request := &stintv1.ListChangesRequest{
		Id: string(filter.ID), Actions: filter.Actions, After: string(filter.After),
		Limit: wire.Int32(filter.Limit),
	}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ListChanges(ctx, request)
		if err == nil {
			page = wire.ToChanges(r)
		}
		return err
	})
	return page, said("list changes", err)
}

// author says with each call who makes changes, and why, if its context does.
type author struct{}

// WrapUnary adds the headers to calls.
func (author) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		addAuthor(ctx, request.Header())
		return next(ctx, request)
	}
}

// WrapStreamingClient adds nothing: no stream makes a change that is noted.
func (author) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler is for services.
func (author) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return next
}

func addAuthor(ctx context.Context, header http.Header) {
	by, named := changes.Of(ctx)
	if !named {
		return
	}
	by = by.Cut()
	header.Set(wire.AuthorHeader, url.PathEscape(by.Name))
	header.Set(wire.ReasonHeader, url.PathEscape(by.Reason))
}
