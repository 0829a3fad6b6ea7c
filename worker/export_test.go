package worker

import "time"

// LooksAtWaitsAfter sets how long handlers may wait before the worker looks at that.
func (w *Worker) LooksAtWaitsAfter(d time.Duration) { w.waitsAfter = d }
