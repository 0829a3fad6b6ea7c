//go:build !unix || aix || solaris

package localpg

import "context"

const supported = false

func start(context.Context, Config) (*Server, error) { return nil, unsupported() }

func join(context.Context, string) (*Server, error) { return nil, ErrNotRunning }
