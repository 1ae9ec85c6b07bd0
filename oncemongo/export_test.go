package oncemongo

// StopAfter lets a writer end after a step of an event, as if the process had: the call returns
// what f returns, and does nothing more. The steps are "record", "change", "mark", "release".
func (w *Writer) StopAfter(f func(step string) error) { w.stop = f }
