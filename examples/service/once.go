package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// placeOrder does what a client of the service does, and prints it.
func placeOrder(ctx context.Context, url string, stdout io.Writer) error {
	response, err := ask(ctx, stdout, http.MethodPost, url, "/orders",
		`{"item":"tea","quantity":2}`)
	if err != nil {
		return err
	}
	_, err = ask(ctx, stdout, http.MethodGet, url, response.Header.Get("Location"), "")
	return err
}

func ask(
	ctx context.Context, stdout io.Writer, method, url, path, body string,
) (*http.Response, error) {
	fmt.Fprintln(stdout, strings.TrimSpace(method+" "+path+" "+body))
	request, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	fmt.Fprintf(stdout, "%s %s", response.Status, text)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return response, err
}
