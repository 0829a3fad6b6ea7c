package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/localpg"
)

// On Windows nothing else says what to do, and no test runs there.
func TestHint_AsksForAServerWhereThereIsNoPrivateOne(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("%w: start postgres: %w on windows", errUnreachable, localpg.ErrUnsupported)
	got := (&program{}).hint(err)
	if !strings.Contains(got, "--database-url or STINT_DATABASE_URL") {
		t.Errorf("hint(%v) = %q", err, got)
	}
}
