package service

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/service/access"
)

func (t *taskService) GetServiceInfo(
	ctx context.Context, _ *stintv1.GetServiceInfoRequest,
) (*stintv1.GetServiceInfoResponse, error) {
	var now time.Time
	err := doctor.InTx(ctx, t.pool, func(tx pgx.Tx) (err error) {
		now, err = doctor.Now(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stintv1.GetServiceInfoResponse{
		Now: timestamppb.New(now), Version: version(),
		RequestBytesMax: int64(t.limits.RequestBytes), Shard: t.shard,
		ReadsAll: callerOf(ctx).principal.MayAll(access.Read),
	}, nil
}

// version is that of Stint in this program, or empty if the build does not tell.
func version() string {
	const module = "github.com/stint-tasks/stint"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if build.Main.Path == module {
		return build.Main.Version
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}
