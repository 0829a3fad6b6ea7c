package client

import (
	"context"
	"time"

	"github.com/stint-tasks/stint/api/stintv1"
)

// ServiceInfo is what a service tells of itself.
type ServiceInfo struct {
	// Now is the time on the clock of the service's database. All times of tasks are of that clock.
	Now time.Time

	// Version is that of Stint in the service; empty if its build does not tell.
	Version string

	// RequestBytesMax is the size of a request at most.
	RequestBytesMax int64

	// Shard is the name of the service's shard; empty if it has no topology.
	Shard string

	// ReadsAll says whether the caller may look at all tasks. Otherwise counts and lists leave out,
	// without a word, what the caller may not see: that they name nothing does not say that there
	// is nothing.
	ReadsAll bool
}

// ServiceInfo asks the service what it is. The call is not repeated, so that it also tells at once
// that there is no service ([ErrUnavailable]), or that it does not let the caller in
// ([ErrRefused]).
func (c *Client) ServiceInfo(ctx context.Context) (info ServiceInfo, err error) {
	err = c.once(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.GetServiceInfo(ctx, &stintv1.GetServiceInfoRequest{})
		if err != nil {
			return err
		}
		info = ServiceInfo{
			Now: r.GetNow().AsTime(), Version: r.GetVersion(),
			RequestBytesMax: r.GetRequestBytesMax(), Shard: r.GetShard(),
			ReadsAll: r.GetReadsAll(),
		}
		return nil
	})
	return info, said("service info", err)
}

// ReadsAll reports whether the caller may look at all tasks ([ServiceInfo.ReadsAll]), for the pages
// of package ui.
func (c *Client) ReadsAll(ctx context.Context) (bool, error) {
	info, err := c.ServiceInfo(ctx)
	return info.ReadsAll, err
}
