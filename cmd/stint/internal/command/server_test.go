package command

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// away is the way to a service that is away until a time, and then refuses everybody.
type away struct{ until time.Time }

func (a away) RoundTrip(*http.Request) (*http.Response, error) {
	if time.Now().Before(a.until) {
		return nil, errors.New("connection refused")
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: http.NoBody,
		Header: http.Header{}, ProtoMajor: 2,
	}, nil
}

func TestPatient_WaitsHoweverLongTheServiceIsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, wait := range map[string]func(p patient) error{
		"one": func(p patient) error {
			_, err := p.WaitForTask(context.Background(), "a")
			return err
		},
		"several": func(p patient) error {
			_, err := p.WaitForTasks(context.Background(), []stint.TaskID{"a", "b"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				back := time.Now().Add(time.Hour)
				c, err := client.New("http://localhost", client.Options{
					HTTPClient: &http.Client{Transport: away{back}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := wait(patient{c}); !errors.Is(err, client.ErrRefused) {
					t.Errorf("the wait ends with %v", err)
				}
				if time.Now().Before(back) {
					t.Errorf("the wait ends %v before the service is back", time.Until(back))
				}
			})
		})
	}
}
