package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

const (
	// Tasks are streamed in pieces of at most this size, except for a task that is larger.
	pieceTasksMax = 1000
	pieceBytesMax = 256 << 10

	// pieceAgeMax is how old a piece gets before it is sent although it is small: the service gives
	// up clients that are silent.
	pieceAgeMax = 5 * time.Second
)

// InsertTasksFrom is [stint.Store.InsertTasksFrom]: it adds all the tasks that the sequence yields,
// or none. The tasks go to the service as the sequence yields them, no faster than the service
// inserts them, and in bounded memory.
//
// The service gives a call up that brings nothing for 30 s, and adds nothing then, so the sequence
// should not pause for longer than 20 s; and one that takes longer than an hour, unless the service
// is set to another time. The call is not repeated, since the sequence could not be. If the error
// is [ErrUnavailable], or ctx has ended, all of the tasks may have been added, or none:
// [Client.GetTasks] tells by any of the IDs, if the caller has given IDs to the tasks.
func (c *Client) InsertTasksFrom(
	ctx context.Context, tasks iter.Seq2[stint.Task, error],
) (int64, error) {
	inserted, err := c.insertTasksFrom(ctx, tasks)
	return inserted, said("insert tasks", err)
}

func (c *Client) insertTasksFrom(
	ctx context.Context, tasks iter.Seq2[stint.Task, error],
) (int64, error) {
	if err := errors.Join(ctx.Err(), c.checkOpen()); err != nil {
		return 0, err
	}
	streaming, breakOff := context.WithCancel(ctx)
	defer breakOff()
	stream, err := c.tasks.InsertTasksFrom(streaming)
	if err != nil {
		return 0, translated(ctx, err)
	}
	message := func(task stint.Task) *stintv1.Task {
		return c.fromTasks(ctx, []stint.Task{task})[0]
	}
	sourceErr, sendErr := sendPieces(tasks, message, stream.Send)
	if sourceErr != nil {
		return 0, sourceErr
	}
	response, err := stream.CloseAndReceive() // also tells why nothing could be sent
	if err == nil {
		err = sendErr
	}
	if err != nil {
		return 0, translated(ctx, err)
	}
	return response.GetInserted(), nil
}

// sendPieces sends the tasks of a sequence, until it fails or nothing more can be sent.
func sendPieces(
	tasks iter.Seq2[stint.Task, error], message func(stint.Task) *stintv1.Task,
	send func(*stintv1.InsertTasksFromRequest) error,
) (sourceErr, sendErr error) {
	piece := &stintv1.InsertTasksFromRequest{}
	bytes, sent := 0, now()
	for task, err := range tasks {
		if err != nil {
			return err, nil
		}
		piece.Tasks = append(piece.Tasks, message(task))
		bytes += proto.Size(piece.GetTasks()[len(piece.GetTasks())-1])
		if len(piece.GetTasks()) < pieceTasksMax && bytes < pieceBytesMax &&
			now().Sub(sent) < pieceAgeMax {
			continue
		}
		if err := send(piece); err != nil {
			return nil, err
		}
		piece.Tasks, bytes, sent = piece.GetTasks()[:0], 0, now()
	}
	piece.Last = true
	return nil, send(piece)
}
