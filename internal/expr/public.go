package expr

// Public returns the text that a log may show, as package queue asks errors for it: all of it,
// since it never holds a value.
func (e *EvalError) Public() string { return e.Error() }
