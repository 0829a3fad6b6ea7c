package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
)

// Ready returns nil if the service can serve requests: it does not drain, the store is open, a
// connection of the pool is free or becomes so, the database answers, and the schema was of a
// version that fits when the store first looked. It costs one look-up by ID. The text of its error
// is the reason in one line, fit to be shown to anybody; the log has the cause. It is for package
// health, which sets the time-out.
func (s *Service) Ready(ctx context.Context) error {
	if s.draining.Err() != nil {
		return errors.New("the service drains")
	}
	_, err := s.store.GetTasks(ctx, []stint.TaskID{"ready?"}) // that there is none is an answer
	switch {
	case err == nil, errors.Is(err, stint.ErrTaskNotFound):
		s.unready.Worked(ctx)
		return nil
	case errors.Is(err, stint.ErrClosed):
		return errors.New("the store is closed")
	case errors.Is(err, stint.ErrSchemaVersion):
		s.unready.Failed(ctx, err)
		return stint.ErrSchemaVersion
	}
	s.unready.Failed(ctx, err)
	if answer := new(pgconn.PgError); errors.As(err, &answer) && isOtherSchema(answer.Code) {
		return fmt.Errorf("the tables are not those of this release (SQLSTATE %s); the log says "+
			"why", answer.Code)
	}
	return errors.New("the database does not answer")
}

// isOtherSchema reports whether a code says that a table, a column or a function is not there, as
// in a schema of a state between two releases.
func isOtherSchema(code string) bool {
	const noTable, noColumn, noFunction = "42P01", "42703", "42883"
	return code == noTable || code == noColumn || code == noFunction
}
