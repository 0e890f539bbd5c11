package engine

// Dialogs is how many dialogs are remembered.
func (e *Engine) Dialogs() int {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	return len(e.waiting.dialogs)
}
