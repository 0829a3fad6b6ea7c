package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// connect opens a connection: for simple queries only, as those know that stream a slot.
func (h *History) connect(ctx context.Context, streams bool) (*pgx.Conn, error) {
	config := h.config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["intervalstyle"] = "postgres"
	config.RuntimeParams["bytea_output"] = "hex"
	if streams {
		config.RuntimeParams["replication"] = "database"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("replay: connect to the server itself, past any pooler, with an "+
			"account with REPLICATION: %w", err)
	}
	return conn, nil
}

// startStream has the slot send what is committed, from where it was read up to.
func (h *History) startStream(ctx context.Context) error {
	front := h.stream.PgConn().Frontend()
	front.SendQuery(&pgproto3.Query{String: "START_REPLICATION SLOT " +
		pgx.Identifier{h.options.Slot}.Sanitize() +
		` LOGICAL 0/0 ("include-timestamp" 'on', "include-xids" 'off')`})
	if err := front.Flush(); err != nil {
		return fmt.Errorf("replay: start the slot %s: %w", h.options.Slot, err)
	}
	for {
		message, err := h.stream.PgConn().ReceiveMessage(ctx)
		if err != nil {
			return fmt.Errorf("replay: start the slot %s: %w", h.options.Slot, err)
		}
		switch message := message.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("replay: start the slot %s: %w", h.options.Slot,
				pgconn.ErrorResponseToPgError(message))
		}
	}
}

// Read replays what was committed since the last call, to the end as of now. Call it every few
// seconds: a server ends a stream that nobody reads for wal_sender_timeout. With an error a later
// call goes on where this one ended, if the slot is not temporary: also behind a restart of the
// server.
func (h *History) Read(ctx context.Context) error {
	err := h.readOn(ctx)
	if err != nil {
		h.lines = h.lines[:0] // the rest of the transaction is lost with the connection
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = h.stream.Close(closing)
		return fmt.Errorf("replay: read the slot %s: %w", h.options.Slot, err)
	}
	return nil
}

func (h *History) readOn(ctx context.Context) error {
	if err := h.reconnect(ctx); err != nil {
		return err
	}
	var end string
	if err := h.asking.QueryRow(ctx, h.statement("log_end")).Scan(&end); err != nil {
		return err
	}
	until, err := parseLSN(end)
	if err != nil {
		return err
	}
	for h.heard < until {
		if err := h.readFor(ctx, until); err != nil {
			return err
		}
		if err := h.acknowledge(true); err != nil { // else it says nothing of what is of others
			return err
		}
	}
	return nil
}

// readFor reads the stream for a moment, or up to a place in the log.
func (h *History) readFor(ctx context.Context, until uint64) error {
	const moment = 50 * time.Millisecond
	reading, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	for h.heard < until {
		message, err := h.stream.PgConn().ReceiveMessage(reading)
		if err != nil && pgconn.Timeout(err) && ctx.Err() == nil {
			return nil
		}
		if err == nil {
			err = h.receive(message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reconnect opens again what a restart of the server has closed.
func (h *History) reconnect(ctx context.Context) error {
	if h.asking.IsClosed() {
		asking, err := h.connect(ctx, false)
		if err != nil {
			return err
		}
		h.asking = asking
	}
	if !h.stream.IsClosed() {
		return nil
	}
	if h.options.Temporary {
		return errors.New("the slot went with its connection: begin anew")
	}
	return untilFree(ctx, func() error {
		stream, err := h.connect(ctx, true)
		if err != nil {
			return err
		}
		h.stream = stream
		return h.startStream(ctx)
	})
}

// untilFree makes an attempt to use the slot, again and again while the server has not noticed that
// the connection before it has gone.
func untilFree(ctx context.Context, attempt func() error) error {
	const inUse, pause = "55006", 10 * time.Millisecond
	for {
		err := attempt()
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != inUse {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// receive takes a message of the stream: some bytes of the log, or how far the server has come.
func (h *History) receive(message pgproto3.BackendMessage) error {
	switch message := message.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(message)
	case *pgproto3.CopyData:
		const header, alive = 1 + 3*8, 1 + 2*8 + 1
		data := message.Data
		switch {
		case len(data) >= header && data[0] == 'w':
			return h.line(binary.BigEndian.Uint64(data[1:]), string(data[header:]))
		case len(data) >= alive && data[0] == 'k':
			h.heard = max(h.heard, binary.BigEndian.Uint64(data[1:]))
			if data[alive-1] == 1 {
				return h.acknowledge(false)
			}
		}
	}
	return nil
}

// acknowledge tells the server up to where the log was read, and perhaps asks how far it has come.
func (h *History) acknowledge(asks bool) error {
	read := max(h.last, h.heard)
	status := []byte{'r'}
	for range 3 { // written, flushed, applied
		status = binary.BigEndian.AppendUint64(status, read)
	}
	status = append(status, make([]byte, 8)...) // the clock, which the server does not use
	if asks {
		status = append(status, 1)
	} else {
		status = append(status, 0)
	}
	message, err := (&pgproto3.CopyData{Data: status}).Encode(nil)
	if err != nil {
		return err
	}
	return h.stream.PgConn().Frontend().SendUnbufferedEncodedCopyData(message)
}
