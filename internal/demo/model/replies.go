package model

import "fmt"

// replies counts what senders were replied that the server's file does not say, and names the first
// of it: they are likely to be wrong all in the same way.
func (c *court) replies() {
	var first *Send
	var to *Callback
	for _, cb := range c.e.Callbacks {
		for i := range cb.Sends {
			s := &cb.Sends[i]
			if s.Wrong == "" {
				continue
			}
			c.WrongReplies++
			if first == nil || s.At < first.At {
				first, to = s, cb
			}
		}
	}
	if first != nil {
		c.Faults = append(c.Faults, Fault{WrongReply, to.Task, fmt.Sprintf(
			"the first of %d: to %s (%s): %s", c.WrongReplies, to.Name(), first.Why, first.Wrong)})
	}
}
