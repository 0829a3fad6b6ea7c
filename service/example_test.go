package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
)

// A server of one's own lets the shop insert mails, and nobody else do anything.
func ExampleNew() {
	ctx := context.Background()
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	defer drop()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)
	grants, err := access.Parse([]byte(`shop: [{verbs: [insert], actions: ["mail/*"]}]`))
	if err != nil {
		panic(err)
	}
	s, err := service.New(pool, store, service.Options{
		Authenticate: func(r *http.Request) (*access.Principal, error) {
			name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer secret-of-")
			if !ok {
				return nil, errors.New("it needs a token")
			}
			return grants.Principal(name), nil
		},
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(s) // or service.NewServer(s), which has HTTP/2 and time-outs
	defer server.Close()

	for _, action := range []string{"mail/send", "bill"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			server.URL+"/stint.v1.TaskService/InsertTasks",
			strings.NewReader(`{"tasks": [{"id": "`+action+`", "action": "`+action+`"}]}`))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer secret-of-shop")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		fmt.Println(action, response.Status)
		response.Body.Close()
	}
	// Output:
	// mail/send 200 OK
	// bill 403 Forbidden
}
