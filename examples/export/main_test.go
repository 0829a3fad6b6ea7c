//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// programEnv makes the test binary be the program, so that the tests see what its users see, and
// the race detector sees the program.
const programEnv = "STINT_TEST_EXPORT_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	testdb.Main(m)
}

const branchesEqual = "the destinations equal the newest commits, byte for byte"

// branchLine is what is printed of a branch: requests, exports, superseded, at a time, newest
// commit, last export.
var branchLine = regexp.MustCompile(`(?m)^branch-\d+ +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) `)

// wantBranches checks what is printed of so many branches with so many commits.
func (p *process) wantBranches(t *testing.T, branches int, commits string) {
	t.Helper()
	p.wantExit(t, exitExported)
	p.wantOutput(t, branchesEqual)
	lines := branchLine.FindAllStringSubmatch(p.output.String(), -1)
	if len(lines) != branches {
		t.Fatalf("%d branches are printed, want %d", len(lines), branches)
	}
	for _, line := range lines {
		if line[4] != "1" || line[5] != commits || line[6] != commits {
			t.Errorf("%q: want 1 at a time, and that commit %s was exported", line[0], commits)
		}
	}
}

func (d *database) startBranches(t *testing.T, to string, more ...string) *process {
	t.Helper()
	args := []string{"-database-url", testdb.URL(d.pool), "-to", to, "-branches", "2"}
	return start(t, nil, append(args, more...)...)
}

// Without -to it needs nothing but the programs of PostgreSQL, and leaves nothing.
func TestBranches_LeaveNothingBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := openTempDir(t)
	env := []string{"TMPDIR=" + dir, "HOME=" + dir, "XDG_DATA_HOME=" + dir}
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := start(t, env, "-branches", "2", "-commits", "6", "-pause", "1ms", "-from", from)
	run.wantBranches(t, 2, "6")

	interrupted := start(t, env, "-branches", "1", "-commits", "100000", "-pause", "1ms")
	interrupted.waitForOutput(t, "making 100000 commits")
	interrupted.signal(t, syscall.SIGINT)
	interrupted.wantExit(t, exitInterrupted)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Processes of workers are killed all the time.
func TestBranches_SurviveKills(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	run := db.startBranches(t, filepath.Join(t.TempDir(), "to"),
		"-commits", "15", "-pause", "300ms", "-kill", "1s", "-lease", "1s", "-workers", "3")
	run.wantBranches(t, 2, "15")
	killed := regexp.MustCompile(`(\d+) worker processes were killed`).
		FindStringSubmatch(run.output.String())
	if killed == nil || killed[1] == "0" {
		t.Errorf("killed: %q, want some", killed)
	}
	t.Log(killed)
	db.waitForNoSession(t)
}

// What a killed run has not done, the next one does, and the processes it had started end.
func TestBranches_GoOnAfterTheProgramWasKilled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	to := filepath.Join(t.TempDir(), "to")
	args := []string{"-commits", "40", "-pause", "10ms", "-lease", "1s", "-workers", "3"}
	killed := db.startBranches(t, to, append(args, "-kill", "1h")...)
	waitForManifest(t, to, 2) // An export has ended.
	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	db.waitForNoSession(t)

	interrupted := db.startBranches(t, to, append(args, "-commits", "100000")...)
	waitForManifest(t, to, 5)
	interrupted.signal(t, syscall.SIGINT)
	interrupted.wantExit(t, exitInterrupted)
	interrupted.wantOutput(t, "the same command goes on from here")

	// It has made some commits already; this asks for no more than one above them.
	head := strconv.Itoa(db.newestCommit(t) + 1)
	db.startBranches(t, to, append(args, "-commits", head)...).wantBranches(t, 2, head)
}

func waitForManifest(t *testing.T, to string, export int) {
	t.Helper()
	name := filepath.Join(to, "branch-1", "manifests", strconv.Itoa(export)+".json")
	eventually(t, name, func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

// newestCommit is that of the branch with the most.
func (d *database) newestCommit(t *testing.T) (commit int) {
	t.Helper()
	schema := d.applicationSchema(t)
	err := d.pool.QueryRow(t.Context(), "SELECT max(head) FROM "+schema+".branches").Scan(&commit)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

func (d *database) applicationSchema(t *testing.T) (schema string) {
	t.Helper()
	const query = "SELECT schemaname FROM pg_tables WHERE tablename = 'performances'"
	if err := d.pool.QueryRow(t.Context(), query).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// The exit code tells if something was not as promised, also by an earlier run.
func TestBranches_ReportWhatIsNotAsPromised(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	to := t.TempDir()
	args := []string{"-commits", "2", "-pause", "0"}
	db.startBranches(t, to, args...).wantBranches(t, 2, "2")
	_, err := db.pool.Exec(t.Context(), "DELETE FROM "+db.applicationSchema(t)+
		".performances WHERE branch = 'branch-2' AND export = 1 AND action = 'copy'")
	if err != nil {
		t.Fatal(err)
	}
	run := db.startBranches(t, to, args...)
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, "branch-2: NOT AS PROMISED: export 1: tasks were neither")

	// What is wrong with the files alone is put right by the next export.
	if err := os.RemoveAll(filepath.Join(to, "branch-1")); err != nil {
		t.Fatal(err)
	}
	db.startBranches(t, to, args...).wantExit(t, exitIncomplete)
	entries, err := os.ReadDir(filepath.Join(to, "branch-1", "data"))
	if err != nil || len(entries) == 0 {
		t.Errorf("the data of branch-1: %v, %v", entries, err)
	}
}

func TestBranches_RefuseBadUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag": {[]string{"-frm", dir}, "-frm"},
		"argument":     {[]string{"more"}, `unexpected argument "more"`},
		"no workers":   {[]string{"-workers", "0"}, "-workers"},
		"short lease":  {[]string{"-lease", "1ms"}, "-lease"},
		"no -from":     {[]string{"-from", dir + "/none"}, "no such file"},
		"file as from": {[]string{"-from", file}, "is not a directory"},
		"file as to":   {[]string{"-to", file}, "is not a directory"},
		"the same":     {[]string{"-from", dir, "-to", dir + "/."}, "inside"},
		"outside":      {[]string{"-from", dir, "-to", filepath.Dir(dir)}, "inside"},
		"by a link":    {[]string{"-from", dir, "-to", link + "/a"}, "inside"},
		"negative":     {[]string{"-branches", "-1", "-to", dir, "-from", empty}, "-branches"},
		"no commits":   {[]string{"-branches", "1", "-commits", "0"}, "-commits"},
		"pause":        {[]string{"-branches", "1", "-pause", "-1s"}, "-pause"},
		"kill":         {[]string{"-branches", "1", "-kill", "-1s"}, "-kill"},
		"no -to":       {[]string{"-branches", "1", "-database-url", "x"}, "-to is needed"},
		"workers only": {[]string{"-branches", "1", "-workers-only"}, "-to is needed"},
		"inside":       {[]string{"-branches", "1", "-from", dir, "-to", dir + "/a"}, "inside"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := start(t, nil, test.args...)
			run.wantExit(t, exitUsage)
			run.wantOutput(t, test.want)
		})
	}
	if _, err := os.Lstat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat(-to) = %v, want it not made", err)
	}
}

func TestHerd_TellsOfAProcessThatEndsByItself(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	tooLong := (1 << 62 * time.Nanosecond).String() // For a lease.
	run := newDatabase(t).startBranches(t, t.TempDir(),
		"-commits", "1", "-kill", "1h", "-workers", "1", "-lease", tooLong)
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, "a worker process ended by itself")
}

func TestExport_ReportsADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	run := start(t, nil, "-database-url", "postgres://127.0.0.1:1/none", "-to", t.TempDir())
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, "127.0.0.1:1")
}

// start starts the program. It is killed at the end of the test at the latest.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), programEnv+"=1"), env...)
	return startProcess(t, cmd)
}
