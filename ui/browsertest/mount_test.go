package browsertest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// mounted are handlers of programs that have the pages at /stint/, as the guide says.
func mounted(pages http.Handler) map[string]http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/stint/", pages)
	router := chi.NewRouter()
	router.Mount("/stint", http.StripPrefix("/stint", pages))
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Any("/stint/*page", gin.WrapH(pages))
	server := echo.New()
	server.Any("/stint/*", echo.WrapHandler(pages))
	return map[string]http.Handler{
		"net/http": mux, "chi": router, "gin": engine, "echo": server,
	}
}

// The pages are there below whatever serves them, and take forms, also behind a proxy that changes
// their path.
func TestMount_BelowEachRouter(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	wantNil(t, store.InsertTasks(t.Context(), []stint.Task{{ID: "a/b", Action: "mail"}}))
	pages := ui.New(store, ui.Options{
		Authorize: func(*http.Request, ui.Verb) bool { return true },
		Logger:    slog.New(slog.DiscardHandler),
	})
	for name, program := range mounted(pages) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(program)
			t.Cleanup(server.Close)
			at, err := url.Parse(server.URL + "/stint")
			wantNil(t, err)
			proxied := httptest.NewServer(http.StripPrefix("/internal/tasks",
				&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(at)
					r.Out.Host = r.In.Host
				}}))
			t.Cleanup(proxied.Close)
			for _, folder := range []string{
				server.URL + "/stint/", proxied.URL + "/internal/tasks/",
			} {
				wantAnswer(t, http.MethodGet, folder, http.StatusOK, "Overview")
				wantAnswer(t, http.MethodGet, folder+"task?id=a%2Fb", http.StatusOK, "a/b")
				wantAnswer(t, http.MethodPost, folder+"preview", http.StatusBadRequest,
					"not one of these pages")
			}
		})
	}
}

// wantAnswer asks for a page as a browser does that has shown one of the same folder.
func wantAnswer(t *testing.T, method, address string, code int, part string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	wantNil(t, err)
	request.Header.Set("Origin", request.URL.Scheme+"://"+request.URL.Host)
	response, err := http.DefaultClient.Do(request)
	wantNil(t, err)
	defer response.Body.Close()
	var text strings.Builder
	wantNil(t, response.Write(&text))
	if response.StatusCode != code || !strings.Contains(text.String(), part) {
		t.Errorf("%s %s: %s, without %q:\n%s", method, address, response.Status, part, &text)
	}
}
