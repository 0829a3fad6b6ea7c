package service

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// errUnknown is the error of a call whose caller is not known.
func errUnknown(err error) error {
	if err == nil {
		err = errors.New("it names no principal")
	}
	if known := new(connect.Error); errors.As(err, &known) {
		return known
	}
	return detailed(connect.CodeUnauthenticated, "refused",
		fmt.Errorf("%w: %w", stint.ErrRefused, err))
}

// errLimited is the error of a call too many.
func errLimited(problem string) *connect.Error {
	return detailed(connect.CodeResourceExhausted, wire.Limited,
		errors.New("over a limit: the caller "+problem+"; repeat the call a little later"))
}

func detailed(code connect.Code, kind string, err error) *connect.Error {
	with := connect.NewError(code, err)
	if packed, err := connect.NewErrorDetail(&stintv1.ErrorDetail{Kind: kind}); err == nil {
		with.AddDetail(packed)
	}
	return with
}
