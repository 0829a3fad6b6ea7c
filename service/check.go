package service

import (
	"context"

	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/doctor"
)

func (t *taskService) CheckStore(
	ctx context.Context, _ *stintv1.CheckStoreRequest,
) (*stintv1.CheckStoreResponse, error) {
	ctx, stop, err := t.untilDrained(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	findings, err := doctor.Examine(ctx, t.pool, t.store, t.store.Schema())
	if err != nil {
		return nil, err
	}
	response := &stintv1.CheckStoreResponse{}
	for _, f := range findings {
		response.Findings = append(response.Findings, &stintv1.Finding{
			Severity: string(f.Severity), Topic: f.Topic, Text: f.Text, Id: string(f.ID),
		})
	}
	return response, nil
}
