package service_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// stream makes a call of a procedure that streams, with messages in JSON, and returns the answers,
// of which the last one says how the call has ended. It ends a call of Attend once a task is lost
// if it holds some, or is welcome.
func (r *running) stream(t *testing.T, verb, messages string) string {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	sent, send := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.address+"/stint.v1."+verb, sent)
	wantErr(t, "NewRequest", err, nil)
	request.Header.Set("Content-Type", "application/connect+json")
	request.Header.Set("Connect-Protocol-Version", "1")
	request.Header.Set("Authorization", "Bearer "+r.token)
	until := `"welcome"`
	if strings.Contains(messages, `"held"`) {
		until = `"lost"`
	}
	go func() {
		from := json.NewDecoder(strings.NewReader(messages))
		for {
			var message json.RawMessage
			if from.Decode(&message) != nil {
				break
			}
			_, _ = send.Write(append(binary.BigEndian.AppendUint32([]byte{0},
				uint32(len(message))), message...)) // the service may have refused the call
		}
		if !strings.HasSuffix(verb, "/Attend") {
			_ = send.Close()
		}
	}()
	response, err := (&http.Client{Transport: transport}).Do(request)
	wantErr(t, verb, err, nil)
	defer response.Body.Close()
	var answers []string
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(response.Body, head); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		message := make([]byte, binary.BigEndian.Uint32(head[1:]))
		_, err := io.ReadFull(response.Body, message)
		wantErr(t, verb, err, nil)
		answers = append(answers, string(compacted(t, message)))
		if strings.Contains(answers[len(answers)-1], until) {
			_ = send.Close()
		}
	}
	return strings.Join(answers, " ")
}

// compacted returns JSON without the blanks that protojson puts in at random.
func compacted(t *testing.T, text []byte) []byte {
	t.Helper()
	var into bytes.Buffer
	wantErr(t, "Compact", json.Compact(&into, text), nil)
	return into.Bytes()
}
