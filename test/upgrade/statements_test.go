//go:build unix

package upgrade_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A column that a statement of the old release finds in two tables, since a new one has its name,
// would make the statement fail.
// Proves G155.
func TestSchema_IsUnderstoodByAllStatementsOfTheOldRelease(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, err := buildOld()
	wantErr(t, "the build of the old release", err, nil)
	conn, err := testdb.New(t).Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SET search_path = pg_catalog, pg_temp")
	wantErr(t, "SET", err, nil)
	prepared := 0
	var folders []string
	for _, pattern := range []string{"sql", "taskstore/sql", "internal/*/sql"} {
		found, err := filepath.Glob(filepath.Join(sourceOfOld(), pattern))
		wantErr(t, "Glob", err, nil)
		folders = append(folders, found...)
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(file) != ".sql" {
				return err
			}
			text, err := os.ReadFile(file)
			wantErr(t, "ReadFile", err, nil)
			_, err = conn.Conn().Prepare(t.Context(), "", strings.TrimSpace(string(text)))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			prepared++
			return nil
		})
		wantErr(t, "WalkDir", err, nil)
	}
	if prepared < 100 {
		t.Errorf("the old release has %d statements, want its over 100", prepared)
	}
}
