//go:build !unix || aix || solaris

package localpg

import (
	"context"
	"fmt"
	"runtime"
)

func start(context.Context, Config) (*Server, error) {
	return nil, fmt.Errorf("a private server is not supported on %s: use a server that is running",
		runtime.GOOS)
}

func join(context.Context, string) (*Server, error) { return nil, ErrNotRunning }
