//go:build !container

package testdb

import (
	"context"
	"errors"
)

// startContainer says which tag adds containers. Every binary of tests would link the client for
// Docker and all that it imports, for which a first run takes a tenth longer.
func startContainer(
	context.Context, string, map[string]string,
) (address string, stop func() error, err error) {
	return "", nil, errors.New("run the tests with -tags container, or unset it")
}
