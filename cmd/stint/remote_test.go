//go:build unix

package main

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// remoteVariable says that the commands of the tests work on services, and names the command.
const remoteVariable = "STINT_TEST_REMOTE_COMMANDS"

// databaseOnly are the tests of what only a command with a database can do.
var databaseOnly = []string{
	// They are about what needs the database itself, or how to find it.
	"TestMigrate", "TestAdopt_", "TestExport_", "TestServe_", "TestDemo", "TestPrivate",
	"TestDatabase_", "TestDatabaseURL_", "TestSchema_",
	"TestServer_", "TestCheckFollow_",
	"TestCommand_RefusesASchemaThatCitusDistributes", "TestCommands_CallNobodysFunctions",
	"TestLooks_WorkOnAHotStandby",
	"TestCheck_FindsAnOldFunction", "TestCheck_TellsRolesWhatTheyMaySee",
	"TestCheck_SaysThatThisIsAHotStandby", "TestCheck_FindsNothingWhereNothingIsWrong",
	"TestCheck_NoticesPoolers", "TestComplete_IsSilent", "TestComplete_StartsNoPrivateServer",
	"TestTop_GoesOnWhenTheDatabaseIsBack", "TestTop_LeavesNoServer", "TestTop_EndsWithItsTerminal",
	// They name a schema, or flags for a database, and a service has its own.
	"TestCheck_WorksOnOtherSchemas", "TestPrinted_", "TestWorker_KeepsNoSessionIfItOnlyPolls",
	// They look at the connections of the command, and those of a service stay.
	"TestCommands_AreInterruptedWhileTheDatabaseIsBusy",
	"TestWorker_IsInterruptedWhileTheDatabaseIsBusy",
	// A worker on a service prunes nothing.
	"TestWorker_KeepsWhatItIsToldTo",
	// It serves its own metrics only; the service serves those of the store.
	"TestWorker_ServesTheMetricsThatAlertsAskFor",
	// They reach no database at all.
	"TestUsage", "TestHelp", "TestToken_", "TestFilters_Refuse", "TestTop_NeedsATerminal",
}

func isRemote() bool { return os.Getenv(remoteVariable) != "" }

// environment has a command work on the database, or on a service of it.
func (d *database) environment(t *testing.T) []string {
	t.Helper()
	if !isRemote() {
		return []string{"STINT_DATABASE_URL=" + testdb.URL(d.pool)}
	}
	counting := func(s http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == stintv1connect.TaskServiceWaitForTasksProcedure {
				d.waits.Add(1)
			}
			s.ServeHTTP(w, r)
		})
	}
	at, _ := testservice.StartBehind(t, d.pool, d.store, service.Options{}, counting)
	return []string{"STINT_SERVER=" + at}
}

// The tests of this package pass as well where each command works on a service.
func TestCommands_WorkOverTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if isRemote() {
		return // this is that
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := testrun.SomeTests(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", tests,
		"-test.skip", "^("+strings.Join(databaseOnly, "|")+")", "-test.timeout", "8m")
	cmd.Env = append(os.Environ(), remoteVariable+"="+binary)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("over the network: %v\n%s", err, output)
	}
}
