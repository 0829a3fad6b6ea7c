// Package client calls the service of a task store over HTTP. It has the verbs of the package
// taskstore, with the same limits and the same meanings.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/taskstore"
	"github.com/stint-tasks/stint/taskstore/internal/wire"
)

// A Client calls a service. It is safe for concurrent use. It has nothing to close.
//
// Errors: [taskstore.ErrConflict] in a [*taskstore.ConflictError], [stint.ErrInvalidArgument] and
// [stint.ErrTooLarge] as of the store, which has then done nothing. Any other error may leave open
// whether an update or a claim has taken effect; [taskstore.Store.Update] says what to do then. A
// client does not repeat calls.
type Client struct {
	id      int64
	address string // without a slash at the end
	http    *http.Client
}

// New returns a client of the service at an address such as "http://127.0.0.1:8048". It sends its
// requests by httpClient, or by [http.DefaultClient] if that is nil. New does not contact the
// service; if the address cannot be one, the error is [stint.ErrInvalidArgument].
//
// The client draws a random number as its ID, under which it owns tasks. So make one client for a
// process, or for each part of it that shall own tasks of its own.
func New(address string, httpClient *http.Client) (*Client, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, fmt.Errorf("new client: %w: the address must be http://HOST or https://HOST, "+
			"with a path or without", stint.ErrInvalidArgument)
	}
	if httpClient == nil {
		httpClient = http.DefaultClient
	}
	const idBits = 53 // which every reader of JSON reads exactly
	id, err := rand.Int(rand.Reader, big.NewInt(1<<idBits-1))
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return &Client{
		id: id.Int64() + 1, address: strings.TrimSuffix(address, "/"), http: httpClient,
	}, nil
}

// ID returns the number under which the client owns tasks.
func (c *Client) ID() int64 { return c.id }

// Update is [taskstore.Store.Update]. If r.Client is 0, the client's own ID takes its place. Data
// must be UTF-8; others are refused.
func (c *Client) Update(ctx context.Context, r taskstore.Request) ([]taskstore.Task, error) {
	body := wire.Update{ClientID: r.Client, Deletes: r.Deletes, Depends: r.Depends}
	if body.ClientID == 0 {
		body.ClientID = c.id
	}
	for i, add := range r.Adds {
		if err := checkUTF8("adds", i, add.Data, add.Group); err != nil {
			return nil, fmt.Errorf("update: %w", err)
		}
		body.Adds = append(body.Adds, wire.Add{
			Group: add.Group, Data: string(add.Data), TimeSpec: add.TimeSpec,
		})
	}
	for i, change := range r.Updates {
		if err := checkUTF8("updates", i, change.Data, ""); err != nil {
			return nil, fmt.Errorf("update: %w", err)
		}
		body.Updates = append(body.Updates, wire.Change{
			ID: change.ID, Data: string(change.Data), TimeSpec: change.TimeSpec,
		})
	}
	tasks, err := c.post(ctx, "/update", body)
	if err != nil {
		return nil, fmt.Errorf("update: %w", err)
	}
	return tasks, nil
}

// Claim is [taskstore.Store.Claim]. If claim.Client is 0, the client's own ID takes its place.
func (c *Client) Claim(
	ctx context.Context, claim taskstore.Claim,
) (task taskstore.Task, found bool, err error) {
	body := wire.Claim{
		ClientID: claim.Client, Group: claim.Group, Duration: claim.Duration.Milliseconds(),
		Depends: claim.Depends,
	}
	if body.ClientID == 0 {
		body.ClientID = c.id
	}
	if err := checkUTF8("group", -1, nil, claim.Group); err != nil {
		return taskstore.Task{}, false, fmt.Errorf("claim: %w", err)
	}
	tasks, err := c.post(ctx, "/claim", body)
	if err != nil || len(tasks) == 0 {
		if err != nil {
			err = fmt.Errorf("claim: %w", err)
		}
		return taskstore.Task{}, false, err
	}
	return tasks[0], true, nil
}

// Get is [taskstore.Store.Get].
func (c *Client) Get(ctx context.Context, id int64) (task taskstore.Task, found bool, err error) {
	tasks, err := c.Tasks(ctx, []int64{id})
	if err != nil || tasks[0] == nil {
		return taskstore.Task{}, false, err
	}
	return *tasks[0], true, nil
}

// Tasks is [taskstore.Store.Tasks]. The IDs are part of an address, so what is in between may
// refuse to pass on many of them.
func (c *Client) Tasks(ctx context.Context, ids []int64) ([]*taskstore.Task, error) {
	if len(ids) == 0 {
		return []*taskstore.Task{}, nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(max(id, 0), 10) // 0 is no ID either
	}
	var answer []*wire.Task
	if err := c.get(ctx, "/tasks/"+strings.Join(texts, ","), &answer); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	if len(answer) != len(ids) {
		return nil, fmt.Errorf("tasks: asked for %d, got %d", len(ids), len(answer))
	}
	tasks := make([]*taskstore.Task, len(ids))
	for i, task := range answer {
		if task != nil {
			tasks[i] = new(taskstore.Task)
			*tasks[i] = read(*task)
		}
	}
	return tasks, nil
}

// Group is [taskstore.Store.Group].
func (c *Client) Group(
	ctx context.Context, group string, limit int, owned bool,
) ([]taskstore.Task, error) {
	query := url.Values{}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if owned {
		query.Set("owned", "true")
	}
	// Nobody on the way shall take dots for a way up.
	name := strings.ReplaceAll(url.PathEscape(group), ".", "%2E")
	var answer []wire.Task
	if err := c.get(ctx, "/group/"+name+"?"+query.Encode(), &answer); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	return readAll(answer), nil
}

// Groups is [taskstore.Store.Groups].
func (c *Client) Groups(ctx context.Context) ([]string, error) {
	groups := []string{}
	if err := c.get(ctx, "/groups", &groups); err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	return groups, nil
}

func (c *Client) get(ctx context.Context, path string, answer any) error {
	return c.send(ctx, http.MethodGet, path, nil, answer)
}

func (c *Client) post(ctx context.Context, path string, body any) ([]taskstore.Task, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // shorter
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	var answer wire.Answer
	if err := c.send(ctx, http.MethodPost, path, text.Bytes(), &answer); err != nil {
		return nil, err
	}
	return readAll(answer.Tasks), nil
}

// send sends a request and reads the answer, or its error.
func (c *Client) send(ctx context.Context, method, path string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()      //nolint:errcheck // it was only read
	const answerBytesMax = 512 << 20 // in JSON, data may be six times as long
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return refused(response.StatusCode, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is not that of a task store: %w", err)
	}
	return nil
}

// refused is the error that an answer tells.
func refused(status int, text []byte) error {
	var answer wire.Answer
	if err := json.Unmarshal(text, &answer); err != nil || answer.Error == nil {
		return fmt.Errorf("the answer is not that of a task store: status %d", status)
	}
	told := answer.Error
	problem := strings.Join(told.Bugs, "; ")
	switch status {
	case http.StatusConflict:
		return &taskstore.ConflictError{
			Changes: told.Changes, Deletes: told.Deletes, Depends: told.Depends, Owned: told.Owned,
		}
	case http.StatusBadRequest:
		return &serviceError{problem, stint.ErrInvalidArgument}
	case http.StatusRequestEntityTooLarge:
		return &serviceError{problem, stint.ErrTooLarge}
	default:
		return &serviceError{fmt.Sprintf("status %d: %s", status, problem), nil}
	}
}

// A serviceError has the words of the service, which name the error of the store already.
type serviceError struct {
	problem string
	err     error
}

func (e *serviceError) Error() string { return "task store service: " + e.problem }

func (e *serviceError) Unwrap() error { return e.err }

func read(task wire.Task) taskstore.Task {
	return taskstore.Task{
		ID: task.ID, Group: task.Group, Data: []byte(task.Data),
		TimeSpec: task.TimeSpec, Owner: task.OwnerID,
	}
}

func readAll(answer []wire.Task) []taskstore.Task {
	tasks := make([]taskstore.Task, len(answer))
	for i, task := range answer {
		tasks[i] = read(task)
	}
	return tasks
}

// checkUTF8 refuses what JSON cannot carry.
func checkUTF8(list string, index int, data []byte, group string) error {
	if utf8.Valid(data) && utf8.ValidString(group) {
		return nil
	}
	return &stint.ArgumentError{
		Argument: list, Index: index, Err: stint.ErrInvalidArgument,
		Problem: "the service carries valid UTF-8 only",
	}
}
