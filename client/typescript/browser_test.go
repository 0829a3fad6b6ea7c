package typescript_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

const page = `<!doctype html>
<script type="importmap">{"imports": {"@stint-tasks/client": "/files/dist/index.js"}}</script>
<script type="module">
const say = (text) => fetch("/said", { method: "POST", body: text });
try {
  const { smoke } = await import("/files/build/smoke.js");
  await smoke(location.origin, false);
  await say("done");
} catch (error) {
  await say(String(error.stack));
}
</script>`

// The page comes from the origin of the service, which refuses others.
func TestPackage_WorksInABrowser(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	browser, err := testrun.Browser()
	if err != nil {
		testrun.Missing(t, "there is no browser here: apt-get install "+
			"chromium-headless-shell")
	}
	r := newRemote(t)
	said := make(chan string, 1)
	files := http.StripPrefix("/files/", http.FileServer(http.Dir(".")))
	front := func(s http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", s)
		mux.Handle("/files/", files)
		mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, page)
		})
		mux.HandleFunc("/said", func(_ http.ResponseWriter, request *http.Request) {
			text, _ := io.ReadAll(request.Body)
			said <- string(text)
		})
		return mux
	}
	address, _ := testservice.StartBehind(t, r.pool, r.store, service.Options{}, front)
	// Without a port for a debugger, one without windows may rest before the page has ended.
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox",
		"--remote-debugging-port=0", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), address+"/page")
	errors, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Close() })
	processes.InGroup(cmd) // what Debian calls the browser is a script that starts it
	cmd.Stderr = errors    // not a pipe, which its processes would keep open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = processes.KillGroup(cmd)
		<-ended
	})
	select {
	case text := <-said:
		if text != "done" {
			t.Errorf("the page has said %s", text)
		}
	case err := <-ended:
		ended <- err
		text, _ := os.ReadFile(errors.Name())
		t.Errorf("the browser has ended: %v\n%s", err, text)
	}
}
